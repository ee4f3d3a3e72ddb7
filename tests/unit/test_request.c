/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests are reused with their memory, unless the memory is very large. */
#include "lib/progress/request.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#define LARGE (64 * SML_REQUEST_KEEPS_BYTES)

static size_t kept(const struct sml_requests *requests)
{
	size_t bytes = 0;

	for (const struct sml_request *request = requests->all; request;
	     request = request->next_of_all)
		bytes += request->memory_bytes;
	return bytes;
}

/* A call from its submission to its end, as a worker and its caller see it. */
static void make_call(struct sml_requests *requests, size_t bytes)
{
	struct sml_request *request = sml_request_take(requests, bytes);

	assert_non_null(request);
	assert_true(request->memory_bytes >= bytes);
	memset(request->memory, 1, bytes);
	request->references = SML_REQUEST_CALLER + 1;
	sml_request_finish(requests, request);
	/* Another thread still uses it. */
	assert_true(kept(requests) >= bytes);
	assert_int_equal(((char *)request->memory)[bytes - 1], 1);
	sml_request_release(requests, request);
}

TEST(a_large_call_s_memory_is_freed_when_it_ends)
{
	struct sml_requests requests;

	sml_requests_init(&requests);
	for (int i = 0; i < 3; i++) {
		make_call(&requests, LARGE);
		assert_true(kept(&requests) <= SML_REQUEST_KEEPS_BYTES);
		make_call(&requests, 100);
	}
	sml_requests_fini(&requests);
}

TEST(an_ordinary_call_s_memory_is_used_again)
{
	struct sml_requests requests;
	const void *memory;

	sml_requests_init(&requests);
	make_call(&requests, SML_REQUEST_KEEPS_BYTES);
	memory = requests.all->memory;
	assert_non_null(memory);
	for (int i = 0; i < 3; i++) {
		make_call(&requests, 1000);
		assert_ptr_equal(requests.all->memory, memory);
	}
	assert_null(requests.all->next_of_all);
	sml_requests_fini(&requests);
}

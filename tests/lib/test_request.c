/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests are reused with their memory, unless the memory is very large. */
#include "lib/progress/request.h"
#include "support/test.h"

#include <string.h>

#define LARGE (64 * SML_REQUEST_KEEPS_BYTES)

static struct sml_requests requests;

static void begin(void)
{
	sml_requests_init(&requests);
}

static void end(void)
{
	sml_requests_fini(&requests);
}

static size_t kept(void)
{
	size_t bytes = 0;

	for (const struct sml_request *request = requests.all; request;
	     request = request->next_of_all)
		bytes += request->memory_bytes;
	return bytes;
}

/* A call from its submission to its end, as a worker and its caller see it. */
static void make_call(size_t bytes)
{
	struct sml_request *request = sml_request_take(&requests, bytes);

	assert_non_null(request);
	assert_true(request->memory_bytes >= bytes);
	memset(request->memory, 1, bytes);
	request->references = SML_REQUEST_CALLER + 1;
	sml_request_finish(&requests, request);
	/* Another thread still uses it. */
	assert_true(kept() >= bytes);
	assert_int_equal(((char *)request->memory)[bytes - 1], 1);
	sml_request_release(&requests, request);
}

TEST_WITH(a_large_call_s_memory_is_freed_when_it_ends, begin, end)
{
	for (int i = 0; i < 3; i++) {
		make_call(LARGE);
		assert_true(kept() <= SML_REQUEST_KEEPS_BYTES);
		make_call(100);
	}
}

TEST_WITH(an_ordinary_call_s_memory_is_used_again, begin, end)
{
	const void *memory;

	make_call(SML_REQUEST_KEEPS_BYTES);
	memory = requests.all->memory;
	assert_non_null(memory);
	for (int i = 0; i < 3; i++) {
		make_call(1000);
		assert_ptr_equal(requests.all->memory, memory);
	}
	assert_null(requests.all->next_of_all);
}

/* The others may sleep until the next call. */
TEST_WITH(a_call_s_time_is_counted_once_when_the_first_worker_is_done, begin, end)
{
	struct sml_request *request;

	requests.times.wanted = true;
	request = sml_request_take(&requests, 1);
	assert_non_null(request);
	request->references = SML_REQUEST_CALLER + 2;
	request->begun_ns = 0; /* longer than all bounds */
	for (int i = 0; i < 2; i++) {
		sml_request_release(&requests, request);
		assert_int_equal(requests.times.n[SML_CALL_TIMES], 1);
	}
	sml_request_finish(&requests, request);
}

/* A call that waits, with this number and so many chunks missing. */
static struct sml_request *submit(uint32_t number, uint32_t left)
{
	struct sml_request *request = sml_request_take(&requests, 1);

	assert_non_null(request);
	request->tensor = (struct sml_tensor){.number = number, .left = left};
	request->tensor.window[SML_HEAD].first = 10 * number;
	request->begun_ns = 1000 + number;
	request->deadline_ns = 2000 + number;
	request->references = SML_REQUEST_CALLER + 1;
	request->submitted = true;
	return request;
}

TEST_WITH(the_oldest_call_is_the_first_that_has_not_ended, begin, end)
{
	struct sml_request *first, *second, *third;
	struct sml_call_in_progress oldest;

	assert_false(sml_requests_oldest(&requests, &oldest));
	/* Numbers wrap around. */
	first = submit(UINT32_MAX, 2);
	second = submit(0, 3);
	third = submit(1, 4);
	assert_true(sml_requests_oldest(&requests, &oldest));
	assert_int_equal(oldest.number, UINT32_MAX);
	assert_int_equal(oldest.left, 2);
	first->tensor.left = 0;
	assert_true(sml_requests_oldest(&requests, &oldest));
	assert_int_equal(oldest.number, 0);
	assert_int_equal(oldest.head_chunk, 0);
	assert_int_equal(oldest.begun_ns, 1000);
	assert_int_equal(oldest.deadline_ns, 2000);
	/* Its job has ended. */
	second->error = -1;
	assert_true(sml_requests_oldest(&requests, &oldest));
	assert_int_equal(oldest.number, 1);
	assert_int_equal(oldest.head_chunk, 10);
	/* Idle, and taken again, but not submitted yet. */
	third->references = 1;
	sml_request_release(&requests, third);
	assert_ptr_equal(sml_request_take(&requests, 1), third);
	assert_false(sml_requests_oldest(&requests, &oldest));
}

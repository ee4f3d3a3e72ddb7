/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for requests. */
#include <errno.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/context/wait.h"

static int forked_or_null(const struct sml_request *request)
{
	if (request == NULL)
		return sml_error_set(-EINVAL, "the request is NULL");
	return request->context->owner == getpid() ? 0 : SML_ERROR_FORKED;
}

/* The end of a wait that begins now. Negative: none. */
static uint64_t end_of(int timeout_ms)
{
	return timeout_ms < 0 ? SML_WAIT_FOREVER
			      : sml_now_ns() + (unsigned)timeout_ms * SML_NS_PER_MS;
}

/* The context of all of them: NULL, and *error, if they are not of one; *error 0: all are NULL. */
static struct sml_context *context_of(struct sml_request *const *requests, size_t n, int *error)
{
	struct sml_context *context = NULL;

	*error = 0;
	for (size_t i = 0; i < n; i++) {
		if (requests[i] == NULL)
			continue;
		*error = forked_or_null(requests[i]);
		if (*error)
			return NULL;
		if (context && requests[i]->context != context) {
			*error = sml_context_refuse(context, -EINVAL,
						    "request %zu belongs to another context", i);
			return NULL;
		}
		context = requests[i]->context;
	}
	return context;
}

int sml_wait_any(struct sml_request **requests, size_t n, int timeout_ms, size_t *index)
{
	SML_NO_CANCELLATION;
	uint64_t until_ns = end_of(timeout_ms);
	struct sml_context *context;
	size_t found;
	int result;

	*index = n;
	context = context_of(requests, n, &result);
	if (context == NULL)
		return result;
	result = sml_context_wait_any(context, requests, n, until_ns, &found);
	if (result == -EAGAIN)
		return 0;
	*index = found;
	sml_request_finish(&context->requests, requests[found]);
	requests[found] = NULL;
	return result;
}

int sml_wait_for(struct sml_request *request, int timeout_ms, int *done)
{
	SML_NO_CANCELLATION;
	int result = forked_or_null(request);
	size_t index;

	*done = 1;
	if (result)
		return result;
	result = sml_wait_any(&request, 1, timeout_ms, &index);
	*done = index == 0;
	return result;
}

int sml_wait(struct sml_request *request)
{
	int done;

	return sml_wait_for(request, -1, &done);
}

int sml_test(struct sml_request *request, int *done)
{
	SML_NO_CANCELLATION;
	int result = forked_or_null(request);

	*done = 1;
	if (result)
		return result;
	result = sml_context_look(request->context, request);
	*done = result != -EAGAIN;
	if (!*done)
		return 0;
	sml_request_finish(&request->context->requests, request);
	return result;
}

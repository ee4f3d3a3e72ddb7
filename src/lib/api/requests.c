/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for requests. */
#include <errno.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/context/wait.h"

/* The end of a wait that begins now. 0: it only looks. Negative: there is none. */
static uint64_t end_of(int timeout_ms)
{
	if (timeout_ms <= 0)
		return timeout_ms ? SML_WAIT_FOREVER : 0;
	return sml_now_ns() + (unsigned)timeout_ms * SML_NS_PER_MS;
}

/* The context of all of them: NULL, and *error, if they are not of one; *error 0: all are NULL. */
static struct sml_context *context_of(struct sml_request *const *requests, size_t n, int *error)
{
	struct sml_context *context = NULL;

	*error = 0;
	for (size_t i = 0; i < n; i++) {
		if (requests[i] == NULL)
			continue;
		if (context == NULL)
			context = requests[i]->context;
		if (context->owner != getpid())
			*error = SML_ERROR_FORKED;
		else if (requests[i]->context != context)
			*error = sml_context_refuse(context, -EINVAL,
						    "request %zu belongs to another context", i);
		if (*error)
			return NULL;
	}
	return context;
}

/* The result of one of them, which is freed. -EAGAIN: none has ended. */
static int take_any(struct sml_context *context, struct sml_request **requests, size_t n,
		    uint64_t until_ns, size_t *index)
{
	int result = until_ns ? sml_context_wait_any(context, requests, n, until_ns, index)
			      : sml_context_look(context, requests, n, index);

	if (result == -EAGAIN)
		return result;
	sml_request_finish(&context->requests, requests[*index]);
	requests[*index] = NULL;
	return result;
}

static int take_all(struct sml_context *context, struct sml_request **requests, size_t n,
		    uint64_t until_ns)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		size_t ignored;
		int result =
			requests[i] ? take_any(context, requests + i, 1, until_ns, &ignored) : 0;

		if (first == 0 || first == -EAGAIN)
			first = result ? result : first;
	}
	return first;
}

int sml_wait(struct sml_request **requests, size_t n, int timeout_ms, size_t *index)
{
	SML_NO_CANCELLATION;
	uint64_t until_ns = end_of(timeout_ms);
	struct sml_context *context;
	size_t found = n;
	int result;

	context = context_of(requests, n, &result);
	if (context)
		result = index ? take_any(context, requests, n, until_ns, &found)
			       : take_all(context, requests, n, until_ns);
	if (index)
		*index = result == -EAGAIN ? n : found;
	return result;
}

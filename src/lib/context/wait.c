/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/context.h"

#include <errno.h>
#include <sched.h>

#include "lib/progress/progress.h"

/* The requests that a thread waits for, and until when. */
struct waiter {
	struct sml_context *context;
	struct sml_request *const *requests;
	size_t n;
	const struct sml_request *first_due; /* the first whose deadline passes */
	uint64_t until_ns;
};

static const struct sml_request *find_first_due(struct sml_request *const *requests, size_t n)
{
	const struct sml_request *first = NULL;

	for (size_t i = 0; i < n; i++)
		if (requests[i] && (first == NULL || requests[i]->deadline_ns < first->deadline_ns))
			first = requests[i];
	sml_assert(first != NULL);
	return first;
}

/* The first request that is over; n: none. */
static size_t find_done(const struct waiter *waiter)
{
	size_t i = 0;

	while (i < waiter->n &&
	       (waiter->requests[i] == NULL || !sml_request_is_over(waiter->requests[i])))
		i++;
	return i;
}

static size_t find_any(const struct waiter *waiter)
{
	size_t i = 0;

	while (waiter->requests[i] == NULL)
		i++;
	return i;
}

/* 0: done. Otherwise the error of its job, which has ended. It is over. */
static int result_of(const struct sml_request *request)
{
	return sml_tensor_is_done(&request->tensor)
		       ? 0
		       : __atomic_load_n(&request->error, __ATOMIC_ACQUIRE);
}

/*
 * 0: one is done. -EAGAIN: none yet. Otherwise its job's error; then no thread accesses the
 * calls' buffers any more. Under the lock.
 */
static int look_for_done(const struct waiter *waiter, size_t *index)
{
	*index = find_done(waiter);
	if (*index < waiter->n)
		return result_of(waiter->requests[*index]);
	if (!waiter->context->error_reported)
		return -EAGAIN;
	*index = find_any(waiter);
	return waiter->context->error;
}

static void spin(const struct waiter *waiter)
{
	uint64_t deadline_ns = waiter->first_due->deadline_ns;

	if (waiter->until_ns < deadline_ns)
		deadline_ns = waiter->until_ns;
	while (find_done(waiter) == waiter->n &&
	       __atomic_load_n(&waiter->context->error, __ATOMIC_RELAXED) == 0 &&
	       sml_now_ns() < deadline_ns)
		sched_yield(); /* the thread that completes it may not have its own core */
}

/* Where ranks share memory: of several, the progress thread takes care. */
static void drive(const struct waiter *waiter)
{
	const struct sml_request *request = waiter->first_due;
	uint64_t deadline_ns = request->deadline_ns;

	if (waiter->until_ns < deadline_ns)
		deadline_ns = waiter->until_ns;
	if (waiter->n == 1)
		sml_progress_drive(waiter->context->threads.threads[0], &request->tensor,
				   deadline_ns);
	else
		sml_progress_leave_alone(waiter->context->threads.threads[0]);
}

static int wait_for(const struct waiter *waiter, size_t *index)
{
	struct sml_context *context = waiter->context;
	uint64_t due_ns = waiter->first_due->deadline_ns, end_ns;
	struct timespec end;
	int result;

	while ((result = look_for_done(waiter, index)) == -EAGAIN) {
		/* A failure ends as soon as the threads have stopped; it needs no deadline. */
		end_ns = context->error || waiter->until_ns < due_ns ? waiter->until_ns : due_ns;
		end = sml_timespec(end_ns);
		if (pthread_cond_timedwait(&context->changed, &context->lock, &end) != ETIMEDOUT ||
		    (result = look_for_done(waiter, index)) != -EAGAIN)
			continue;
		if (end_ns == waiter->until_ns)
			break;
		pthread_mutex_unlock(&context->lock);
		sml_context_time_out(context, waiter->first_due);
		pthread_mutex_lock(&context->lock);
	}
	return result;
}

/* Without waiting, unless the deadline has passed; then for the threads and the record. */
static void look(const struct waiter *waiter)
{
	if (sml_now_ns() >= waiter->first_due->deadline_ns)
		sml_context_time_out(waiter->context, waiter->first_due);
	else if (waiter->context->threads.callers_drive)
		sml_progress_leave_alone(waiter->context->threads.threads[0]);
}

int sml_context_wait_any(struct sml_context *context, struct sml_request *const *requests, size_t n,
			 uint64_t until_ns, size_t *index)
{
	const struct waiter waiter = {.context = context,
				      .requests = requests,
				      .n = n,
				      .first_due = find_first_due(requests, n),
				      .until_ns = until_ns};
	int result;

	*index = find_done(&waiter);
	if (*index < n)
		return result_of(requests[*index]);
	/*
	 * What has ended with its job has no thread that could be driven. Requests are of this job
	 * as long as this thread is inside.
	 */
	if (sml_context_enter_to_wait(context) && find_done(&waiter) == n) {
		if (until_ns == 0)
			look(&waiter);
		else if (context->threads.callers_drive)
			drive(&waiter);
		else if (context->settings.config.spin)
			spin(&waiter);
	}
	pthread_mutex_lock(&context->lock);
	result = until_ns ? wait_for(&waiter, index) : look_for_done(&waiter, index);
	pthread_mutex_unlock(&context->lock);
	sml_context_exit(context);
	return result;
}

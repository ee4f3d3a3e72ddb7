/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From one job to the next, with the same context:
 *
 *	                    calls by other threads        requests of the old job
 *	1  changing         are inside, or turned away    in progress
 *	2  the job ends     return its error              in progress
 *	3  nobody inside    turned away                   return its error
 *	4  parts freed      turned away                   over: done, or with its error
 *	5  joining          turned away                   over
 *	6  the next job     made                          over
 *
 * The invariant: parts of a job change only while no call is inside (sml_context_enter()), and no
 * call is turned away without an error.
 *
 * At the switches, the old job ends like any that a rank aborts, before this rank joins the next
 * one. Nothing connects the two: name, number, epoch, tags, cookies, memory and sockets are new.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/context/membership.h"

/* ---- may it begin? ---- */

/* The caller's, as this library knows it: members that the caller does not have are 0. */
static int read_membership(struct sml_membership *own, const struct sml_membership *given)
{
	static const struct sml_sized kind = {sizeof(*own), "struct sml_membership",
					      "begin with SML_MEMBERSHIP_INIT", -EINVAL};

	*own = (struct sml_membership)SML_MEMBERSHIP_INIT;
	return sml_sized_read(&kind, own, given);
}

/* True for one thread at a time. From now on, no other call enters. */
static bool begin_change(struct sml_context *context)
{
	bool first;

	pthread_mutex_lock(&context->lock);
	first = !context->changing;
	if (first) {
		__atomic_store_n(&context->changing, true, __ATOMIC_SEQ_CST);
		context->cancelled = 0;
	}
	pthread_mutex_unlock(&context->lock);
	return first;
}

/* True: sml_abort() was called in the meantime. From now on, it finds the job. */
static bool end_change(struct sml_context *context)
{
	bool cancelled;

	pthread_mutex_lock(&context->lock);
	/* Before another thread may begin the next change. */
	cancelled = context->cancelled != 0;
	if (cancelled)
		(void)sml_context_enter_to_wait(context);
	__atomic_store_n(&context->changing, false, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&context->lock);
	return cancelled;
}

/* ---- the old job ---- */

/* The other ranks log the text, too. Returns false if the job had failed before. */
static bool give_up_job(struct sml_context *context, const struct sml_membership *next)
{
	char text[SML_TEXT_BYTES];
	bool planned;

	snprintf(text, sizeof(text),
		 "this is no failure: its members change, and it goes on in %s%s%s "
		 "(sml_reconfigure())",
		 next->job ? "job \"" : "its next membership", next->job ? next->job : "",
		 next->job ? "\"" : "");
	planned = sml_context_give_up(context, SML_ERROR_ABORTED, text, SML_ABORT_PLANNED);
	if (planned)
		sml_context_abort_job(context, SML_ERROR_ABORTED, text, SML_ABORT_PLANNED);
	return planned;
}

/* The job has failed, so each of them returns soon. */
static void await_calls(struct sml_context *context)
{
	pthread_mutex_lock(&context->lock);
	while (!context->error_reported ||
	       __atomic_load_n(&context->n_inside, __ATOMIC_SEQ_CST) > 0)
		pthread_cond_wait(&context->changed, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

/* Those who wait for requests of the old job see how these ended, and not the next job's error. */
static void end_requests(struct sml_context *context, const struct sml_membership *next)
{
	pthread_mutex_lock(&context->lock);
	sml_requests_end(&context->requests, context->error);
	__atomic_store_n(&context->error, 0, __ATOMIC_RELEASE);
	context->error_reported = context->running = false;
	snprintf(context->text, sizeof(context->text),
		 "this context waits for the members of job \"%s\" (sml_reconfigure() in another "
		 "thread)",
		 next->job ? next->job : context->settings.line);
	pthread_cond_broadcast(&context->changed);
	sml_context_notify(context);
	pthread_mutex_unlock(&context->lock);
}

static void end_job(struct sml_context *context, const struct sml_membership *next)
{
	bool planned = give_up_job(context, next);

	await_calls(context);
	sml_log_end(context, planned ? 0 : context->error);
	sml_log_counters(context);
	sml_membership_fini(context);
	end_requests(context, next);
}

/* ---- the next one ---- */

static int join(struct sml_context *context, const struct sml_membership *next)
{
	struct sml_settings *settings = &context->settings;
	int error = sml_settings_move(settings, next);

	if (error)
		return error;
	free(context->previous);
	context->previous = NULL;
	settings->config.interrupt = &context->cancelled;
	return sml_membership_join(context,
				   sml_now_ns() + settings->join_timeout_ms * SML_NS_PER_MS);
}

/* If it has begun, and failed, whoever saw that first may not be done with it. */
static void await_error(struct sml_context *context)
{
	pthread_mutex_lock(&context->lock);
	while (context->running && context->error && !context->error_reported)
		pthread_cond_wait(&context->changed, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

/* The context has no job, and its calls say why. Returns error. */
static int stay_without(struct sml_context *context, int error)
{
	char text[SML_TEXT_BYTES];

	if (__atomic_load_n(&context->cancelled, __ATOMIC_ACQUIRE))
		error = sml_error_set(SML_ERROR_ABORTED,
				      "sml_abort() has ended sml_reconfigure(), before job \"%s\" "
				      "had begun",
				      context->settings.config.job);
	snprintf(text, sizeof(text), "%s", sml_error_last());
	await_error(context);
	sml_membership_fini(context);
	sml_membership_init(context);
	pthread_mutex_lock(&context->lock);
	__atomic_store_n(&context->error, error, __ATOMIC_RELEASE);
	context->error_reported = true;
	context->running = false;
	snprintf(context->text, sizeof(context->text), "%s", text);
	pthread_cond_broadcast(&context->changed);
	sml_context_notify(context);
	pthread_mutex_unlock(&context->lock);
	return sml_error_set(error, "%s", text);
}

static int change(struct sml_context *context, const struct sml_membership *next)
{
	int error;

	end_job(context, next);
	sml_membership_init(context);
	error = join(context, next);
	return error ? stay_without(context, error) : 0;
}

int sml_reconfigure(struct sml_context *context, const struct sml_membership *membership)
{
	SML_NO_CANCELLATION;
	struct sml_membership next;
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	if (context->owner != getpid())
		return sml_error_set(SML_ERROR_FORKED, "%s", sml_error_text(context));
	error = read_membership(&next, membership);
	if (error)
		return error;
	if (!begin_change(context))
		return sml_error_set(-EBUSY,
				     "another thread is in sml_reconfigure() with this context");
	error = sml_settings_check_move(&context->settings, &next);
	if (error == 0)
		error = change(context, &next);
	if (!end_change(context))
		return error;
	/*
	 * If there is a job, the next one or still the old, all of its ranks are there, and learn
	 * of it.
	 */
	(void)sml_context_abort(context, "sml_abort() was called in sml_reconfigure()");
	if (error == 0)
		error = sml_error_set(SML_ERROR_ABORTED, "%s", sml_error_text(context));
	sml_context_exit(context);
	return error;
}

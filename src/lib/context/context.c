/* SPDX-License-Identifier: BSD-3-Clause */
/* How a context fails, and how callers learn of it. wait.c has the waits. */
#include "lib/context/context.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/thread.h"
#include "control/text.h"
#include "lib/progress/threads.h"

int sml_context_check(const struct sml_context *context)
{
	if (context->owner != getpid())
		return SML_ERROR_FORKED;
	return __atomic_load_n(&context->error, __ATOMIC_ACQUIRE);
}

/* const does not cover the lock, the condition, and the number of calls that are inside. */
static struct sml_context *mutable_of(const struct sml_context *context)
{
	return (struct sml_context *)(uintptr_t)context;
}

const char *sml_error_text(const struct sml_context *context)
{
	SML_NO_CANCELLATION;
	struct sml_context *mutable = mutable_of(context);
	char *text = sml_error_buffer();

	if (context == NULL)
		return sml_error_last();
	/*
	 * Another thread may have held the lock when this process was forked.
	 */
	if (context->owner != getpid())
		return "this context belongs to the process that opened it: a child made by fork() "
		       "must open its own context";
	pthread_mutex_lock(&mutable->lock);
	while (context->error && !context->error_reported)
		pthread_cond_wait(&mutable->changed, &mutable->lock);
	memcpy(text, context->text, SML_TEXT_BYTES);
	pthread_mutex_unlock(&mutable->lock);
	return text;
}

static bool is_changing(const struct sml_context *context)
{
	return __atomic_load_n(&context->changing, __ATOMIC_SEQ_CST);
}

bool sml_context_enter_to_wait(struct sml_context *context)
{
	__atomic_add_fetch(&context->n_inside, 1, __ATOMIC_SEQ_CST);
	return !is_changing(context);
}

bool sml_context_enter(struct sml_context *context)
{
	/* Not counted at all: with several threads that call, there may always be one inside. */
	if (is_changing(context))
		return false;
	if (sml_context_enter_to_wait(context))
		return true;
	sml_context_exit(context);
	return false;
}

void sml_context_exit(struct sml_context *context)
{
	if (__atomic_sub_fetch(&context->n_inside, 1, __ATOMIC_SEQ_CST) > 0 ||
	    !is_changing(context) || context->owner != getpid())
		return;
	/* sml_reconfigure() may be waiting for this. */
	pthread_mutex_lock(&context->lock);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

int sml_context_begin_reading(const struct sml_context *context)
{
	if (context->owner != getpid())
		return SML_ERROR_FORKED;
	return sml_context_enter(mutable_of(context)) ? 0 : SML_ERROR_CLOSED;
}

void sml_context_end_reading(const struct sml_context *context)
{
	sml_context_exit(mutable_of(context));
}

int sml_context_refuse(struct sml_context *context, int error, const char *format, ...)
{
	va_list arguments;

	pthread_mutex_lock(&context->lock);
	if (context->error == 0) {
		va_start(arguments, format);
		vsnprintf(context->text, sizeof(context->text), format, arguments);
		va_end(arguments);
	}
	pthread_mutex_unlock(&context->lock);
	return error;
}

void sml_context_tensor_done(struct sml_context *context, uint64_t n)
{
	sml_usage_end(&context->usage, n);
	/*
	 * Take the lock, because a waiter may be between its check and its sleep. Wake it only
	 * afterwards: if it preempted this thread, it would sleep again at the lock. The condition
	 * is still there, because sml_close() ends the threads first.
	 */
	pthread_mutex_lock(&context->lock);
	sml_context_notify(context);
	pthread_mutex_unlock(&context->lock);
	pthread_cond_broadcast(&context->changed);
}

void sml_context_remind(struct sml_context *context)
{
	/* Calls in progress, or done and not yet freed. */
	if (__atomic_load_n(&context->requests.chunks, __ATOMIC_RELAXED) == 0)
		return;
	pthread_mutex_lock(&context->lock);
	sml_context_notify(context);
	pthread_mutex_unlock(&context->lock);
}

bool sml_context_park_shard(struct sml_context *context, struct sml_shard *shard)
{
	struct sml_stripe *stripe = &context->stripes[shard->stripe];
	bool park, changed;

	pthread_mutex_lock(&context->lock);
	/* Read it once: the failover sets it without the lock. */
	park = __atomic_load_n(&stripe->park, __ATOMIC_SEQ_CST);
	changed = park != shard->parked;
	if (changed) {
		shard->parked = park;
		stripe->n_parked += shard->parked ? 1u : -1u;
		pthread_cond_broadcast(&context->changed);
	}
	pthread_mutex_unlock(&context->lock);
	return changed;
}

struct sml_control *sml_context_hold_control(struct sml_context *context, unsigned stripe)
{
	struct sml_control *control = NULL;

	pthread_mutex_lock(&context->lock);
	/* Without a job, after an sml_reconfigure() that failed, there is none. */
	if (stripe < context->n_stripes)
		control = __atomic_load_n(&context->stripes[stripe].control, __ATOMIC_ACQUIRE);
	if (control)
		sml_control_hold(control);
	pthread_mutex_unlock(&context->lock);
	return control;
}

void sml_context_release_control(struct sml_context *context, struct sml_control *control)
{
	if (control == NULL)
		return;
	pthread_mutex_lock(&context->lock);
	sml_control_release(control);
	pthread_mutex_unlock(&context->lock);
}

/* ---- what slots wait for ---- */

unsigned sml_context_source(const struct sml_context *context, unsigned stripe)
{
	return context->form->has_switches ? stripe : 0;
}

/* Where ranks have the slots, rank 0 passes the question on. */
static void query_switches(struct sml_context *context, bool asks, bool failed)
{
	for (unsigned i = 0; i < context->n_stripes && sml_context_source(context, i) == i; i++) {
		struct sml_control *control = sml_context_hold_control(context, i);

		if (control && failed)
			sml_control_keep_stalls(control);
		if (control && asks)
			sml_control_query(control);
		sml_context_release_control(context, control);
	}
}

void sml_context_ask(struct sml_context *context)
{
	query_switches(context, true, false);
}

/* The report of one stripe. Where ranks have the slots, rank 0 passes the others' on. */
static struct sml_stall_report *hear(struct sml_context *context, unsigned stripe,
				     uint64_t until_ns, bool failed,
				     struct sml_stall_reports *reports)
{
	struct sml_control *control =
		sml_context_hold_control(context, sml_context_source(context, stripe));
	struct sml_stall_report *told = NULL, *names = NULL, *report;
	char why[sizeof(reports->why)] = "";

	if (control) {
		told = sml_control_stalls(control, context->senders.rank[stripe], until_ns, why,
					  sizeof(why));
		names = sml_control_last_words(control);
	}
	sml_context_release_control(context, control);
	reports->n_told += told != NULL;
	if ((told == NULL || told->waits.is_partial) && reports->silent == context->n_stripes)
		reports->silent = stripe;
	report = sml_question_complete(&context->threads, stripe, told, names, failed);
	if (report == NULL && reports->complete)
		memcpy(reports->why, why, sizeof(why));
	sml_stall_report_close(told);
	sml_stall_report_close(names);
	return report;
}

void sml_context_collect(struct sml_context *context, uint64_t until_ns, bool failed,
			 struct sml_stall_reports *reports)
{
	*reports = (struct sml_stall_reports){.complete = true, .silent = context->n_stripes};
	if (failed)
		query_switches(context, until_ns > 0, true);
	for (unsigned i = 0; i < context->n_stripes; i++) {
		reports->of[i] = hear(context, i, until_ns, failed, reports);
		reports->any |= reports->of[i] != NULL;
		reports->complete &= reports->of[i] != NULL;
	}
}

/* ---- the three steps of a failure ---- */

bool sml_context_is_running(struct sml_context *context)
{
	bool running;

	pthread_mutex_lock(&context->lock);
	running = context->running;
	pthread_mutex_unlock(&context->lock);
	return running;
}

/* Returns when no thread accesses a buffer any more: each one only finishes its round. */
static void stop_threads(struct sml_context *context)
{
	sml_threads_stop(&context->threads);
	/* While the context opens, there are no calls yet, and sml_open() ends the threads. */
	if (!sml_context_is_running(context))
		return;
	sml_threads_wake(&context->threads);
	/* Wakes a failover that waits for a shard to be parked. */
	pthread_mutex_lock(&context->lock);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	sml_threads_await_stop(&context->threads);
}

/* True for the first caller only; then no thread accesses a buffer any more. */
static bool begin_failure(struct sml_context *context, int error)
{
	bool first;

	pthread_mutex_lock(&context->lock);
	first = context->error == 0;
	if (first)
		__atomic_store_n(&context->error, error, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&context->lock);
	if (first)
		stop_threads(context);
	return first;
}

/*
 * Fills in the current state of the context, with which diagnose/ explains a failure. Switches are
 * asked, and their answers awaited until until_ns; 0: only what they have said with the failure.
 */
static void set_snapshot(struct sml_context *context, int error, uint64_t until_ns,
			 struct sml_snapshot *snapshot)
{
	*snapshot = (struct sml_snapshot){
		.settings = &context->settings,
		.threads = &context->threads,
		.history = &context->history,
		.history_lock = &context->submit_lock,
		.mismatch = error == SML_ERROR_MISMATCH,
		.n_stripes = context->n_stripes,
	};
	/* A failover that runs at the same time gets another epoch. */
	pthread_mutex_lock(&context->lock);
	for (unsigned i = 0; i < context->n_stripes; i++) {
		const struct sml_stripe *stripe = &context->stripes[i];

		snapshot->stripes[i] = (struct sml_snapshot_stripe){
			.name = sml_stripe_name(stripe),
			.epoch = stripe->admission.epoch,
			.shards = stripe->shards,
			.n_shards = stripe->n_shards,
		};
	}
	pthread_mutex_unlock(&context->lock);
	sml_context_collect(context, until_ns, true, &snapshot->reports);
	sml_stall_describe(snapshot);
}

/*
 * Complete the text and the record, and then wake the waiters. snapshot: NULL while the context
 * opens, or if it gives up.
 */
static void end_failure(struct sml_context *context, int error, const char *text,
			const struct sml_snapshot *snapshot)
{
	pthread_mutex_lock(&context->lock);
	snprintf(context->text, sizeof(context->text), "%s", text);
	pthread_mutex_unlock(&context->lock);
	/* sml_open() reports its own error, and giving up is none. */
	sml_log(&context->settings.log, snapshot ? SML_LOG_ERROR : SML_LOG_TRACE, "%s", text);
	if (snapshot)
		sml_recorder_record(&context->recorder, snapshot, error, context->text);
	pthread_mutex_lock(&context->lock);
	context->error_reported = true;
	pthread_cond_broadcast(&context->changed);
	sml_context_notify(context);
	pthread_mutex_unlock(&context->lock);
}

bool sml_context_fail(struct sml_context *context, int error, const char *text)
{
	struct sml_snapshot snapshot;

	if (!begin_failure(context, error))
		return false;
	/* While the context opens, other stripes' threads write the data that a snapshot shows. */
	if (!sml_context_is_running(context)) {
		end_failure(context, error, text, NULL);
		return true;
	}
	/* A control's own thread may fail the context, and it must not wait for the switch. */
	set_snapshot(context, error, 0, &snapshot);
	end_failure(context, error, text, &snapshot);
	return true;
}

/* The first counts: the others follow from it. */
static void note_abort(struct sml_context *context, int error, const char *text, unsigned kinds)
{
	struct sml_abort_message *message = &context->abort_message;

	pthread_mutex_lock(&context->lock);
	if (message->error == 0) {
		message->error = error;
		message->kinds = kinds;
		snprintf(message->text, sizeof(message->text), "%s", text);
	}
	pthread_mutex_unlock(&context->lock);
}

bool sml_context_give_up(struct sml_context *context, int error, const char *text, unsigned kinds)
{
	if (!begin_failure(context, error))
		return false;
	/* Before the failure is complete: then a thread that looks for a switch asks for it. */
	note_abort(context, error, text, kinds);
	end_failure(context, error, text, NULL);
	return true;
}

bool sml_context_get_abort_message(struct sml_context *context, struct sml_abort_message *message)
{
	pthread_mutex_lock(&context->lock);
	while (context->error && !context->error_reported)
		pthread_cond_wait(&context->changed, &context->lock);
	*message = context->abort_message;
	if (message->error == 0 && context->error) {
		message->error = context->error;
		snprintf(message->text, sizeof(message->text), "%s", context->text);
	}
	pthread_mutex_unlock(&context->lock);
	if (message->error == 0)
		return false;
	/* To ranks that look for a switch, other errors would say something about that switch. */
	if (message->error != SML_ERROR_RANK_DIED)
		message->error = SML_ERROR_ABORTED;
	return true;
}

void sml_context_abort_job(struct sml_context *context, int error, const char *text, unsigned kinds)
{
	note_abort(context, error, text, kinds);
	for (unsigned i = 0; i < context->n_stripes; i++) {
		struct sml_control *control = sml_context_hold_control(context, i);

		if (control)
			sml_control_abort(control, error, text, kinds);
		sml_context_release_control(context, control);
	}
}

int sml_context_abort(struct sml_context *context, const char *reason)
{
	char text[SML_TEXT_BYTES], clean[SML_TEXT_BYTES - 64];
	int error = sml_context_check(context);

	if (error)
		return error;
	if (reason == NULL || *reason == '\0')
		reason = "no reason given";
	sml_text_copy(clean, sizeof(clean), reason); /* as others will read it */
	snprintf(text, sizeof(text), "rank %u aborted the job: %s", context->settings.rank, clean);
	/* Before a thread that looks for a switch can ask what to say. */
	note_abort(context, SML_ERROR_ABORTED, clean, 0);
	if (sml_context_fail(context, SML_ERROR_ABORTED, text))
		sml_context_abort_job(context, SML_ERROR_ABORTED, clean, 0);
	return 0;
}

void sml_context_fail_remote(struct sml_context *context, int error, const char *text, bool planned)
{
	if (sml_context_check(context) == 0)
		sml_context_abort_job(context, error, text,
				      SML_ABORT_TOLD | (planned ? SML_ABORT_PLANNED : 0));
	if (!planned)
		sml_context_fail(context, error, text);
	else if (sml_context_give_up(context, error, text, SML_ABORT_TOLD | SML_ABORT_PLANNED))
		sml_log(&context->settings.log, SML_LOG_INFO, "%s", text);
}

const struct sml_stripe *sml_context_find_parked(const struct sml_context *context)
{
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (__atomic_load_n(&context->stripes[i].park, __ATOMIC_SEQ_CST))
			return &context->stripes[i];
	return NULL;
}

/* The most informative lines first, and as many as fit. */
static void describe_stall(const struct sml_snapshot *snapshot, const char *call, unsigned ms,
			   char *text, size_t bytes)
{
	const struct sml_stall_lines *lines = &snapshot->lines;
	size_t length;

	length = (size_t)snprintf(text, bytes,
				  "%s did not finish within %g s (the timeout is SWITCHML_TIMEOUT)",
				  call, ms / 1e3);
	for (unsigned i = 0; i < lines->n && length < bytes; i++)
		length += (size_t)snprintf(text + length, bytes - length, "%s%s",
					   i == 0 ? ": " : "; ", lines->text[i]);
	if (!snapshot->reports.complete && length < bytes)
		snprintf(text + length, bytes - length,
			 ". A rank may not have made this call, or its path to the switch is "
			 "blocked: %s",
			 snapshot->reports.why);
}

static void describe_search(struct sml_context *context, const struct sml_stripe *parked,
			    const char *call, unsigned ms, char *text, size_t bytes)
{
	pthread_mutex_lock(&context->lock);
	snprintf(text, bytes,
		 "%s did not finish within %g s (the timeout is SWITCHML_TIMEOUT): %.200s, and no "
		 "switch has taken over (%s). Start it again, or give a second address in "
		 "SWITCHML_SWITCH (first|second)",
		 call, ms / 1e3, parked->failover.lost, parked->failover.tried);
	pthread_mutex_unlock(&context->lock);
}

void sml_context_time_out(struct sml_context *context, const struct sml_request *request)
{
	unsigned ms = (unsigned)((request->deadline_ns - request->begun_ns) / SML_NS_PER_MS);
	const struct sml_stripe *parked;
	char call[160], text[SML_TEXT_BYTES];
	struct sml_snapshot snapshot;

	if (!begin_failure(context, SML_ERROR_TIMEOUT))
		return;
	pthread_mutex_lock(&context->submit_lock);
	sml_history_text(&context->history, SML_HEAD, request->tensor.window[SML_HEAD].first, call,
			 sizeof(call));
	pthread_mutex_unlock(&context->submit_lock);
	set_snapshot(context, SML_ERROR_TIMEOUT, sml_now_ns() + SML_ASK_NS, &snapshot);
	parked = sml_context_find_parked(context);
	if (parked)
		describe_search(context, parked, call, ms, text, sizeof(text));
	else
		describe_stall(&snapshot, call, ms, text, sizeof(text));
	end_failure(context, SML_ERROR_TIMEOUT, text, &snapshot);
	sml_context_abort_job(context, SML_ERROR_TIMEOUT, text, 0);
}

/* ---- for programs with their own event loop ---- */

int sml_context_open_notifier(struct sml_context *context)
{
	/* It begins with 1, because calls may have ended before. */
	if (context->notifier_fd < 0)
		context->notifier_fd = sml_fd_own(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	return context->notifier_fd < 0 ? -errno : context->notifier_fd;
}

void sml_context_notify(const struct sml_context *context)
{
	uint64_t one = 1;

	/* It cannot be full: nobody notifies 2^64 times. A child's end of it has no context. */
	if (context->notifier_fd >= 0 && write(context->notifier_fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
}

/* ---- what the job was used for ---- */

/*
 * What each rank of a ring sends on average, of a tensor of this many bytes: one round of n - 1
 * parts of n to combine or to distribute it, and two for both.
 */
static uint64_t ring_bytes(enum sml_collective collective, uint64_t bytes, unsigned n_ranks)
{
	uint64_t round = bytes / n_ranks * (n_ranks - 1);

	switch (collective) {
	case SML_ALLREDUCE:
		return 2 * round;
	case SML_REDUCE: /* combined in parts, which go to the root */
		return round + bytes / n_ranks;
	case SML_BROADCAST:
	case SML_ALLGATHER:
	case SML_REDUCE_SCATTER:
		return round;
	case SML_BARRIER:
		break;
	}
	return 0;
}

void sml_usage_begin(struct sml_usage *usage, const struct sml_tensor_spec *spec, unsigned n_ranks,
		     uint64_t now_ns)
{
	uint64_t bytes = spec->count * sml_element_bytes(spec->type);

	usage->bytes += bytes;
	usage->ring_bytes += ring_bytes(spec->collective, bytes, n_ranks);
	if (__atomic_fetch_add(&usage->in_progress, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&usage->since_ns, now_ns, __ATOMIC_SEQ_CST);
}

void sml_usage_end(struct sml_usage *usage, uint64_t n)
{
	/* Read first: with the last call, another one may begin the next interval. */
	uint64_t since_ns = __atomic_load_n(&usage->since_ns, __ATOMIC_SEQ_CST);

	if (__atomic_fetch_sub(&usage->in_progress, n, __ATOMIC_SEQ_CST) == n)
		__atomic_add_fetch(&usage->busy_ns, sml_now_ns() - since_ns, __ATOMIC_RELAXED);
}

uint64_t sml_usage_busy_ns(const struct sml_usage *usage, uint64_t now_ns)
{
	uint64_t busy_ns = __atomic_load_n(&usage->busy_ns, __ATOMIC_RELAXED);

	/* After a failure, calls never end. */
	if (__atomic_load_n(&usage->in_progress, __ATOMIC_SEQ_CST) > 0)
		busy_ns += now_ns - __atomic_load_n(&usage->since_ns, __ATOMIC_SEQ_CST);
	return busy_ns;
}

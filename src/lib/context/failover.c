/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continue when a stripe's switch has died: see membership.h.
 *
 *	control thread   lost --> sml_failover_begin()
 *	failover thread  park the stripe's shards (each thread freezes its worker)
 *	                 look for a switch (job/rank/search.h, by lib/control/finder.h):
 *	                 join wherever one answers, with a report; where all ranks
 *	                 meet, results are handed over; admitted, probe, ready, start
 *	                 renew the shards, unpark them;
 *	                 or, if this rank only wants to leave, get Left
 *
 * If one switch cannot take over for any reason, the search goes on, until the deadline.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "lib/context/membership.h"
#include "lib/control/endpoints.h"
#include "lib/control/finder.h"
#include "lib/progress/line.h"

static bool is_over(const struct sml_context *context)
{
	return sml_threads_is_stopping(&context->threads);
}

/*
 * ---- what a stripe that has lost its switch tells the next one ----
 *
 * And what it gives to other ranks and takes from them: core/resume.h has the rules. The stripe's
 * shards are parked meanwhile.
 */

/* A report lists at most two chunks for each slot. */
#define MAX_REPORT (2 * SML_MAX_SLOTS)

struct resuming {
	struct sml_resumption resumption; /* points into this struct */
	struct sml_stripe *stripe;
	/* The shards' workers of the current and the previous epoch. */
	struct sml_worker *now[SML_MAX_SHARDS], *before[SML_MAX_SHARDS];
	bool has_result; /* of this epoch: then all ranks had begun it */
	bool has_before; /* there is a previous epoch */
	struct {
		uint32_t lacking[MAX_REPORT], kept[MAX_REPORT];
	} space[SML_STREAMS];
};

/*
 * Are the results to keep those of the current epoch, not of the previous one? Those are dropped
 * only at the first result of the current one.
 */
static bool keeps_now(const struct resuming *resuming)
{
	return resuming->has_result || !resuming->has_before;
}

static struct sml_worker *const *keepers(const struct resuming *resuming)
{
	return keeps_now(resuming) ? resuming->now : resuming->before;
}

/* ---- results that other ranks lack, or that this one does ---- */

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	const struct resuming *resuming = self;

	return sml_resume_kept(keepers(resuming), resuming->stripe->n_shards, stream, chunk,
			       n_lanes);
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	const struct resuming *resuming = self;
	struct sml_stripe *stripe = resuming->stripe;
	struct sml_context *context = stripe->context;
	uint64_t *counted = &stripe->shards[0]->counters.tensors;
	int rc = -1;

	/* Under the lock: once a failure has stopped the threads, buffers are the application's. */
	pthread_mutex_lock(&context->lock);
	if (!sml_threads_is_stopping(&context->threads))
		rc = sml_resume_adopt(resuming->now, stripe->n_shards, stream, chunk, lanes,
				      n_lanes);
	/* The shard is parked, so its thread does not update the counter. */
	if (rc > 0)
		__atomic_add_fetch(counted, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&context->lock);
	if (rc > 0)
		sml_context_tensor_done(context, 1);
	return rc;
}

/* ---- the report ---- */

static void find_workers(struct resuming *resuming)
{
	struct sml_stripe *stripe = resuming->stripe;

	resuming->has_result = resuming->has_before = false;
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		struct sml_shard *shard = stripe->shards[i];

		resuming->now[i] = &shard->worker;
		resuming->before[i] = &shard->kept;
		resuming->has_before |= shard->kept_memory != NULL;
		for (uint16_t s = 0; s < shard->worker.n_slots; s++)
			resuming->has_result |= shard->worker.slots[s].kept != SML_KEPT_NONE;
	}
}

static bool write_report(struct resuming *resuming, enum sml_stream_id stream)
{
	struct sml_resume_report *report = &resuming->resumption.reports[stream];
	uint32_t *lacking = resuming->space[stream].lacking, *kept = resuming->space[stream].kept;
	unsigned n = resuming->stripe->n_shards;

	*report = (struct sml_resume_report){
		.beyond = sml_resume_beyond(resuming->now, n, stream),
		.lacking = lacking,
		.n_lacking = sml_resume_lacking(resuming->now, n, stream, lacking, MAX_REPORT),
		.kept = kept,
		.n_kept = sml_resume_kept_chunks(keepers(resuming), n, stream, kept, MAX_REPORT),
	};
	return report->n_lacking <= MAX_REPORT && report->n_kept <= MAX_REPORT;
}

/*
 * Look at the shards, and write the report. Returns 0; or an error, also if the context has failed
 * meanwhile, and sets the error text.
 */
static int look_at_shards(struct resuming *resuming)
{
	struct sml_stripe *stripe = resuming->stripe;
	const struct sml_admission *admission = &stripe->admission;
	struct sml_context *context = stripe->context;
	bool written = true;

	find_workers(resuming);
	resuming->resumption = (struct sml_resumption){
		.epoch = admission->epoch,
		.tag = admission->report_tag,
		.membership = admission->membership,
		.self = resuming,
		.kept = give_kept,
		.adopt = adopt,
	};
	sml_submit_report(context, &resuming->resumption);
	/* Under the lock, as in sml_data_path_renew_shards(). */
	pthread_mutex_lock(&context->lock);
	for (enum sml_stream_id stream = SML_HEAD;
	     written && !sml_threads_is_stopping(&context->threads) && stream < SML_STREAMS;
	     stream++)
		written = write_report(resuming, stream);
	pthread_mutex_unlock(&context->lock);
	if (sml_threads_is_stopping(&context->threads))
		return sml_error_set(SML_ERROR_CLOSED, "the context failed in the meantime");
	return written ? 0
		       : sml_error_set(SML_ERROR_PROTOCOL,
				       "more chunks were in progress than slots can hold: the "
				       "switch gave out impossible tickets; install the same "
				       "release on it and on all ranks (if they have it, please "
				       "report this)");
}

/* ---- until a switch takes over ---- */

/* It has looked for the others for so long that they may have left. */
static bool only_leaves(const struct sml_stripe *stripe)
{
	uint64_t since_ns = __atomic_load_n(&stripe->failover.leaves_ns, __ATOMIC_ACQUIRE);

	return since_ns && sml_now_ns() >= since_ns + SML_LEAVE_WAIT_NS / 2;
}

/*
 * The join for a candidate switch. While the stripe is frozen, only a switch that has begun with it
 * changes it.
 */
static int request_join(void *self, const struct sml_reached *connection, struct sml_loop *loop,
			struct sml_control **control)
{
	struct resuming *resuming = self;
	struct sml_stripe *stripe = resuming->stripe;
	struct sml_context *context = stripe->context;
	struct sml_application application = {
		.lanes = context->shape.lanes,
		.resumption = &resuming->resumption,
	};
	int error = sml_stripe_open_control(stripe, connection, loop, control);

	if (error == 0)
		error = look_at_shards(resuming);
	if (error)
		return error;
	resuming->resumption.leaving = only_leaves(stripe);
	/* As it has begun: alone, or as one with others of this host. */
	if (context->threads.host)
		sml_hosts_advertise(stripe, &application);
	sml_control_request_join(*control, &application);
	return 0;
}

static bool get_abort_message(void *self, struct sml_abort_message *message)
{
	return sml_context_get_abort_message(((struct resuming *)self)->stripe->context, message);
}

static void log_progress(void *self, const char *text)
{
	struct sml_stripe *stripe = ((struct resuming *)self)->stripe;

	pthread_mutex_lock(&stripe->context->lock);
	snprintf(stripe->failover.tried, sizeof(stripe->failover.tried), "%s", text);
	pthread_mutex_unlock(&stripe->context->lock);
}

/* Continue with a switch that all ranks have joined. */
static int go_on(struct resuming *resuming, struct sml_control *control, uint64_t deadline_ns)
{
	struct sml_stripe *stripe = resuming->stripe;
	struct sml_admission admission;
	int error = sml_control_admission(control, NULL, &admission, deadline_ns);

	if (error)
		return error;
	/* From here on, this rank knows the new epoch. A failing call may read it. */
	pthread_mutex_lock(&stripe->context->lock);
	stripe->admission = admission;
	pthread_mutex_unlock(&stripe->context->lock);
	return sml_data_path_renew(stripe, control, deadline_ns, keeps_now(resuming));
}

/* 0, SML_FINDER_LEFT, or an error. */
static int find_switch(struct resuming *resuming, struct sml_finder *finder, uint64_t deadline_ns,
		       struct sml_control **taken)
{
	struct sml_reached connection;
	int error;

	for (;;) {
		error = sml_finder_meet(finder, taken, &connection);
		if (error)
			return error;
		sml_stripe_set_connection(resuming->stripe, &connection);
		error = go_on(resuming, *taken, deadline_ns);
		if (error == 0)
			sml_finder_keep(finder);
		if (error == 0 || is_over(resuming->stripe->context))
			return error;
		sml_finder_reject(finder, error);
	}
}

/* The lost switch comes last, because it may be frozen. */
static unsigned first_to_try(const struct sml_stripe *stripe)
{
	return (sml_endpoints_place(stripe->endpoints, stripe->connection.endpoint) + 1) %
	       stripe->endpoints->n;
}

/* The names have been looked up meanwhile. */
static void renew_endpoints(struct sml_stripe *stripe, struct sml_resolver *resolver)
{
	struct sml_endpoints *found = sml_resolver_end(resolver);

	if (found == NULL)
		return;
	found->before = stripe->endpoints;
	stripe->endpoints = found;
}

/* At the addresses that are known now. Also returns SML_FINDER_MOVED. */
static int look_once(struct resuming *resuming, struct sml_finder_config *config,
		     struct sml_control **taken)
{
	struct sml_stripe *stripe = resuming->stripe;
	struct sml_resolver *resolver;
	struct sml_finder *finder;
	int error;

	config->endpoints = stripe->endpoints->at;
	config->n_endpoints = stripe->endpoints->n;
	config->first = first_to_try(stripe);
	resolver = sml_resolver_start(stripe->context->settings.config.switch_address,
				      stripe->index, stripe->endpoints);
	config->moved = sml_resolver_moved(resolver);
	error = sml_finder_open(&finder, config);
	if (error == 0) {
		error = find_switch(resuming, finder, config->deadline_ns, taken);
		sml_finder_close(finder);
	}
	renew_endpoints(stripe, resolver);
	return error;
}

static int take_over(struct sml_stripe *stripe, struct sml_control **taken)
{
	const struct sml_settings *settings = &stripe->context->settings;
	struct resuming *resuming = calloc(1, sizeof(*resuming));
	struct sml_finder_config config = {
		.kind = SML_SEARCH_NEXT,
		.interface = settings->config.interface,
		.deadline_ns = sml_now_ns() + sml_timeout_ms(settings) * SML_NS_PER_MS,
		.heartbeat_ms = stripe->admission.heartbeat_ms,
		.settings = settings,
		.lost = stripe->failover.lost,
		.give_up = &stripe->context->threads.stop,
		.join = request_join,
		.tell = log_progress,
		.get_abort_message = get_abort_message,
		.leaves_ns = &stripe->failover.leaves_ns,
		.self = resuming,
	};
	int error = SML_FINDER_MOVED;

	if (resuming == NULL)
		return sml_error_set(-ENOMEM, "no memory to continue with another switch");
	resuming->stripe = stripe;
	while (error == SML_FINDER_MOVED)
		error = look_once(resuming, &config, taken);
	free(resuming);
	return error;
}

/* ---- the thread ---- */

static void park_shards(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	__atomic_store_n(&stripe->park, true, __ATOMIC_SEQ_CST);
	sml_threads_notify(&context->threads);
	pthread_mutex_lock(&context->lock);
	while (stripe->n_parked < stripe->n_shards && !is_over(context))
		pthread_cond_wait(&context->changed, &context->lock);
	/* A thread may not have noticed that the worker was its own again for a moment. */
	for (unsigned i = 0; i < stripe->n_shards && !is_over(context); i++)
		sml_worker_freeze(&stripe->shards[i]->worker);
	pthread_mutex_unlock(&context->lock);
}

/* Other stripes may be waiting for the exponents that were handed over: wake all. */
static void unpark_shards(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	pthread_mutex_lock(&context->lock);
	__atomic_store_n(&stripe->park, false, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	sml_threads_notify(&context->threads);
}

/* One that no call uses any more; NULL if there is none. The last one is still the stripe's. */
static struct sml_control *take_retired(struct sml_stripe *stripe)
{
	struct sml_control *taken = NULL;

	pthread_mutex_lock(&stripe->context->lock);
	for (unsigned i = 0; taken == NULL && i + 1 < stripe->n_retired; i++) {
		if (sml_control_is_held(stripe->retired[i]))
			continue;
		taken = stripe->retired[i];
		stripe->n_retired--;
		stripe->retired[i] = stripe->retired[stripe->n_retired - 1];
		stripe->retired[stripe->n_retired - 1] = stripe->retired[stripe->n_retired];
	}
	pthread_mutex_unlock(&stripe->context->lock);
	return taken;
}

/* The old control's memory is kept, because a caller may be about to use it. */
bool sml_stripe_retire_control(struct sml_stripe *stripe)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	size_t bytes = (stripe->n_retired + 1) * sizeof(stripe->control);
	struct sml_control **grown = realloc(stripe->retired, bytes), *older;

	if (grown == NULL)
		return false;
	stripe->retired = grown;
	grown[stripe->n_retired++] = stripe->control;
	sml_control_retire(stripe->control);
	while ((older = take_retired(stripe)) != NULL)
		sml_control_close(older);
	return true;
}

/* The shards are parked, and their lines have no other stripe. */
static void notify_lines(struct sml_stripe *stripe, struct sml_control *control)
{
	for (unsigned i = 0; i < stripe->n_shards; i++)
		stripe->shards[i]->line->control = control;
}

static int replace_switch(struct sml_stripe *stripe)
{
	struct sml_control *taken = NULL;
	int error;

	park_shards(stripe);
	if (!sml_stripe_retire_control(stripe))
		return sml_error_set(-ENOMEM, "no memory to continue with another switch");
	error = is_over(stripe->context) ? SML_ERROR_CLOSED : take_over(stripe, &taken);
	if (error)
		return error;
	pthread_mutex_lock(&stripe->context->lock);
	__atomic_store_n(&stripe->control, taken, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&stripe->context->lock);
	notify_lines(stripe, taken);
	return 0;
}

/* No switch has taken over. The other stripes' switches are alive, and tell the other ranks. */
static void give_up(struct sml_stripe *stripe, int error)
{
	struct sml_context *context = stripe->context;
	char text[SML_TEXT_BYTES];

	if (error != SML_ERROR_RANK_DIED && error != SML_ERROR_ABORTED)
		error = SML_ERROR_SWITCH_DIED;
	if (error == SML_ERROR_ABORTED)
		snprintf(text, sizeof(text), "%.400s, and meanwhile %.500s", stripe->failover.lost,
			 sml_error_last());
	else
		snprintf(text, sizeof(text), "%.400s, and no switch has taken over: %.500s",
			 stripe->failover.lost, sml_error_last());
	if (sml_context_fail(context, error, text))
		sml_context_abort_job(context, error, text, 0);
}

/* The shards stay parked: no call is left. */
static void note_left(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	pthread_mutex_lock(&context->lock);
	stripe->failover.left = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
}

static void say_resumed(const struct sml_stripe *stripe)
{
	const struct sml_log *log = &stripe->context->settings.log;
	const char *name = sml_stripe_name(stripe), *lost = stripe->failover.lost;
	char before[SML_TEXT_BYTES];
	int length = snprintf(before, sizeof(before), "the switch at %s ", name);

	if (strncmp(lost, before, (size_t)length) == 0)
		sml_log(log, SML_LOG_WARN, "%s; it is back, and the job goes on there (epoch %u)",
			lost, stripe->admission.epoch);
	else
		sml_log(log, SML_LOG_WARN, "%s; the switch at %s takes over (epoch %u)", lost, name,
			stripe->admission.epoch);
}

/*
 * The context has failed, or been closed, after the new switch had started the job, and before
 * others found its control: nobody else tells that switch. False: it has not.
 */
static bool leave_again(struct sml_stripe *stripe)
{
	struct sml_abort_message message;

	if (!is_over(stripe->context))
		return false;
	if (sml_context_get_abort_message(stripe->context, &message))
		sml_control_abort(stripe->control, message.error, message.text, message.kinds);
	else
		sml_control_retreat(stripe->control);
	sml_control_retire(stripe->control);
	return true;
}

static void *failover_main(void *self)
{
	struct sml_stripe *stripe = self;
	struct sml_context *context = stripe->context;
	int error = replace_switch(stripe);

	/* Only now is it certain which switch it is. */
	sml_submit_decide(stripe, error == 0);
	if (error == SML_FINDER_LEFT) {
		note_left(stripe);
		return NULL;
	}
	if (error == 0 && leave_again(stripe))
		return NULL;
	if (error == 0) {
		say_resumed(stripe);
		unpark_shards(stripe);
		error = sml_stripe_start_control(stripe);
	}
	if (error && !is_over(context))
		give_up(stripe, error);
	return NULL;
}

/* The caller that takes the thread joins it. closing: no other thread may be started. */
static bool take_thread(struct sml_stripe *stripe, bool closing)
{
	struct sml_context *context = stripe->context;
	bool taken;

	pthread_mutex_lock(&context->lock);
	taken = stripe->failover.started;
	stripe->failover.started = false;
	stripe->failover.closing |= closing;
	pthread_mutex_unlock(&context->lock);
	return taken;
}

/* The lock is held. failover.lost is set. */
static int start_thread(struct sml_stripe *stripe)
{
	int error;

	stripe->failover.tried[0] = '\0';
	__atomic_store_n(&stripe->park, true, __ATOMIC_SEQ_CST);
	error = sml_thread_start(&stripe->failover.thread, "sml-failover", failover_main, stripe);
	stripe->failover.started = error == 0;
	return error;
}

void sml_failover_begin(struct sml_stripe *stripe, const char *lost)
{
	struct sml_context *context = stripe->context;
	int error = 0;

	/* The one before ended when the control began that is lost now. */
	if (take_thread(stripe, false))
		pthread_join(stripe->failover.thread, NULL);
	pthread_mutex_lock(&context->lock);
	snprintf(stripe->failover.lost, sizeof(stripe->failover.lost), "%s", lost);
	stripe->failover.early = !context->running;
	if (context->running && !stripe->failover.closing)
		error = start_thread(stripe);
	pthread_mutex_unlock(&context->lock);
	if (error && sml_context_fail(context, SML_ERROR_SWITCH_DIED, lost))
		sml_context_abort_job(context, SML_ERROR_SWITCH_DIED, lost, 0);
}

int sml_failover_begin_early(struct sml_context *context)
{
	const char *lost = NULL;
	int error = 0;

	pthread_mutex_lock(&context->lock);
	for (unsigned i = 0; error == 0 && i < context->n_stripes; i++) {
		struct sml_stripe *stripe = &context->stripes[i];

		if (!stripe->failover.early)
			continue;
		stripe->failover.early = false;
		lost = stripe->failover.lost;
		error = start_thread(stripe);
	}
	pthread_mutex_unlock(&context->lock);
	return error ? sml_error_set(SML_ERROR_SWITCH_DIED, "%s", lost) : 0;
}

static bool is_pending(const struct sml_stripe *stripe)
{
	return __atomic_load_n(&stripe->park, __ATOMIC_SEQ_CST) && !stripe->failover.left &&
	       !stripe->context->error;
}

enum sml_failover_end sml_failover_wait_to_leave(struct sml_stripe *stripe, uint64_t deadline_ns)
{
	struct sml_context *context = stripe->context;
	uint64_t now_ns = sml_now_ns(), until_ns = now_ns + SML_LEAVE_WAIT_NS;
	struct timespec until = sml_timespec(until_ns < deadline_ns ? until_ns : deadline_ns);
	bool pending, left;
	int late = 0;

	__atomic_store_n(&stripe->failover.leaves_ns, now_ns, __ATOMIC_RELEASE);
	pthread_mutex_lock(&context->lock);
	while (is_pending(stripe) && !late)
		late = pthread_cond_timedwait(&context->changed, &context->lock, &until);
	pending = is_pending(stripe);
	left = stripe->failover.left;
	pthread_mutex_unlock(&context->lock);
	if (left)
		return SML_FAILOVER_LEFT;
	if (pending || sml_context_check(context))
		return SML_FAILOVER_NOT;
	/* If that switch is lost, too, it begins to look again. */
	__atomic_store_n(&stripe->failover.leaves_ns, 0, __ATOMIC_RELEASE);
	return SML_FAILOVER_WENT_ON;
}

void sml_failover_fini(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	bool taken = take_thread(stripe, true);

	sml_threads_stop(&context->threads);
	pthread_mutex_lock(&context->lock);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	sml_threads_wake(&context->threads);
	if (taken)
		pthread_join(stripe->failover.thread, NULL);
}

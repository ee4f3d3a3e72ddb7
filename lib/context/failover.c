/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on when a stripe's switch has died: see failover.h.
 *
 *	control thread   lost --> sml_failover_begin()
 *	failover thread  park the stripe's shards (each thread freezes its worker)
 *	                 connect, join with a report; while joining, results are
 *	                 handed over; admitted, probe, ready, start
 *	                 renew the shards, unpark them
 *
 * A switch that waits for ranks in vain closes the connection; then the list is
 * tried again from its first address, by all ranks alike.
 */
#include "lib/context/failover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "lib/context/data_path.h"
#include "lib/context/join.h"

/* A report lists at most two chunks for each slot. */
#define MAX_REPORT     (2 * SML_MAX_SLOTS)
#define CONNECT_NS     (2 * SML_NS_PER_SEC)
#define RETRY_PAUSE_NS (50 * SML_NS_PER_MS)

struct report {
	uint32_t lacking[MAX_REPORT], kept[MAX_REPORT];
};

/* The shards' workers of now and of the epoch before. */
struct generations {
	struct sml_stripe *stripe;
	struct sml_worker *now[SML_MAX_SHARDS], *kept[SML_MAX_SHARDS];
	bool has_result; /* of this epoch: then all ranks had begun it */
	bool has_kept;	 /* there is an epoch before */
};

static bool is_over(const struct sml_context *context)
{
	return sml_crew_is_stopping(&context->crew);
}

/* ---- the report ---- */

static void look_at_generations(struct sml_stripe *stripe, struct generations *generations)
{
	*generations = (struct generations){.stripe = stripe};
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		struct sml_shard *shard = stripe->shards[i];

		generations->now[i] = &shard->worker;
		generations->kept[i] = &shard->kept;
		generations->has_kept |= shard->kept_memory != NULL;
		for (uint16_t s = 0; s < shard->worker.n_slots; s++)
			generations->has_result |= shard->worker.slots[s].has_kept;
	}
}

/* Kept results are dropped only at the first result of the new epoch. */
static struct sml_worker *const *keepers(const struct generations *generations)
{
	return generations->has_result || !generations->has_kept ? generations->now
								 : generations->kept;
}

static const void *give_kept(void *self, enum sml_stream_id stream, uint32_t chunk,
			     uint16_t *n_lanes)
{
	const struct generations *generations = self;

	return sml_resume_kept(keepers(generations), generations->stripe->n_shards, stream, chunk,
			       n_lanes);
}

static int adopt(void *self, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		 uint16_t n_lanes)
{
	const struct generations *generations = self;
	const struct sml_stripe *stripe = generations->stripe;
	struct sml_context *context = stripe->context;
	uint64_t *counted = &stripe->shards[0]->counters.tensors;
	int rc = -1;

	/* Under the lock: once a failure has stopped the threads, buffers are the application's. */
	pthread_mutex_lock(&context->lock);
	if (!is_over(context))
		rc = sml_resume_adopt(generations->now, stripe->n_shards, stream, chunk, lanes,
				      n_lanes);
	/* The shard is parked: its thread does not count. */
	if (rc > 0)
		__atomic_add_fetch(counted, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&context->lock);
	if (rc > 0)
		sml_context_tensor_done(context);
	return rc;
}

static bool write_report(const struct generations *generations, enum sml_stream_id stream,
			 struct report *space, struct sml_resume_report *report)
{
	unsigned n = generations->stripe->n_shards;

	*report = (struct sml_resume_report){
		.beyond = sml_resume_beyond(generations->now, n, stream),
		.lacking = space->lacking,
		.n_lacking =
			sml_resume_lacking(generations->now, n, stream, space->lacking, MAX_REPORT),
		.kept = space->kept,
		.n_kept = sml_resume_kept_chunks(keepers(generations), n, stream, space->kept,
						 MAX_REPORT),
	};
	return report->n_lacking <= MAX_REPORT && report->n_kept <= MAX_REPORT;
}

static int write_resumption(struct generations *generations, struct report *space,
			    struct sml_resumption *resumption)
{
	const struct sml_admission *admission = &generations->stripe->admission;
	struct sml_context *context = generations->stripe->context;
	bool written = true;

	*resumption = (struct sml_resumption){
		.epoch = admission->epoch,
		.tag = admission->tag,
		.self = generations,
		.kept = give_kept,
		.adopt = adopt,
	};
	/* Under the lock, as in renew_shards(). */
	pthread_mutex_lock(&context->lock);
	for (enum sml_stream_id stream = SML_HEAD;
	     written && !is_over(context) && stream < SML_STREAMS; stream++)
		written = write_report(generations, stream, &space[stream],
				       &resumption->reports[stream]);
	pthread_mutex_unlock(&context->lock);
	if (is_over(context))
		return sml_error_set(SML_ERROR_CLOSED, "the context has failed meanwhile");
	return written ? 0
		       : sml_error_set(SML_ERROR_PROTOCOL,
				       "more was under way than slots can hold: the switch gave "
				       "out impossible tickets");
}

/* ---- one try ---- */

static int reach(struct sml_stripe *stripe, unsigned first_endpoint)
{
	const struct sml_settings *settings = &stripe->context->settings;
	struct sml_connect_config config = {
		.interface = settings->interface,
		.deadline_ns = sml_now_ns() + CONNECT_NS,
		.log = &settings->log,
	};

	return sml_stripe_connect(stripe, first_endpoint, &config);
}

static int go_on(struct sml_stripe *stripe, struct sml_control *control,
		 struct generations *generations, struct report *space, uint64_t deadline_ns)
{
	struct sml_resumption resumption;
	const struct sml_application application = {
		.lanes = stripe->context->shape.lanes,
		.resumption = &resumption,
	};
	struct sml_admission admission;
	int error = write_resumption(generations, space, &resumption);

	sml_control_watch(control, &stripe->context->crew.stop);
	if (error == 0)
		error = sml_control_join(control, &application, &admission, deadline_ns);
	if (error)
		return error;
	/* From here on the epoch is one that this rank was told. */
	stripe->admission = admission;
	return sml_data_path_renew(stripe, control, deadline_ns,
				   generations->has_result || !generations->has_kept);
}

static int try_once(struct sml_stripe *stripe, unsigned first_endpoint, struct report *space,
		    struct sml_control **taken, uint64_t deadline_ns)
{
	const struct sml_stripe_place place = {stripe->index, (uint8_t)stripe->context->n_stripes};
	struct generations generations;
	struct sml_control *control;
	int error = reach(stripe, first_endpoint);

	if (error == 0)
		error = sml_control_open(&control, &stripe->context->settings, &stripe->connection,
					 &place);
	if (error)
		return error;
	look_at_generations(stripe, &generations);
	error = go_on(stripe, control, &generations, space, deadline_ns);
	if (error)
		sml_control_close(control);
	else
		*taken = control;
	return error;
}

/* ---- until one takes over ---- */

/* What another address, or another try, may mend. */
static bool may_pass(int error)
{
	return error == SML_ERROR_UNREACHABLE || error == SML_ERROR_SWITCH_DIED ||
	       error == SML_ERROR_PROTOCOL || error == SML_ERROR_TIMEOUT ||
	       error == SML_ERROR_TLS || error > -4096;
}

/* Not beyond the deadline: the call that waits has one that is hardly later. */
static void pause_until(uint64_t then_ns, uint64_t deadline_ns)
{
	uint64_t now_ns = sml_now_ns();
	uint64_t until_ns = then_ns < deadline_ns ? then_ns : deadline_ns;

	if (until_ns > now_ns)
		poll(NULL, 0, (int)((until_ns - now_ns) / SML_NS_PER_MS + 1));
}

static int take_over(struct sml_stripe *stripe, struct sml_control **taken)
{
	struct sml_context *context = stripe->context;
	uint64_t deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	struct report *space = calloc(SML_STREAMS, sizeof(*space));
	unsigned first;
	int error;

	if (space == NULL)
		return sml_error_set(-ENOMEM, "no memory to go on with another switch");
	/* The one that was lost comes last in the first round, for it may be frozen. */
	first = (unsigned)(stripe->connection.endpoint - stripe->endpoints) + 1;
	for (first = first < stripe->n_endpoints ? first : 0;; first = 0) {
		error = try_once(stripe, first, space, taken, deadline_ns);
		if (error == 0 || !may_pass(error) || is_over(context) ||
		    sml_now_ns() >= deadline_ns)
			break;
		sml_log(&context->settings.log, SML_LOG_TRACE, "once more: %s", sml_error_last());
		pause_until(sml_now_ns() + RETRY_PAUSE_NS, deadline_ns);
	}
	free(space);
	return error;
}

/* ---- the thread ---- */

static void park_shards(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	__atomic_store_n(&stripe->park, true, __ATOMIC_SEQ_CST);
	sml_crew_wake(&context->crew);
	pthread_mutex_lock(&context->lock);
	while (stripe->n_parked < stripe->n_shards && !is_over(context))
		pthread_cond_wait(&context->changed, &context->lock);
	/* A thread may not have noticed that it had the worker back for a moment. */
	for (unsigned i = 0; i < stripe->n_shards && !is_over(context); i++)
		sml_worker_freeze(&stripe->shards[i]->worker);
	pthread_mutex_unlock(&context->lock);
}

/* Exponents that were handed over may be what other stripes wait for: all look again. */
static void unpark_shards(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	pthread_mutex_lock(&context->lock);
	__atomic_store_n(&stripe->park, false, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	sml_crew_tell(&context->crew);
}

/* The old control's memory stays, for a caller may be about to use it. */
static bool retire(struct sml_stripe *stripe)
{
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
	size_t bytes = (stripe->n_retired + 1) * sizeof(stripe->control);
	struct sml_control **grown = realloc(stripe->retired, bytes);

	if (grown == NULL)
		return false;
	stripe->retired = grown;
	grown[stripe->n_retired++] = stripe->control;
	sml_control_retire(stripe->control);
	return true;
}

static int replace_switch(struct sml_stripe *stripe)
{
	struct sml_control *taken = NULL;
	int error;

	park_shards(stripe);
	if (!retire(stripe))
		return sml_error_set(-ENOMEM, "no memory to go on with another switch");
	error = is_over(stripe->context) ? SML_ERROR_CLOSED : take_over(stripe, &taken);
	if (error)
		return error;
	__atomic_store_n(&stripe->control, taken, __ATOMIC_RELEASE);
	return 0;
}

/* No switch has taken over. The other stripes' switches live, and tell the other ranks. */
static void give_up(struct sml_stripe *stripe, int error)
{
	struct sml_context *context = stripe->context;
	char text[SML_TEXT_BYTES];

	if (error != SML_ERROR_RANK_DIED)
		error = SML_ERROR_SWITCH_DIED;
	snprintf(text, sizeof(text), "%.400s, and no switch has taken over: %.500s",
		 stripe->failover.lost, sml_error_last());
	if (sml_context_fail(context, error, text))
		sml_context_abort_job(context, error, text);
}

static void *failover_main(void *self)
{
	struct sml_stripe *stripe = self;
	struct sml_context *context = stripe->context;
	int error = replace_switch(stripe);

	if (error == 0) {
		sml_log(&context->settings.log, SML_LOG_WARN,
			"%s; the switch at %s goes on in its place (epoch %u)",
			stripe->failover.lost, sml_stripe_name(stripe), stripe->admission.epoch);
		unpark_shards(stripe);
		error = sml_stripe_start_control(stripe);
	}
	if (error && !is_over(context))
		give_up(stripe, error);
	return NULL;
}

/* Whoever takes the thread joins it. closing: no other one may be started. */
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

static int start_thread(struct sml_stripe *stripe, const char *lost)
{
	int error;

	snprintf(stripe->failover.lost, sizeof(stripe->failover.lost), "%s", lost);
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
	if (!context->running)
		error = SML_ERROR_SWITCH_DIED; /* nothing has begun that could go on */
	else if (!stripe->failover.closing)
		error = start_thread(stripe, lost);
	pthread_mutex_unlock(&context->lock);
	if (error)
		sml_context_fail(context, SML_ERROR_SWITCH_DIED, lost);
}

bool sml_failover_wait(struct sml_stripe *stripe, uint64_t deadline_ns)
{
	struct sml_context *context = stripe->context;
	struct timespec deadline = sml_timespec(deadline_ns);
	int late = 0;

	pthread_mutex_lock(&context->lock);
	while (__atomic_load_n(&stripe->park, __ATOMIC_SEQ_CST) && !context->error && !late)
		late = pthread_cond_timedwait(&context->changed, &context->lock, &deadline);
	pthread_mutex_unlock(&context->lock);
	return !late && sml_context_check(context) == 0;
}

void sml_failover_fini(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	bool taken = take_thread(stripe, true);

	sml_crew_stop(&context->crew);
	pthread_mutex_lock(&context->lock);
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	sml_crew_wake(&context->crew);
	if (taken)
		pthread_join(stripe->failover.thread, NULL);
}

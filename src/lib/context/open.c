/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening and closing a context. Opening does, in order: settings, the embedded switch (rank 0),
 * the stripes (all at once), and only then progress threads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/begin.h"
#include "lib/context/context.h"
#include "lib/context/data_path.h"
#include "lib/context/embedded.h"
#include "lib/context/failover.h"
#include "lib/context/hosts.h"
#include "lib/context/join.h"
#include "lib/context/summary.h"
#include "lib/progress/embedded_stripe.h"
#include "lib/progress/progress.h"

static bool is_embedded(const struct sml_context *context)
{
	return context->settings.switch_address == NULL;
}

/* ---- stripes ---- */

static int make_stripes(struct sml_context *context)
{
	const char *address = context->settings.switch_address;
	/* Ranks that embed them learn their number through the first stripe's connection. */
	int n = address ? sml_endpoints_stripes(address) : context->settings.world_size;

	if (n < 0)
		return n;
	context->stripes = calloc((size_t)n, sizeof(*context->stripes));
	if (context->stripes == NULL)
		return sml_error_set(-ENOMEM, "no memory for %d stripes", n);
	context->n_stripes = address ? (unsigned)n : 1;
	for (unsigned i = 0; i < (unsigned)n; i++) {
		context->stripes[i].context = context;
		context->stripes[i].index = (uint8_t)i;
		context->stripes[i].door.fd = -1;
	}
	return 0;
}

/*
 * Names the switch in an error, if there are several. The first error that is not a consequence of
 * another one counts.
 */
static void note_failure(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	if (context->n_stripes == 1 || context->peers)
		snprintf(stripe->text, sizeof(stripe->text), "%s", sml_error_last());
	else
		snprintf(stripe->text, sizeof(stripe->text), "stripe %u (%s): %.600s",
			 stripe->index, sml_stripe_name(stripe), sml_error_last());
	/* The others would wait for nothing. */
	if (stripe->error != SML_ERROR_CLOSED)
		sml_context_fail(context, stripe->error, stripe->text);
}

/*
 * Connect, join, open the transports, prove the paths, start. Afterwards the
 * control connection has its thread and `lanes` are known. 0, or an error told
 * by sml_error_set(): SML_ERROR_CLOSED when another stripe has failed.
 */
static int open_stripe(struct sml_stripe *stripe)
{
	int error;

	if (is_embedded(stripe->context))
		return sml_embedded_open(stripe);
	error = sml_stripe_begin(stripe);
	/* From now on, because other stripes may take long to get this far. */
	return error ? error : sml_stripe_start_control(stripe);
}

static void *open_main(void *self)
{
	struct sml_stripe *stripe = self;

	stripe->error = open_stripe(stripe);
	if (stripe->error)
		note_failure(stripe);
	return NULL;
}

static void open_stripes(struct sml_context *context, uint64_t deadline_ns)
{
	unsigned n_started = 1;

	for (unsigned i = 0; i < context->n_stripes; i++)
		context->stripes[i].deadline_ns = deadline_ns;
	for (; n_started < context->n_stripes; n_started++) {
		struct sml_stripe *stripe = &context->stripes[n_started];

		if (sml_thread_start(&stripe->opener, "sml-open", open_main, stripe) < 0) {
			sml_context_fail(
				context, -ENOMEM,
				"the thread that connects to a stripe's switch cannot be started");
			break;
		}
	}
	open_main(&context->stripes[0]);
	for (unsigned i = 1; i < n_started; i++)
		pthread_join(context->stripes[i].opener, NULL);
}

/* All threads that opened stripes have ended. */
static void settle_hosts(struct sml_context *context)
{
	int error;

	for (unsigned i = 0; i < context->n_stripes; i++)
		if (context->stripes[i].error)
			return;
	error = sml_hosts_settle_under(context);
	if (error)
		sml_context_fail(context, error, sml_error_last());
}

/* 0; or the error of a stripe or of a control connection, told. */
static int opening_error(struct sml_context *context, bool then_running)
{
	int error;

	pthread_mutex_lock(&context->lock);
	error = context->error;
	context->running = then_running && !error;
	/* The flag need not outlive sml_open(). A failover, which begins later, does not read it.
	 */
	if (context->running)
		context->settings.interrupt = NULL;
	while (context->error && !context->error_told)
		pthread_cond_wait(&context->changed, &context->lock);
	pthread_mutex_unlock(&context->lock);
	if (error == 0)
		return 0;
	/*
	 * The other ranks should learn the cause, and not only that this rank is gone. But ranks
	 * that still gather can do so without this one, which may come again; with several
	 * stripes, they would wait for a switch that has refused it.
	 */
	if (context->n_stripes > 1 || sml_control_is_admitted(context->stripes[0].control))
		sml_context_abort_job(context, error, context->text);
	return sml_error_set(error, "%s", context->text);
}

/* ---- threads ---- */

static int start_threads(struct sml_context *context)
{
	int error = 0;

	for (unsigned i = 0; error == 0 && i < context->threads.n_threads; i++)
		error = sml_progress_start(context->threads.threads[i]);
	return error;
}

/* All ranks are there. If this one cannot go on, the others learn why. */
static int start_context(struct sml_context *context)
{
	char text[SML_TEXT_BYTES];
	int error = sml_data_path_open(context);

	if (error == 0)
		error = start_threads(context);
	/* From now on a switch that dies is replaced. */
	if (error == 0) {
		error = opening_error(context, true);
		if (error)
			return error;
		error = sml_metrics_file_start(context);
	}
	if (error == 0)
		return 0;
	snprintf(text, sizeof(text), "%s", sml_error_last());
	sml_context_abort_job(context, error, text);
	return sml_error_set(error, "%s", text);
}

/* ---- open and close ---- */

/* Ends the control connections and frees the shards, which no thread uses any more. */
static void close_stripe(struct sml_stripe *stripe)
{
	if (stripe->n_retired == 0 || stripe->control != stripe->retired[stripe->n_retired - 1])
		sml_control_close(stripe->control);
	for (unsigned i = 0; i < stripe->n_retired; i++)
		sml_control_close(stripe->retired[i]);
	free(stripe->retired);
	for (unsigned i = 0; i < stripe->n_shards; i++)
		sml_shard_free(stripe->shards[i]);
	sml_data_path_close(stripe->transports);
}

/* Frees the parts that exist. */
static void destroy(struct sml_context *context)
{
	/* No search for a switch is running any more, so these controls are the last ones. */
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_failover_fini(&context->stripes[i]);
	/* End their threads first: they may be reporting what the shards were waiting for. */
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (context->stripes[i].control)
			sml_control_retire(context->stripes[i].control);
	sml_recorder_fini(&context->recorder);
	sml_metrics_file_fini(&context->metrics_file);
	for (unsigned i = 0; i < context->threads.n_threads; i++)
		sml_progress_free(context->threads.threads[i]);
	sml_tracing_fini(context);
	for (unsigned i = 0; i < context->n_stripes; i++)
		close_stripe(&context->stripes[i]);
	sml_hosts_fini(context);
	free(context->stripes);
	sml_embedded_stripe_free(context->threads.own);
	free(context->peers);
	if (context->embedded)
		sml_switch_close(context->embedded);
	sml_requests_fini(&context->requests);
	sml_settings_fini(&context->settings);
	sml_threads_fini(&context->threads);
	sml_bell_fini(&context->bell);
	pthread_mutex_destroy(&context->submit_lock);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->changed);
	free(context);
}

static int set_up(struct sml_context *context, const struct sml_config *config)
{
	uint64_t deadline_ns;
	int error = sml_settings_init(&context->settings, config);

	if (error)
		return error;
	error = sml_tracing_open(context);
	if (error)
		return error;
	context->threads.spin = context->settings.spin;
	context->threads.sched_batch = context->settings.sched_batch;
	deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	error = make_stripes(context);
	if (error == 0 && is_embedded(context) && context->settings.rank == 0)
		error = sml_embedded_listen(context);
	if (error)
		return error;
	sml_hosts_begin(context);
	open_stripes(context, deadline_ns);
	settle_hosts(context);
	error = opening_error(context, false);
	return error ? error : start_context(context);
}

static void tensor_done(void *self, uint64_t n)
{
	sml_context_tensor_done(self, n);
}

static bool park_shard(void *self, struct sml_shard *shard)
{
	return sml_context_park_shard(self, shard);
}

int sml_open(struct sml_context **opened, const struct sml_config *config)
{
	SML_NO_CANCELLATION;
	struct sml_context *context;
	struct sml_threads_owner owner = {.tensor_done = tensor_done, .park = park_shard};
	struct sml_config own;
	int error;

	*opened = NULL;
	if (config == NULL) {
		error = sml_config_init(&own);
		if (error)
			return error;
		config = &own;
	}
	context = calloc(1, sizeof(*context));
	if (context == NULL)
		return sml_error_set(-ENOMEM, "no memory for a context");
	owner.self = context;
	context->owner = getpid();
	context->hosts.found.fd = -1;
	pthread_mutex_init(&context->submit_lock, NULL);
	pthread_mutex_init(&context->lock, NULL);
	sml_cond_init(&context->changed);
	sml_requests_init(&context->requests);
	sml_bell_init(&context->bell);
	sml_tracing_init(&context->tracing);
	sml_recorder_init(&context->recorder);
	sml_metrics_file_init(&context->metrics_file);
	sml_threads_init(&context->threads, &context->requests, &owner);
	error = set_up(context, config);
	if (error) {
		destroy(context);
		return error;
	}
	context->usage.opened_ns = sml_now_ns();
	sml_log_start(context);
	sml_log_choices(context);
	*opened = context;
	return 0;
}

static int tell_lost_barrier(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	char text[SML_TEXT_BYTES];

	pthread_mutex_lock(&context->lock);
	snprintf(text, sizeof(text),
		 "%.300s while this rank was leaving, with all its calls done. The other ranks may "
		 "have left: they did not all join another switch (%.500s)",
		 stripe->failover.lost, stripe->failover.tried);
	pthread_mutex_unlock(&context->lock);
	return sml_error_set(SML_ERROR_SWITCH_DIED, "%s", text);
}

/* The context has failed, and its text says why; or the time is up. */
static int tell_why_not_left(struct sml_stripe *stripe)
{
	int error = sml_context_check(stripe->context);

	return error ? sml_error_set(error, "%s", sml_error_text(stripe->context))
		     : tell_lost_barrier(stripe);
}

/* Of its current switch: as sml_control_leave(). A stripe without a control has been left. */
static int leave_control(struct sml_stripe *stripe, uint64_t deadline_ns)
{
	struct sml_control *control = sml_context_hold_control(stripe->context, stripe->index);
	int error = control ? sml_control_leave(control, deadline_ns) : 0;

	sml_context_release_control(stripe->context, control);
	return error;
}

/* A leaver takes part in resumes until all have asked to leave. */
static int leave_stripe(struct sml_stripe *stripe, uint64_t deadline_ns)
{
	int error;

	for (;;) {
		error = leave_control(stripe, deadline_ns);
		if (error <= 0)
			return error;
		switch (sml_failover_wait_to_leave(stripe, deadline_ns)) {
		case SML_FAILOVER_WENT_ON:
			continue;
		case SML_FAILOVER_LEFT:
			sml_log(&stripe->context->settings.log, SML_LOG_WARN,
				"%s while this rank was leaving; it has left at another switch, "
				"where no rank has calls to make",
				stripe->failover.lost);
			return 0;
		case SML_FAILOVER_NOT:
			return tell_why_not_left(stripe);
		}
	}
}

/*
 * Leaving is a barrier at each switch, in the same order on all ranks. A rank that has passed the
 * first barrier knows that no rank waits for a result of any stripe, so what happens at the other
 * switches is not an error of the job.
 */
static int leave(struct sml_context *context)
{
	uint64_t deadline_ns = sml_now_ns() + context->settings.timeout_ms * SML_NS_PER_MS;
	int error = leave_stripe(&context->stripes[0], deadline_ns);

	for (unsigned i = 1; error == 0 && i < context->n_stripes; i++)
		(void)leave_control(&context->stripes[i], deadline_ns);
	return error;
}

int sml_close(struct sml_context *context)
{
	SML_NO_CANCELLATION;
	int error;

	if (context == NULL)
		return 0;
	/* In a child made by fork(), the threads that own everything do not exist. */
	if (context->owner != getpid())
		return sml_error_set(SML_ERROR_FORKED, "%s", sml_error_text(context));
	error = sml_context_check(context);
	if (error)
		sml_error_set(error, "%s", sml_error_text(context));
	else
		error = leave(context);
	sml_log_end(context, error);
	sml_log_counters(context);
	destroy(context);
	return error;
}

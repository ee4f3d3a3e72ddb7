/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context from sml_open() to sml_close(): joining a job, and what is left of it at its end. In
 * order: the stripes' memory, rank 0's port, the stripes' joins (all at once), and only then
 * progress threads.
 */
#include "lib/context/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/progress/line.h"
#include "lib/progress/progress.h"

/* ---- stripes ---- */

int sml_membership_make_stripes(struct sml_context *context, unsigned most, unsigned n,
				uint64_t deadline_ns)
{
	context->stripes = calloc(most, sizeof(*context->stripes));
	if (context->stripes == NULL)
		return sml_error_set(-ENOMEM, "no memory for %u stripes", most);
	context->n_stripes = n;
	for (unsigned i = 0; i < most; i++) {
		context->stripes[i].context = context;
		context->stripes[i].index = (uint8_t)i;
		context->stripes[i].listener.fd = -1;
		context->stripes[i].deadline_ns = deadline_ns;
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

	if (context->n_stripes == 1 || !context->form->has_switches)
		snprintf(stripe->text, sizeof(stripe->text), "%s", sml_error_last());
	else
		snprintf(stripe->text, sizeof(stripe->text), "stripe %u (%s): %.600s",
			 stripe->index, sml_stripe_name(stripe), sml_error_last());
	/* The others would wait for nothing. */
	if (stripe->error != SML_ERROR_CLOSED)
		sml_context_fail(context, stripe->error, stripe->text);
}

int sml_membership_decided(struct sml_stripe *stripe)
{
	const struct sml_decided *decided = stripe->admission.decided;
	struct sml_context *context = stripe->context;
	int *previous = malloc(decided->world_size * sizeof(*previous));
	int error;

	if (previous == NULL)
		return sml_error_set(-ENOMEM, "no memory for the members' previous ranks");
	for (unsigned rank = 0; rank < decided->world_size; rank++)
		previous[rank] = decided->before[rank] - 1;
	free(context->previous);
	context->previous = previous;
	error = sml_settings_decide(&context->settings, decided);
	if (error == 0 && context->tracing.path == NULL)
		error = sml_tracing_open(context);
	pthread_mutex_lock(&context->lock);
	context->decided = true;
	pthread_cond_broadcast(&context->changed);
	pthread_mutex_unlock(&context->lock);
	return error;
}

void sml_membership_note_rank(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	struct sml_past_ranks *past = &context->settings.past;

	if (stripe->index != 0 || stripe->admission.report_tag == 0)
		return;
	/* That job cannot have begun, so a process that was new still is. */
	if (context->settings.asks && !context->running && !stripe->may_have_begun &&
	    past->ran.tag == 0)
		past->admitted = (struct sml_past_rank){.tag = 0};
	else
		sml_settings_note_rank(&context->settings, stripe->admission.report_tag,
				       context->running);
}

/* Stripe 0's switch decides; until then, this rank cannot join at the others. */
static void await_decision(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	pthread_mutex_lock(&context->lock);
	while (stripe->index > 0 && !context->decided && !context->error)
		pthread_cond_wait(&context->changed, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

/*
 * Connects, joins, opens the transports, proves the paths, starts. Afterwards the control
 * connection has its thread. 0, or an error told by sml_error_set(): SML_ERROR_CLOSED if another
 * stripe has failed.
 */
static int open_stripe(struct sml_stripe *stripe)
{
	int error;

	await_decision(stripe);
	error = sml_stripe_begin(stripe);
	if (error == 0 && stripe->context->form->open)
		error = stripe->context->form->open(stripe);
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

static void open_stripes(struct sml_context *context)
{
	unsigned n_started = 1;

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
static void be_ready(struct sml_context *context)
{
	int error;

	for (unsigned i = 0; i < context->n_stripes; i++)
		if (context->stripes[i].error)
			return;
	error = context->form->ready ? context->form->ready(context) : 0;
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
		context->settings.config.interrupt = NULL;
	while (context->error && !context->error_reported)
		pthread_cond_wait(&context->changed, &context->lock);
	pthread_mutex_unlock(&context->lock);
	if (error == 0)
		return 0;
	/*
	 * The other ranks should learn the cause, and not only that this rank is gone. But ranks
	 * that still gather can do so without this one, which may come again; with several
	 * stripes, they would wait for a switch that has refused it. Only a switch says that
	 * another rank is dead.
	 */
	if (context->n_stripes > 1 || sml_control_is_admitted(context->stripes[0].control))
		sml_context_abort_job(context, error, context->text,
				      error == SML_ERROR_RANK_DIED ? SML_ABORT_TOLD : 0);
	return sml_error_set(error, "%s", context->text);
}

/* ---- threads ---- */

static int start_threads(struct sml_context *context)
{
	int error = 0;

	for (unsigned i = 0; error == 0 && i < context->threads.n_threads; i++)
		error = sml_progress_start(context->threads.threads[i], sml_progress_main);
	return error;
}

/* All ranks are there. If this one cannot go on, the others learn why. */
static int start_context(struct sml_context *context)
{
	char text[SML_TEXT_BYTES];
	int error = sml_data_path_open(context);

	if (error == 0)
		error = start_threads(context);
	/* From now on a switch that dies is replaced, and what is logged here changes. */
	if (error == 0) {
		sml_log_start(context);
		sml_log_choices(context);
		error = opening_error(context, true);
		if (error)
			return error;
		error = sml_failover_begin_early(context);
	}
	if (error == 0)
		error = sml_metrics_file_start(context);
	if (error == 0)
		return 0;
	snprintf(text, sizeof(text), "%s", sml_error_last());
	sml_context_abort_job(context, error, text, 0);
	return sml_error_set(error, "%s", text);
}

/* ---- the beginning ---- */

static void tensor_done(void *self, uint64_t n)
{
	sml_context_tensor_done(self, n);
}

static bool park_shard(void *self, struct sml_shard *shard)
{
	return sml_context_park_shard(self, shard);
}

void sml_membership_init(struct sml_context *context)
{
	const struct sml_threads_owner owner = {
		.self = context, .tensor_done = tensor_done, .park = park_shard};

	context->hosts = (struct sml_hosts){.found = {.fd = -1}};
	context->senders = (struct sml_senders){.n = 0};
	context->shape = (struct sml_shape){.lanes = 0};
	context->sequence = (struct sml_sequence){.number = 0};
	/* sml_count_elsewhere() may be called meanwhile. */
	pthread_mutex_lock(&context->lock);
	context->abort_message = (struct sml_abort_message){.error = 0};
	context->usage = (struct sml_usage){.opened_ns = 0};
	pthread_mutex_unlock(&context->lock);
	context->history.n = context->history.n_names = 0;
	context->late = (struct sml_late){.waits = false};
	pthread_mutex_init(&context->late.lock, NULL);
	sml_tracing_init(&context->tracing);
	sml_recorder_init(&context->recorder);
	sml_threads_init(&context->threads, &context->requests, &owner);
}

int sml_membership_join(struct sml_context *context, uint64_t deadline_ns)
{
	/* Its name may have the rank. */
	int error = context->settings.asks ? 0 : sml_tracing_open(context);
	uint32_t changes;

	if (error)
		return error;
	context->decided = !context->settings.asks;
	context->threads.spin = context->settings.config.spin != 0;
	context->form =
		context->settings.config.switch_address ? &sml_form_switches : &sml_form_ranks;
	error = context->form->begin(context, deadline_ns);
	if (error)
		return error;
	sml_hosts_begin(context);
	open_stripes(context);
	be_ready(context);
	error = opening_error(context, false);
	/* All members are told the same. Later, a switch that takes over changes the admission. */
	changes = context->stripes[0].admission.changes;
	if (error == 0)
		error = start_context(context);
	if (error == 0)
		sml_settings_note_begun(&context->settings, changes);
	context->usage.opened_ns = sml_now_ns();
	return error;
}

/* ---- the end ---- */

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
	sml_endpoints_free(stripe->endpoints);
}

/* Where the next membership is decided on, and what this rank was. */
static void note_end(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;

	if (context->running)
		context->settings.stripe_tags[stripe->index] = stripe->admission.report_tag;
	sml_membership_note_rank(stripe);
	if (stripe->index == 0 && stripe->connection.endpoint)
		context->last_switch =
			sml_endpoints_place(stripe->endpoints, stripe->connection.endpoint);
}

/* Of a job that has failed here, whatever the reason: to no switch has this rank died. */
static void tell_end(struct sml_context *context)
{
	struct sml_abort_message message;

	/* Another stripe's thread may be failing the context just now. */
	if (!sml_context_get_abort_message(context, &message))
		return;
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (sml_control_is_admitted(context->stripes[i].control))
			sml_control_abort(context->stripes[i].control, message.error, message.text,
					  message.kinds);
}

static void end_control(struct sml_control *control, bool goes_on)
{
	if (control == NULL)
		return;
	if (goes_on)
		sml_control_go_on(control);
	sml_control_retire(control);
}

void sml_membership_fini(struct sml_context *context)
{
	const bool goes_on = __atomic_load_n(&context->changing, __ATOMIC_SEQ_CST);

	/* No search for a switch is running any more, so these controls are the last ones. */
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_failover_fini(&context->stripes[i]);
	tell_end(context);
	for (unsigned i = 0; i < context->n_stripes; i++)
		note_end(&context->stripes[i]);
	/* End their threads first: they may be reporting what the shards were waiting for. */
	for (unsigned i = 0; i < context->n_stripes; i++)
		end_control(context->stripes[i].control, goes_on);
	pthread_mutex_destroy(&context->late.lock);
	sml_recorder_fini(&context->recorder);
	sml_metrics_file_stop(&context->metrics_file);
	for (unsigned i = 0; i < context->threads.n_threads; i++)
		sml_progress_free(context->threads.threads[i]);
	sml_tracing_fini(context);
	sml_context_keep_counters(context);
	for (unsigned i = 0; i < context->n_stripes; i++)
		close_stripe(&context->stripes[i]);
	sml_hosts_fini(context);
	free(context->stripes);
	context->stripes = NULL;
	context->n_stripes = 0;
	sml_embedded_stripe_free(context->threads.own);
	free(context->peers);
	context->peers = NULL;
	/* Until rank 0 of the next membership is known: the same one may keep it. */
	if (!goes_on)
		sml_listen_close(context);
	sml_threads_fini(&context->threads);
}

/* ---- opening and closing a context ---- */

/* Frees the parts that exist. */
static void destroy(struct sml_context *context)
{
	sml_membership_fini(context);
	sml_metrics_file_fini(&context->metrics_file);
	sml_requests_fini(&context->requests);
	sml_settings_fini(&context->settings);
	if (context->notifier_fd >= 0)
		sml_fd_close(context->notifier_fd);
	pthread_mutex_destroy(&context->submit_lock);
	pthread_mutex_destroy(&context->lock);
	pthread_cond_destroy(&context->changed);
	pthread_cond_destroy(&context->released);
	free(context->previous);
	free(context);
}

static int set_up(struct sml_context *context, const struct sml_config *config)
{
	int error = sml_settings_init(&context->settings, config);

	return error ? error
		     : sml_membership_join(context,
					   sml_now_ns() + sml_timeout_ms(&context->settings) *
								  SML_NS_PER_MS);
}

int sml_open(struct sml_context **opened, const struct sml_config *config)
{
	SML_NO_CANCELLATION;
	struct sml_context *context;
	struct sml_config own = SML_CONFIG_INIT;
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
	context->owner = getpid();
	pthread_mutex_init(&context->submit_lock, NULL);
	pthread_mutex_init(&context->lock, NULL);
	sml_cond_init(&context->changed);
	sml_cond_init(&context->released);
	sml_requests_init(&context->requests);
	context->notifier_fd = -1;
	sml_metrics_file_init(&context->metrics_file);
	sml_membership_init(context);
	error = set_up(context, config);
	if (error) {
		destroy(context);
		return error;
	}
	*opened = context;
	return 0;
}

static int report_lost_barrier(struct sml_stripe *stripe)
{
	struct sml_context *context = stripe->context;
	char text[SML_TEXT_BYTES];

	pthread_mutex_lock(&context->lock);
	snprintf(text, sizeof(text),
		 "%.300s while this rank was leaving, with all its calls done. The other ranks may "
		 "have left: they did not all join another switch (%s)",
		 stripe->failover.lost, stripe->failover.tried);
	pthread_mutex_unlock(&context->lock);
	return sml_error_set(SML_ERROR_SWITCH_DIED, "%s", text);
}

/* The context has failed, and its text says why; or the time is up. */
static int report_not_left(struct sml_stripe *stripe)
{
	int error = sml_context_check(stripe->context);

	return error ? sml_error_set(error, "%s", sml_error_text(stripe->context))
		     : report_lost_barrier(stripe);
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
			return report_not_left(stripe);
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
	uint64_t deadline_ns = sml_now_ns() + sml_timeout_ms(&context->settings) * SML_NS_PER_MS;
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

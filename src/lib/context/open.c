/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a context. membership.c joins its job, and ends it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/context/failover.h"
#include "lib/context/membership.h"
#include "lib/context/summary.h"

/* Frees the parts that exist. */
static void destroy(struct sml_context *context)
{
	sml_membership_fini(context);
	sml_metrics_file_fini(&context->metrics_file);
	sml_requests_fini(&context->requests);
	sml_settings_fini(&context->settings);
	sml_notifier_fini(&context->notifier);
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
	sml_notifier_init(&context->notifier);
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

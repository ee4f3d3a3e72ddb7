/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that query a context, or end its job. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/context.h"

/* sml_reconfigure() may change both at the same time. */
int sml_rank(const struct sml_context *context)
{
	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	return (int)__atomic_load_n(&context->settings.rank, __ATOMIC_RELAXED);
}

int sml_world_size(const struct sml_context *context)
{
	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	return (int)__atomic_load_n(&context->settings.world_size, __ATOMIC_RELAXED);
}

int sml_previous_rank(struct sml_context *context, int rank)
{
	int previous = -1;

	if (context == NULL || !sml_context_enter(context))
		return -1;
	if (context->previous && rank >= 0 && rank < sml_world_size(context))
		previous = context->previous[rank] - 1;
	sml_context_exit(context);
	return previous;
}

int sml_waiting(struct sml_context *context)
{
	struct sml_control *control;
	int n;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	if (!sml_context_enter(context))
		return 0;
	control = sml_context_hold_control(context, 0);
	n = control ? (int)sml_control_waiting(control) : 0;
	sml_context_release_control(context, control);
	sml_context_exit(context);
	return n;
}

/* False: no other thread replaces the job. */
static bool cancel_change(struct sml_context *context)
{
	bool changing;

	pthread_mutex_lock(&context->lock);
	changing = context->changing;
	/* sml_reconfigure() reads it again under the lock before it lets calls in. */
	if (changing)
		__atomic_store_n(&context->cancelled, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&context->lock);
	return changing;
}

int sml_abort(struct sml_context *context, const char *reason)
{
	SML_NO_CANCELLATION;
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	if (context->owner != getpid())
		return SML_ERROR_FORKED;
	/* Not inside, and no change any more: one has just ended. */
	while (!sml_context_enter(context))
		if (cancel_change(context))
			return 0;
	error = sml_context_abort(context, reason);
	sml_context_exit(context);
	return error;
}

int sml_set_timeout(struct sml_context *context, int timeout_ms)
{
	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	if (timeout_ms < 1)
		return sml_context_refuse(context, -EINVAL,
					  "timeout_ms is %d: it must be at least 1", timeout_ms);
	__atomic_store_n(&context->settings.config.timeout_ms, timeout_ms, __ATOMIC_RELAXED);
	return 0;
}

int sml_event_fd(struct sml_context *context)
{
	SML_NO_CANCELLATION;
	int fd;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	if (context->owner != getpid())
		return SML_ERROR_FORKED;
	pthread_mutex_lock(&context->lock);
	fd = sml_bell_open(&context->bell);
	pthread_mutex_unlock(&context->lock);
	if (fd < 0)
		return sml_context_refuse(context, fd, "no file descriptor for the event loop: %s",
					  strerrordesc_np(-fd));
	return fd;
}

const char *sml_version(void)
{
	return SML_VERSION_STRING;
}

int sml_version_number(void)
{
	return SML_VERSION_NUMBER;
}

int sml_has_tls(void)
{
	return sml_tls_is_built();
}

void sml_count_elsewhere(struct sml_context *context, const char *where, uint64_t calls)
{
	if (context == NULL || context->owner != getpid())
		return;
	pthread_mutex_lock(&context->lock);
	context->usage.n_elsewhere += calls;
	snprintf(context->usage.elsewhere, sizeof(context->usage.elsewhere), "%s", where);
	pthread_mutex_unlock(&context->lock);
}

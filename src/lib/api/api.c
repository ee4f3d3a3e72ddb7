/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that query a context, or end its job. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/sized.h"
#include "base/thread.h"
#include "lib/context/context.h"
#include "lib/context/membership.h"

/* Inside. */
static void describe(const struct sml_context *context, struct sml_info *info)
{
	struct sml_context *mutable = (struct sml_context *)(uintptr_t)context;
	struct sml_control *control = sml_context_hold_control(mutable, 0);

	info->rank = context->settings.rank;
	info->world_size = context->settings.world_size;
	info->previous_ranks = context->previous;
	info->waiting = control ? (int)sml_control_waiting(control) : 0;
	info->stripes = (int)context->n_stripes;
	info->path = sml_context_path(context, "", info->path_text, sizeof(info->path_text));
	sml_context_release_control(mutable, control);
}

int sml_get_info(const struct sml_context *context, struct sml_info *info)
{
	static const struct sml_sized kind = {sizeof(*info), "struct sml_info",
					      "begin with SML_INFO_INIT", -EINVAL};
	struct sml_info own = SML_INFO_INIT;
	int error = context ? sml_context_begin_reading(context) : 0;

	if (error)
		return error;
	own.has_tls = sml_tls_is_built();
	if (context) {
		describe(context, &own);
		sml_context_end_reading(context);
	}
	return sml_sized_write(&kind, info, &own);
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
	fd = sml_context_open_notifier(context);
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

void sml_count_elsewhere(struct sml_context *context, const char *where, uint64_t calls)
{
	if (context == NULL || context->owner != getpid())
		return;
	pthread_mutex_lock(&context->lock);
	context->usage.n_elsewhere += calls;
	snprintf(context->usage.elsewhere, sizeof(context->usage.elsewhere), "%s", where);
	pthread_mutex_unlock(&context->lock);
}

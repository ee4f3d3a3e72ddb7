/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that query a context, or end its job. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "lib/context/context.h"

int sml_rank(const struct sml_context *context)
{
	return context->settings.rank;
}

int sml_world_size(const struct sml_context *context)
{
	return context->settings.world_size;
}

int sml_stripe_count(const struct sml_context *context)
{
	return (int)context->n_stripes;
}

int sml_abort(struct sml_context *context, const char *reason)
{
	SML_NO_CANCELLATION;
	char text[SML_TEXT_BYTES];
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	error = sml_context_check(context);
	if (error)
		return error;
	if (reason == NULL || *reason == '\0')
		reason = "no reason given";
	snprintf(text, sizeof(text), "rank %d aborted the job: %s", sml_rank(context), reason);
	if (sml_context_fail(context, SML_ERROR_ABORTED, text))
		sml_context_abort_job(context, SML_ERROR_ABORTED, reason);
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

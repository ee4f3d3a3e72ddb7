/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that query a context, or end its job. */
#include <errno.h>
#include <stddef.h>
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

const char *sml_error_text(const struct sml_context *context)
{
	SML_NO_CANCELLATION;
	/* const does not cover the lock and the condition. */
	struct sml_context *mutable = (struct sml_context *)(uintptr_t)context;
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
	while (context->error && !context->error_told)
		pthread_cond_wait(&mutable->changed, &mutable->lock);
	memcpy(text, context->text, SML_TEXT_BYTES);
	pthread_mutex_unlock(&mutable->lock);
	return text;
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

/* ---- counters ---- */

/* Members that are sums over shards, and those that are maxima. */
static const struct {
	size_t offset;
	bool largest;
} members[] = {
	{offsetof(struct sml_counters, packets_sent), false},
	{offsetof(struct sml_counters, packets_received), false},
	{offsetof(struct sml_counters, bytes_sent), false},
	{offsetof(struct sml_counters, bytes_received), false},
	{offsetof(struct sml_counters, retransmits_timeout), false},
	{offsetof(struct sml_counters, retransmits_fast), false},
	{offsetof(struct sml_counters, packets_ignored), false},
	{offsetof(struct sml_counters, rtt_ns), true},
	{offsetof(struct sml_counters, rtt_min_ns), true},
	{offsetof(struct sml_counters, window), false},
	{offsetof(struct sml_counters, stalls), false},
	{offsetof(struct sml_counters, tensors), false},
	{offsetof(struct sml_counters, send_blocked), false},
};

static void combine(const struct sml_stripe *stripe, size_t offset, bool largest, uint64_t *result)
{
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		const char *of_shard = (const char *)&stripe->shards[i]->counters;
		uint64_t value = __atomic_load_n(
			(const uint64_t *)(const void *)(of_shard + offset), __ATOMIC_RELAXED);

		if (!largest)
			*result += value;
		else if (value > *result)
			*result = value;
	}
}

static int check_counters(const struct sml_context *context, const struct sml_counters *counters)
{
	if (context == NULL || counters == NULL || counters->size < sizeof(size_t))
		return sml_error_set(
			-EINVAL,
			"the context or the counters are NULL, or counters->size is not set");
	return context->owner == getpid() ? 0 : SML_ERROR_FORKED;
}

/* Of the stripes [first, end). */
static void fill_counters(const struct sml_context *context, unsigned first, unsigned end,
			  struct sml_counters *counters)
{
	/* A caller of an older version has fewer members. */
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		size_t offset = members[i].offset;
		uint64_t value = 0;

		for (unsigned s = first; s < end; s++)
			combine(&context->stripes[s], offset, members[i].largest, &value);
		if (offset + sizeof(value) <= counters->size)
			memcpy((char *)counters + offset, &value, sizeof(value));
	}
}

int sml_get_counters(const struct sml_context *context, struct sml_counters *counters)
{
	int error = check_counters(context, counters);

	if (error == 0)
		fill_counters(context, 0, context->n_stripes, counters);
	return error;
}

int sml_stripe_count(const struct sml_context *context)
{
	return (int)context->n_stripes;
}

int sml_get_stripe_counters(const struct sml_context *context, int stripe,
			    struct sml_counters *counters, const char **name)
{
	int error = check_counters(context, counters);

	if (error)
		return error;
	if (stripe < 0 || (unsigned)stripe >= context->n_stripes)
		return sml_error_set(-EINVAL,
				     "stripe %d does not exist: this job's stripes are 0 to %u",
				     stripe, context->n_stripes - 1);
	fill_counters(context, (unsigned)stripe, (unsigned)stripe + 1, counters);
	if (name)
		*name = sml_stripe_name(&context->stripes[stripe]);
	return 0;
}

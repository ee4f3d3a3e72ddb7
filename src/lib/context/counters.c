/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a context: sums and maxima over the shards of its stripes. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "lib/context/context.h"

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

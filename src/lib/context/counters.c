/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a context: sums and maxima over the shards of its stripes. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/sized.h"
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

#define N_MEMBERS (sizeof(members) / sizeof(members[0]))

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

static uint64_t *member_of(struct sml_counters *counters, size_t offset)
{
	return (uint64_t *)(void *)((char *)counters + offset);
}

/* Of the stripes [first, end). */
static void fill_counters(const struct sml_context *context, unsigned first, unsigned end,
			  struct sml_counters *counters)
{
	for (size_t i = 0; i < N_MEMBERS; i++) {
		uint64_t *value = member_of(counters, members[i].offset);

		*value = 0;
		for (unsigned s = first; s < end; s++)
			combine(&context->stripes[s], members[i].offset, members[i].largest, value);
	}
}

void sml_context_count(const struct sml_context *context, struct sml_counters *counters)
{
	fill_counters(context, 0, context->n_stripes, counters);
}

void sml_context_count_stripe(const struct sml_context *context, unsigned stripe,
			      struct sml_counters *counters)
{
	fill_counters(context, stripe, stripe + 1, counters);
}

/* A gauge has no past. */
static bool is_gauge(size_t offset, bool largest)
{
	return largest || offset == offsetof(struct sml_counters, window);
}

static void add_before(const struct sml_context *context, struct sml_counters *counters)
{
	struct sml_counters before = context->before;

	for (size_t i = 0; i < N_MEMBERS; i++) {
		uint64_t *value = member_of(counters, members[i].offset);

		if (!is_gauge(members[i].offset, members[i].largest))
			*value += *member_of(&before, members[i].offset);
	}
}

void sml_context_keep_counters(struct sml_context *context)
{
	struct sml_counters counters = {.size = sizeof(counters)};

	sml_context_count(context, &counters);
	add_before(context, &counters);
	context->before = counters;
}

static int give(struct sml_counters *counters, const struct sml_counters *own)
{
	static const struct sml_sized kind = {sizeof(*own), "struct sml_counters",
					      "begin with SML_COUNTERS_INIT", -EINVAL};

	return sml_sized_write(&kind, counters, own);
}

static int check_stripe(const struct sml_context *context, int stripe)
{
	if (stripe >= 0 && (unsigned)stripe < context->n_stripes)
		return 0;
	if (context->n_stripes == 0)
		return sml_error_set(-EINVAL, "this context has no job, and so no stripes");
	return sml_error_set(-EINVAL, "stripe %d does not exist: this job's stripes are 0 to %u",
			     stripe, context->n_stripes - 1);
}

int sml_get_counters(const struct sml_context *context, int stripe, struct sml_counters *counters,
		     const char **name)
{
	struct sml_counters own;
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	error = sml_context_begin_reading(context);
	if (error)
		return error;
	error = stripe == -1 ? 0 : check_stripe(context, stripe);
	if (error == 0) {
		if (stripe == -1) {
			sml_context_count(context, &own);
			add_before(context, &own);
		} else {
			sml_context_count_stripe(context, (unsigned)stripe, &own);
		}
		error = give(counters, &own);
		if (name)
			*name = stripe == -1 ? NULL : sml_stripe_name(&context->stripes[stripe]);
	}
	sml_context_end_reading(context);
	return error;
}

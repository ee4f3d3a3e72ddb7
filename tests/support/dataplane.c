/* SPDX-License-Identifier: BSD-3-Clause */
/* A dataplane without packets: see dataplane.h. */
#include "support/dataplane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int open_counting(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	*opened = calloc(1, sizeof(**opened));
	if (*opened == NULL)
		abort();
	(*opened)->config = *config;
	(*opened)->uses_all_slots = true;
	return 0;
}

static void close_counting(struct sml_dataplane *dataplane)
{
	free(dataplane);
}

static struct sml_pool_rules *job_of(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_pool_rules *rules = &dataplane->jobs[number % SML_MAX_JOBS];

	if (rules->n_ranks == 0 || rules->job != number)
		dataplane->wrong = "the dataplane is asked about a job that it does not have";
	return rules;
}

static int add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct sml_pool_rules *place = &dataplane->jobs[rules->job % SML_MAX_JOBS];

	if (place->n_ranks != 0)
		dataplane->wrong = "a job has got another's place";
	if (rules->n_ranks == 0 || rules->n_ranks > SML_MAX_CHILDREN || rules->n_shards == 0 ||
	    rules->n_shards > SML_MAX_SHARDS || rules->lanes == 0 || rules->lanes > SML_MAX_LANES ||
	    rules->head_slots < rules->n_shards || rules->data_slots < rules->n_shards ||
	    rules->head_slots + rules->data_slots > SML_MAX_SLOTS)
		dataplane->wrong = "a job has impossible rules";
	if (dataplane->has_no_room_yet)
		return -EAGAIN;
	if (dataplane->most_slots && rules->head_slots + rules->data_slots > dataplane->most_slots)
		return -ENOSPC;
	*place = *rules;
	return 0;
}

static int start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	job_of(dataplane, number);
	return 0;
}

static void remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	job_of(dataplane, number)->n_ranks = 0;
}

static const char *misses_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t rank)
{
	return rank < job_of(dataplane, number)->n_ranks ? NULL : "is not of this job";
}

static uint32_t window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	if (n_ranks == 0 || packet_bytes > SML_MAX_PACKET_BYTES)
		dataplane->wrong = "a window for nobody, or for giants";
	dataplane->n_window_ranks = n_ranks;
	return 65536 / (n_ranks ? n_ranks : 1);
}

static void job_counters(struct sml_dataplane *dataplane, uint32_t number,
			 struct sml_job_counters *counters)
{
	job_of(dataplane, number);
	memset(counters, 0, sizeof(*counters));
	memcpy(counters->contributions, dataplane->contributions, sizeof(counters->contributions));
	for (unsigned i = 0; i < SML_MAX_CHILDREN; i++)
		counters->waited_ns[i] = dataplane->waited_ms[i] * 1000000u;
	memcpy(counters->verdicts, dataplane->verdicts, sizeof(counters->verdicts));
	dataplane->n_looks++;
}

static void renew_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t child,
			  uint8_t shard, uint32_t renewal)
{
	job_of(dataplane, number);
	dataplane->renewed.n++;
	dataplane->renewed.child = child;
	dataplane->renewed.shard = shard;
	dataplane->renewed.number = renewal;
}

static uint32_t slot_states(struct sml_dataplane *dataplane, uint32_t number,
			    struct sml_slot_progress *states, uint32_t n)
{
	const struct sml_pool_rules *rules = job_of(dataplane, number);

	for (uint32_t i = 0; i < n && dataplane->uses_all_slots; i++)
		states[i] =
			(struct sml_slot_progress){(uint16_t)i, i, sml_pool_all_ranks(rules) & i};
	if (dataplane->uses_all_slots)
		return n;
	if (n == 0 || dataplane->slots_lack == 0)
		return 0;
	states[0] = (struct sml_slot_progress){.missing = dataplane->slots_lack};
	return 1;
}

static void all_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	(void)dataplane;
	memset(counters, 0, sizeof(*counters));
}

const struct sml_dataplane_operations dataplane_counting = {
	.name = "counting",
	.open = open_counting,
	.close = close_counting,
	.add_job = add_job,
	.start_job = start_job,
	.remove_job = remove_job,
	.misses_address = misses_address,
	.window = window,
	.job_counters = job_counters,
	.renew_address = renew_address,
	.slot_states = slot_states,
	.counters = all_counters,
};

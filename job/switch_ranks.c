/* SPDX-License-Identifier: BSD-3-Clause */
/* A dataplane that is elsewhere: the ranks have the slots, and there is nothing to do here. */
#include <stdio.h>
#include <string.h>

#include "job/dataplane.h"

static int ranks_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	(void)config;
	*opened = NULL;
	return 0;
}

static void ranks_close(struct sml_dataplane *dataplane)
{
	(void)dataplane;
}

static int ranks_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	(void)dataplane;
	(void)rules;
	return 0;
}

static int ranks_start_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return 0;
}

static void ranks_remove_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
}

/* Its ports came with its Join. */
static const char *ranks_misses_address(struct sml_dataplane *dataplane, uint32_t job, uint8_t rank)
{
	(void)dataplane;
	(void)job;
	(void)rank;
	return NULL;
}

static void ranks_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	(void)dataplane;
	snprintf(text, bytes, "stripes with the ranks");
}

/* Each rank knows what its own sockets take. */
static uint32_t ranks_window(struct sml_dataplane *dataplane, uint32_t packet_bytes,
			     uint32_t n_ranks)
{
	(void)dataplane;
	(void)packet_bytes;
	(void)n_ranks;
	return 0;
}

static void ranks_job_counters(struct sml_dataplane *dataplane, uint32_t job,
			       struct sml_job_counters *counters)
{
	(void)dataplane;
	(void)job;
	(void)counters;
}

static uint32_t ranks_slot_states(struct sml_dataplane *dataplane, uint32_t job,
				  struct sml_slot_progress *states, uint32_t n)
{
	(void)dataplane;
	(void)job;
	(void)states;
	(void)n;
	return 0;
}

static void ranks_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	(void)dataplane;
	memset(counters, 0, sizeof(*counters));
}

const struct sml_dataplane_operations sml_dataplane_ranks = {
	.name = "ranks",
	.ranks_have_slots = true,
	.open = ranks_open,
	.close = ranks_close,
	.add_job = ranks_add_job,
	.start_job = ranks_start_job,
	.remove_job = ranks_remove_job,
	.misses_address = ranks_misses_address,
	.describe = ranks_describe,
	.window = ranks_window,
	.job_counters = ranks_job_counters,
	.slot_states = ranks_slot_states,
	.counters = ranks_counters,
};

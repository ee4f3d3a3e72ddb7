/* SPDX-License-Identifier: BSD-3-Clause */
/* The dataplane is elsewhere: the ranks have the slots, and there is nothing to do here. */
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

static void ranks_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	(void)dataplane;
	snprintf(text, bytes, "stripes with the ranks");
}

const struct sml_dataplane_operations sml_dataplane_ranks = {
	.name = "ranks",
	.ranks_have_slots = true,
	.rounds = true,
	.omits = true,
	.floats = true,
	.open = ranks_open,
	.close = ranks_close,
	.add_job = ranks_add_job,
	.start_job = ranks_start_job,
	.remove_job = ranks_remove_job,
	.describe = ranks_describe,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of switches, as jobs see it: what they tell their leaves, what they ask them, and who
 * makes room. tree/ fills in this table, and calls jobs directly; jobs reach the tree only here.
 */
#ifndef SML_JOB_TREE_H
#define SML_JOB_TREE_H

#include <stdbool.h>
#include <stdint.h>

struct sml_job;
struct sml_jobs;
struct sml_ranks;
struct sml_slot_progress;

struct sml_tree_events {
	/*
	 * The dataplane has the job: send it to the job's leaves. Returns false if there is no
	 * memory.
	 */
	bool (*begin)(struct sml_job *job);

	/* All ranks are ready: start the leaves' dataplanes. */
	void (*start)(struct sml_job *job);

	/* The job is about to go, or to be admitted anew: its leaves end it. */
	void (*end)(struct sml_job *job);

	/* The slots that every leaf of the job still has room for; UINT32_MAX without leaves. */
	uint32_t (*room)(const struct sml_job *job);

	/* Ask the leaves that have not been asked what their slots wait for. */
	void (*ask)(struct sml_job *job);

	/*
	 * The ranks that a slot waits for, from the bits of its children that it waits for. False:
	 * only leaves know one, and have not said it.
	 */
	bool (*missing)(const struct sml_job *job, const struct sml_slot_progress *slot,
			struct sml_ranks *ranks);

	/*
	 * At a leaf: close the connection of a rank that waits for others and does not resume.
	 * Returns false if there is none.
	 */
	bool (*displace)(struct sml_jobs *jobs);

	/* Close the oldest leaf without ranks and slots. Returns false if there is none. */
	bool (*close_idle)(struct sml_jobs *jobs);
};

#endif

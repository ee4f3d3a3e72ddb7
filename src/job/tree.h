/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tree of switches, as jobs see it: who makes room. tree/ fills in this table, and calls jobs
 * directly; jobs reach the tree only here, their leaves through their pools, and the parent as a
 * peer.
 */
#ifndef SML_JOB_TREE_H
#define SML_JOB_TREE_H

#include <stdbool.h>

struct sml_jobs;

struct sml_tree_events {
	/*
	 * At a leaf: close the connection of a rank that waits for others and does not resume.
	 * Returns false if there is none.
	 */
	bool (*displace)(struct sml_jobs *jobs);

	/* Close the oldest leaf without ranks and slots. Returns false if there is none. */
	bool (*close_idle)(struct sml_jobs *jobs);
};

extern const struct sml_tree_events sml_tree_events;

#endif

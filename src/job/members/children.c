/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who contributes to a job's slots at the switch that all of its ranks are known to.
 *
 * The invariant: children are numbered in the order of their first ranks.
 */
#include "job/members/children.h"

#include <stdio.h>

#include "job/members/hosts.h"

static bool form(struct sml_job *job)
{
	job->pool.n_children = job->pool.n_leaves = job->pool.n_leaves_ready = 0;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		unsigned child = sml_job_pool_add_rank(&job->pool, rank, sml_job_sender(job, rank),
						       sml_peer_via(job->members.of[rank].peer));

		if (child == SML_MAX_CHILDREN)
			return false;
		job->members.of[rank].child = (uint8_t)child;
	}
	return true;
}

static void report_limit(const struct sml_job *job, char *text, size_t bytes)
{
	const char *name = job->jobs->config.name;
	unsigned n_direct = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		n_direct += sml_peer_via(job->members.of[rank].peer) == NULL;
	snprintf(text, bytes,
		 "a switch takes at most %d ranks and leaves of a job, but %u of %u ranks have "
		 "joined at the switch %s: start leaves with `switchml switch --parent %s', and "
		 "set SWITCHML_SWITCH to one of them for at most %d ranks each",
		 SML_MAX_CHILDREN, n_direct, job->n_ranks, name ? name : "itself",
		 name ? name : "HOST", SML_MAX_CHILDREN);
}

bool sml_job_form_children(struct sml_job *job, char *text, size_t bytes)
{
	sml_job_find_hosts(job);
	if (form(job))
		return true;
	report_limit(job, text, bytes);
	return false;
}

bool sml_job_is_in_host(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks > 1 && child->branch == NULL;
}

bool sml_job_is_child(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->pool.children[job->members.of[rank].child];

	return child->n_ranks == 1 && child->branch == NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who contributes to a job's slots at this switch: its children. A child has a number, which
 * packets carry, and a cookie. Dataplanes know only children, and the rest of a job knows only
 * ranks; this map is between them.
 *
 * The invariant: each rank is behind exactly one child, and children are numbered in the order of
 * their first ranks.
 */
#include "job/members/children.h"

#include <stdio.h>

#include "job/members/hosts.h"

/* Do two ranks contribute as one? Those behind one leaf do, and those that share memory. */
static bool are_one(const struct sml_job *job, unsigned a, unsigned b)
{
	const struct sml_branch *via = sml_peer_via(job->members[a].peer);

	return a == b || (via != NULL && via == sml_peer_via(job->members[b].peer)) ||
	       sml_job_is_one_host(job, a, b);
}

/* False: there is no room for another one. */
static bool add_child(struct sml_job *job, unsigned rank)
{
	struct sml_branch *via = sml_peer_via(job->members[rank].peer);

	if (job->n_children == SML_MAX_CHILDREN)
		return false;
	job->children[job->n_children++] =
		(struct sml_child){.first_rank = (uint16_t)rank, .branch = via};
	if (via != NULL)
		job->n_leaves++;
	return true;
}

static bool form(struct sml_job *job)
{
	job->n_children = job->n_leaves = 0;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		unsigned child = 0;

		while (child < job->n_children &&
		       !are_one(job, job->children[child].first_rank, rank))
			child++;
		if (child == job->n_children && !add_child(job, rank))
			return false;
		job->members[rank].child = (uint8_t)child;
		job->children[child].n_ranks++;
		sml_ranks_add(&job->children[child].ranks, rank);
	}
	return true;
}

static void report_limit(const struct sml_job *job, char *text, size_t bytes)
{
	const char *name = job->jobs->config.name;
	unsigned n_direct = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		n_direct += sml_peer_via(job->members[rank].peer) == NULL;
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
	const struct sml_child *child = &job->children[job->members[rank].child];

	return child->n_ranks > 1 && child->branch == NULL;
}

bool sml_job_is_child(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->children[job->members[rank].child];

	return child->n_ranks == 1 && child->branch == NULL;
}

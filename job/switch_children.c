/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who contributes to a job's slots at this switch: its children. A child has a number, which
 * packets carry, and a cookie. Dataplanes know only children, and the rest of a job knows only
 * ranks; this map is between them.
 *
 * The invariant: each rank is behind exactly one child, and children are numbered in the order of
 * their first ranks.
 */
#include "job/switch_branches.h"

/* Do two ranks contribute as one? Those behind one leaf do, and those that share memory. */
static bool are_one(const struct sml_job *job, unsigned a, unsigned b)
{
	const struct sml_branch *via = sml_peer_via(job->members[a].peer);

	return a == b || (via != NULL && via == sml_peer_via(job->members[b].peer)) ||
	       sml_job_is_one_host(job, a, b);
}

static void add_to_child(struct sml_job *job, unsigned rank, unsigned child)
{
	job->child_of[rank] = (uint8_t)child;
	job->children[child].n_ranks++;
}

void sml_job_form_children(struct sml_job *job)
{
	job->n_children = job->n_leaves = 0;
	/* Where there are leaves, ranks of one machine do not share memory yet. */
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		job->apart |= sml_peer_via(job->members[rank].peer) != NULL;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		unsigned child = 0;

		while (child < job->n_children &&
		       !are_one(job, job->children[child].first_rank, rank))
			child++;
		if (child == job->n_children) {
			job->children[job->n_children++] =
				(struct sml_child){.first_rank = (uint8_t)rank,
						   .branch = sml_peer_via(job->members[rank].peer)};
			if (job->children[child].branch != NULL)
				job->n_leaves++;
		}
		add_to_child(job, rank, child);
	}
}

uint64_t sml_job_ranks_behind(const struct sml_job *job, uint64_t children)
{
	uint64_t ranks = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (children >> job->child_of[rank] & 1)
			ranks |= (uint64_t)1 << rank;
	return ranks;
}

bool sml_job_is_in_host(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->children[job->child_of[rank]];

	return child->n_ranks > 1 && child->branch == NULL;
}

bool sml_job_is_child(const struct sml_job *job, unsigned rank)
{
	const struct sml_child *child = &job->children[job->child_of[rank]];

	return child->n_ranks == 1 && child->branch == NULL;
}

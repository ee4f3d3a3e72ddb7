/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signs of life on the data path. The control thread of a switch or of a rank may be busy while
 * results still flow; a rank whose contributions arrive is not dead.
 *
 *	heard -------- half a heartbeat ------------- heartbeat
 *	               look at the counters  look …   dead, unless one has moved
 *
 * The counters cost a system call with XDP, so only members that have been quiet for half their
 * heartbeat are checked.
 */
#include "job/states/states.h"

#include "base/least.h"
#include "job/members/children.h"
#include "job/members/members.h"

static uint64_t quiet_ns(const struct sml_member *member)
{
	return member->peer->heard_ns + member->heartbeat_ms * 500000ull;
}

static bool shows_liveness(const struct sml_job *job)
{
	return (job->state == SML_JOB_RUNNING || job->state == SML_JOB_LEAVING) &&
	       !job->jobs->operations->ranks_have_slots;
}

uint64_t sml_job_liveness_due(const struct sml_job *job)
{
	uint64_t first_ns = UINT64_MAX;

	if (!shows_liveness(job))
		return UINT64_MAX;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL)
			first_ns = sml_earlier(first_ns, quiet_ns(&job->members.of[rank]));
	/* A member that stays quiet is checked in every tick. */
	return sml_later(first_ns, job->liveness_ns + SML_TICK_NS);
}

/* Only since it has been quiet: contributions before its last message prove nothing more. */
static void look_at(struct sml_member *member, uint64_t contributions, uint64_t now_ns)
{
	bool moved = member->counted_at_ns == member->peer->heard_ns &&
		     contributions != member->contributions;

	member->contributions = contributions;
	if (moved)
		member->peer->heard_ns = now_ns;
	member->counted_at_ns = member->peer->heard_ns;
}

void sml_job_check_liveness(struct sml_job *job)
{
	struct sml_jobs *jobs = job->jobs;
	struct sml_job_counters counters = {0};

	if (jobs->now_ns < sml_job_liveness_due(job) || !shows_liveness(job))
		return;
	job->liveness_ns = jobs->now_ns;
	sml_job_pool_count(&job->pool, &counters);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].peer != NULL && sml_job_is_child(job, rank) &&
		    jobs->now_ns >= quiet_ns(&job->members.of[rank]))
			look_at(&job->members.of[rank],
				counters.contributions[job->members.of[rank].child] +
					counters.resends[job->members.of[rank].child],
				jobs->now_ns);
}

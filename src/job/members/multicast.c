/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results by multicast: what ranks are told, and the log when a group does not reach a rank. That
 * costs time, but never a result: a rank that the group does not reach gets results by unicast, and
 * every rank asks for missing results.
 */
#include "job/members/multicast.h"

#include <stdio.h>

#include "base/plural.h"
#include "job/members/children.h"
#include "job/peer/output.h"

static bool has_group(const struct sml_job *job)
{
	return job->jobs->config.group.bytes > 0;
}

void sml_job_describe_group(const struct sml_job *job, struct sml_group *group,
			    SmlControl__Group *message, SmlControl__Admitted *admitted)
{
	/* A single rank does not need it. */
	if (!has_group(job) || job->n_ranks < 2)
		return;
	*group = sml_group_of_job(&job->jobs->config.group, job->place);
	message->address.data = group->address;
	message->address.len = group->bytes;
	message->port = group->port;
	admitted->group = message;
}

void sml_job_note_group(struct sml_job *job, uint16_t rank, bool reached)
{
	struct sml_jobs *jobs = job->jobs;

	if (has_group(job) && reached)
		jobs->operations->reaches_by_group(jobs->dataplane, job->rules.job,
						   job->members[rank].child);
}

static void find_reached(const struct sml_job *job, struct sml_ranks *ranks)
{
	const struct sml_jobs *jobs = job->jobs;
	uint64_t children = 0;

	if (has_group(job) && job->state >= SML_JOB_PROBING)
		children = jobs->operations->reached_by_group(jobs->dataplane, job->rules.job);
	sml_job_ranks_behind(job, children, ranks);
}

/* A single rank is sent to as without a group. */
bool sml_job_is_by_group(const struct sml_job *job, uint16_t rank)
{
	struct sml_ranks ranks;

	find_reached(job, &ranks);
	return sml_ranks_has(&ranks, rank) && sml_ranks_count(&ranks) > 1;
}

/* "2 (host gpu3), 5 (host gpu6)", and that they have been told of. */
static unsigned list_unreached(struct sml_job *job, const struct sml_ranks *reached, char *text,
			       size_t bytes)
{
	unsigned n = 0;
	size_t used = 0;

	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members[rank];

		if (sml_ranks_has(reached, rank) || member->unreached_logged)
			continue;
		member->unreached_logged = true;
		n++;
		if (used < bytes)
			used += (size_t)snprintf(text + used, bytes - used, "%s%u (host %s)",
						 used ? ", " : "", rank, member->host);
	}
	return n;
}

static bool is_watched(const struct sml_job *job)
{
	return has_group(job) && job->state >= SML_JOB_RUNNING && job->n_ranks >= 2;
}

uint64_t sml_job_watch_ends(const struct sml_job *job)
{
	return is_watched(job) ? job->watched_ns + SML_TICK_NS : UINT64_MAX;
}

void sml_job_watch_group(struct sml_job *job)
{
	char ranks[SML_SENTENCE_BYTES], group[SML_GROUP_TEXT_BYTES];
	struct sml_ranks reached;
	struct sml_group own;
	unsigned n;

	if (!is_watched(job))
		return;
	job->watched_ns = job->jobs->now_ns;
	find_reached(job, &reached);
	n = list_unreached(job, &reached, ranks, sizeof(ranks));
	if (n == 0)
		return;
	own = sml_group_of_job(&job->jobs->config.group, job->place);
	sml_group_text(&own, group);
	sml_jobs_log(
		job->jobs, SML_JOBS_WARNING,
		"job \"%s\": the multicast group %s does not reach rank%s %s: "
		"results go there by unicast, which costs this switch more. Does a firewall drop "
		"them, or a bridge that snoops IGMP or MLD without a querier?",
		job->name, group, sml_plural(n), ranks);
}

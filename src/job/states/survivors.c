/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of a job that has ended, until they go on in its next membership: their connections stay,
 * so that a process that dies before it asks to be a member is not waited for (join/decide.c).
 *
 *	            Abort to the rank            Abort (planned) of it
 *	member -----------------------> survivor ---------------------> goes on, will ask
 *	                                    |  \---- its time is over --> unknown
 *	                                    \------- its end -----------> gone
 *
 * The invariant: a survivor is in no job. It is in the list as long as its connection lasts.
 */
#include "job/states/survivors.h"

#include "base/least.h"
#include "job/members/members.h"
#include "job/peer/heard.h"
#include "job/peer/output.h"
#include "job/states/states.h"

bool sml_survivor_stays(const struct sml_job *job, struct sml_peer *peer, uint16_t rank)
{
	struct sml_failed_job *failed = sml_job_followed(job, &rank);
	struct sml_peer **end = &job->jobs->survivors;

	if (failed == NULL)
		return false;
	sml_kept_for(failed, rank);
	while (*end != NULL)
		end = &(*end)->next_survivor;
	*end = peer;
	peer->next_survivor = NULL;
	peer->survived = failed->tag;
	peer->rank = rank;
	peer->stays_until_ns =
		job->jobs->now_ns + sml_job_longest_heartbeat_ms(job) * (SML_SECOND_NS / 1000);
	job->jobs->n_members += peer->via == NULL;
	return true;
}

static void take_out(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_peer **at = &jobs->survivors;

	while (*at != peer)
		at = &(*at)->next_survivor;
	*at = peer->next_survivor;
	peer->survived = peer->missed_ns = 0;
	jobs->n_members -= peer->via == NULL;
}

static void end(struct sml_jobs *jobs, struct sml_peer *peer)
{
	take_out(jobs, peer);
	sml_peer_end(jobs, peer);
}

void sml_survivor_goes_on(struct sml_jobs *jobs, struct sml_peer *peer)
{
	if (peer->survived != 0)
		end(jobs, peer);
}

void sml_survivor_lost(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, peer->survived);

	if (job != NULL && !sml_peer_is_doubted(peer))
		sml_kept_without(jobs, job, peer->rank);
	take_out(jobs, peer);
}

void sml_survivors_await(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns)
{
	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		if (peer->survived == tag)
			peer->stays_until_ns = sml_later(peer->stays_until_ns, until_ns);
}

bool sml_survivors_make_room(struct sml_jobs *jobs)
{
	if (jobs->survivors == NULL)
		return false;
	end(jobs, jobs->survivors);
	return true;
}

void sml_survivors_doubt(struct sml_jobs *jobs, uint64_t away_ns)
{
	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		sml_peer_doubt(peer, peer->heartbeat_ms, away_ns);
}

uint64_t sml_survivors_deadline(const struct sml_jobs *jobs)
{
	uint64_t due_ns = UINT64_MAX;

	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = peer->next_survivor)
		due_ns = sml_earlier(due_ns, peer->stays_until_ns);
	return due_ns;
}

void sml_survivors_tick(struct sml_jobs *jobs)
{
	struct sml_peer *next;

	for (struct sml_peer *peer = jobs->survivors; peer != NULL; peer = next) {
		next = peer->next_survivor;
		if (jobs->now_ns >= peer->stays_until_ns)
			end(jobs, peer);
	}
}

void sml_survivors_stop(struct sml_jobs *jobs)
{
	while (sml_survivors_make_room(jobs))
		;
}

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
#include "job/states/states.h"

#include "base/least.h"

/* The rank may go on. */
static void keep_for(struct sml_failed_job *job, unsigned rank)
{
	sml_ranks_add(&job->awaited, rank);
}

bool sml_survivor_stays(const struct sml_job *job, struct sml_peer *peer, uint16_t rank)
{
	struct sml_failed_job *failed = sml_job_followed(job, &rank);
	struct sml_peer **end = &job->jobs->survivors;

	if (failed == NULL)
		return false;
	keep_for(failed, rank);
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

/*
 * ---- the place of the job whose members change ----
 *
 * What a job holds between two memberships: a place among the switch's jobs, and the slots of a job
 * that gathers. Otherwise anybody could take both while its ranks reconnect.
 *
 *	the job fails --> kept --> its ranks' next job gathers, and holds them
 *	                   |  ^         \--- it ends before it has run ---+
 *	                   |  +------------------------------------------+
 *	                   +--> free: all of its ranks have gone, or the time is up
 *
 * The invariant: only ranks that show the job's tag get what is kept for it.
 */

static void hold(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns)
{
	job->kept_until_ns = until_ns;
	jobs->n_kept++;
	jobs->slots_in_use += job->kept_slots;
	jobs->kept_lack += job->kept_lacks;
}

static uint64_t unasked_until(const struct sml_jobs *jobs, const struct sml_failed_job *job)
{
	return jobs->now_ns + job->heartbeat_ms * (SML_SECOND_NS / 1000);
}

/* Does the job with this tag have its place still, or the next one, which has not begun? */
static bool is_held(const struct sml_jobs *jobs, uint64_t tag)
{
	for (unsigned i = 0; tag != 0 && i < SML_MAX_JOBS; i++) {
		const struct sml_job *job = jobs->jobs[i];

		if (job != NULL &&
		    tag == (job->state < SML_JOB_RUNNING ? job->elastic.after : job->report_tag))
			return true;
	}
	return false;
}

void sml_kept_begin(const struct sml_job *job)
{
	const bool ran = job->state >= SML_JOB_RUNNING;
	struct sml_jobs *jobs = job->jobs;
	struct sml_failed_job *kept =
		sml_jobs_find_judged(jobs, ran ? job->report_tag : job->elastic.after);

	if (kept == NULL || kept->kept_until_ns != 0 || kept->is_used ||
	    sml_ranks_is_empty(&kept->awaited) || is_held(jobs, kept->tag))
		return;
	if (ran)
		kept->kept_slots = sml_job_fewest_slots(job, &kept->kept_lacks);
	if (kept->kept_slots <= jobs->config.max_slots - jobs->slots_in_use)
		hold(jobs, kept, unasked_until(jobs, kept));
}

struct sml_failed_job *sml_kept_find(const struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, tag);

	return job != NULL && job->kept_until_ns != 0 ? job : NULL;
}

void sml_kept_end(struct sml_jobs *jobs, struct sml_failed_job *job)
{
	if (job->kept_until_ns == 0)
		return;
	job->kept_until_ns = 0;
	jobs->n_kept--;
	jobs->slots_in_use -= job->kept_slots;
	jobs->kept_lack -= job->kept_lacks;
}

/* The later the job with this tag ends here, the more. 0: nothing is known of it. */
static uint32_t order_of(const struct sml_jobs *jobs, uint64_t tag)
{
	const struct sml_failed_job *ended = sml_jobs_find_judged(jobs, tag);

	if (ended != NULL)
		return 1 + ((uint32_t)(ended - jobs->failed) - jobs->n_failed) % SML_FAILED_JOBS;
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->state >= SML_JOB_RUNNING &&
		    jobs->jobs[i]->report_tag == tag)
			return SML_FAILED_JOBS + 1;
	return 0;
}

void sml_kept_take(struct sml_job *job, uint64_t tag)
{
	struct sml_failed_job *kept = sml_kept_find(job->jobs, tag);

	/* The job's first rank may have been in no job, or in an older one. */
	if (job->elastic.after == 0 ||
	    order_of(job->jobs, tag) > order_of(job->jobs, job->elastic.after))
		job->elastic.after = tag;
	if (kept != NULL)
		sml_kept_end(job->jobs, kept);
}

void sml_kept_again(struct sml_jobs *jobs, struct sml_failed_job *job, uint64_t until_ns)
{
	/* That job may have given it back already, when it was closed. */
	sml_kept_end(jobs, job);
	hold(jobs, job, until_ns);
}

void sml_kept_use(const struct sml_job *job)
{
	struct sml_failed_job *kept = sml_jobs_find_judged(job->jobs, job->elastic.after);

	if (kept != NULL)
		kept->is_used = true;
}

void sml_kept_asked(struct sml_jobs *jobs, uint64_t tag, uint64_t until_ns)
{
	struct sml_failed_job *kept = sml_kept_find(jobs, tag);

	if (kept != NULL)
		kept->kept_until_ns = sml_later(kept->kept_until_ns, until_ns);
}

void sml_kept_unasked(struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_failed_job *kept = sml_kept_find(jobs, tag);

	if (kept != NULL)
		kept->kept_until_ns = sml_earlier(kept->kept_until_ns, unasked_until(jobs, kept));
}

void sml_kept_without(struct sml_jobs *jobs, struct sml_failed_job *job, unsigned rank)
{
	sml_ranks_add(&job->gone, rank);
	sml_ranks_remove(&job->awaited, rank);
	if (sml_ranks_is_empty(&job->awaited))
		sml_kept_end(jobs, job);
}

void sml_kept_back(const struct sml_jobs *jobs, uint64_t tag, unsigned rank)
{
	struct sml_failed_job *job = sml_jobs_find_judged(jobs, tag);

	if (job == NULL)
		return;
	sml_ranks_remove(&job->gone, rank);
	keep_for(job, rank);
}

uint64_t sml_kept_deadline(const struct sml_jobs *jobs)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; jobs->n_kept > 0 && i < SML_FAILED_JOBS; i++)
		if (jobs->failed[i].kept_until_ns != 0)
			due_ns = sml_earlier(due_ns, jobs->failed[i].kept_until_ns);
	return due_ns;
}

void sml_kept_tick(struct sml_jobs *jobs)
{
	for (uint32_t i = 0; jobs->n_kept > 0 && i < SML_FAILED_JOBS; i++)
		if (jobs->now_ns >= jobs->failed[i].kept_until_ns)
			sml_kept_end(jobs, &jobs->failed[i]);
}

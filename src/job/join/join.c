/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining: which job does a Join mean, does it meet the job's terms, and is there room? A newcomer
 * cannot change a job that others have joined until it has joined, too.
 */
#include "job/join/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/plural.h"
#include "control/text.h"
#include "job/states/states.h"

/* The wait of a rank that does not say how long it waits, and the longest wait. */
#define WAIT_MS	    60000u
#define MAX_WAIT_MS (24u * 3600 * 1000)
/* The longest heartbeat that a rank's library has. */
#define MAX_HEARTBEAT_MS 60000u

/* ---- which job a Join means ---- */

/*
 * Ranks that resume prove by the membership that they belong to one job. A peer that names the job
 * without it, to wait for them or to resume in their name, belongs to another job.
 */
static struct sml_job *find_resuming(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->terms.stripe == join->stripe &&
		    job->membership == join->resume->membership &&
		    strcmp(job->name, join->job) == 0)
			return job;
	return NULL;
}

static bool gathers_anew(const struct sml_job *job)
{
	return job->state == SML_JOB_JOINING && !job->resume.runs;
}

/*
 * By taking over from dead switches, a switch can get several stripes of one job. But a job that
 * begins has only one stripe here: if its ranks name the same switches in different orders, they
 * meet here and get an error. Jobs that gather to resume do not count.
 */
static struct sml_job *find_beginning(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *found = NULL;

	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (strcmp(job->name, join->job) != 0)
			continue;
		if (gathers_anew(job))
			return job;
		if (job->state >= SML_JOB_PROBING)
			found = job;
	}
	return found;
}

/* A rank that had not been told to start goes on with those that had, or begins anew. */
static struct sml_job *find_job(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *job = join->resume != NULL ? find_resuming(jobs, join) : NULL;

	return job != NULL || sml_join_resumes(join) ? job : find_beginning(jobs, join);
}

/* ---- a job that nobody has joined yet ---- */

struct sml_job *sml_job_with_terms(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *job = sml_job_new(jobs, join->job, join->world_size);

	if (job == NULL)
		return NULL;
	job->members.first = (uint16_t)join->rank;
	job->begun_ns = job->waiting.sent_ns = jobs->now_ns;
	job->terms.shards = job->terms.most_shards = join->shards;
	job->terms.head_slots = join->head_slots;
	job->terms.data_slots = join->data_slots;
	job->terms.wire = join->wire;
	job->terms.switches = join->switches;
	job->terms.no_tickets = join->no_tickets;
	job->terms.stripe = join->stripe;
	job->terms.stripes = join->stripes;
	job->resume.runs = sml_join_resumes(join);
	snprintf(job->terms.version, sizeof(job->terms.version), "%s", join->library_version);
	return job;
}

/* The tag of the job that ran here before. 0: none. */
static uint64_t after_of(const struct sml_jobs *jobs, const SmlControl__Join *join)
{
	if (jobs->deciding != NULL)
		return jobs->deciding->after;
	return sml_join_resumes(join) ? 0 : join->follows_tag;
}

static struct sml_job *new_job(struct sml_jobs *jobs, const SmlControl__Join *join)
{
	struct sml_job *job = sml_job_with_terms(jobs, join);
	uint32_t place = 0;

	if (job == NULL)
		return NULL;
	while (jobs->jobs[place] != NULL)
		place++;
	job->elastic.after = after_of(jobs, join);
	job->elastic.decision = jobs->deciding;
	jobs->deciding = NULL;
	job->membership = job->resume.runs ? join->resume->membership : sml_jobs_random(jobs);
	sml_job_take_place(job, place);
	return job;
}

static bool is_full(const struct sml_jobs *jobs, char *text, size_t bytes)
{
	const uint32_t n = jobs->n_jobs + jobs->n_kept;

	if (n < jobs->config.max_jobs && n < SML_MAX_JOBS)
		return false;
	snprintf(text, bytes,
		 "the switch is at its limit of %u job%s: wait for one to end, or start the "
		 "switch with more --jobs",
		 n, sml_plural(n));
	return true;
}

static struct sml_job *try_to_admit(struct sml_jobs *jobs, const SmlControl__Join *join, char *text,
				    size_t bytes)
{
	struct sml_job *job;

	if (is_full(jobs, text, bytes))
		return NULL;
	job = new_job(jobs, join);
	if (job == NULL) {
		snprintf(text, bytes, "the switch has no memory");
		return NULL;
	}
	if (sml_job_reserve_slots(job, text, bytes))
		return job;
	sml_job_close(job);
	return NULL;
}

/* NULL: there is no room for it, and the peer has been told. */
static struct sml_job *admit(struct sml_jobs *jobs, struct sml_peer *peer,
			     const SmlControl__Join *join)
{
	struct sml_failed_job *kept = sml_kept_find(jobs, after_of(jobs, join));
	const uint64_t until_ns = kept != NULL ? kept->kept_until_ns : 0;
	char text[SML_SENTENCE_BYTES];
	struct sml_job *job;

	if (kept != NULL)
		sml_kept_end(jobs, kept);
	job = try_to_admit(jobs, join, text, sizeof(text));
	while (job == NULL && sml_jobs_displace(jobs, join))
		job = try_to_admit(jobs, join, text, sizeof(text));
	if (job == NULL && kept != NULL)
		sml_kept_again(jobs, kept, until_ns);
	if (job == NULL) {
		sml_jobs_log_refusal(jobs, join, text);
		sml_peer_refuse_for_now(jobs, peer, text);
	}
	return job;
}

/* ---- a new member ---- */

static void note_follows(struct sml_job *job, struct sml_member *member,
			 const SmlControl__Join *join)
{
	if (join->follows[0] != '\0' && job->elastic.follows[0] == '\0') {
		snprintf(job->elastic.follows, sizeof(job->elastic.follows), "%s", join->follows);
		job->elastic.follows_ranks = join->follows_ranks;
	}
	member->follows =
		join->follows[0] != '\0' && strcmp(join->follows, job->elastic.follows) == 0;
	/* Jobs that have become one have had different numbers of changes. */
	if (join->follows[0] != '\0' && join->follows_changes < UINT32_MAX &&
	    job->elastic.changes <= join->follows_changes)
		job->elastic.changes = join->follows_changes + 1;
}

/* False: no memory for what it reports. */
static bool add_member(struct sml_job *job, struct sml_peer *peer, const SmlControl__Join *join)
{
	struct sml_member *member = &job->members.of[join->rank];

	member->peer = peer;
	member->asked = (struct sml_asked){join->process, join->time_ns};
	member->pid = join->pid;
	member->lanes = join->lanes;
	member->shards = join->shards;
	member->shards_set = join->shards_set;
	member->waits_until_ns =
		job->jobs->now_ns +
		(join->wait_ms ? sml_least(join->wait_ms, MAX_WAIT_MS) : WAIT_MS) * 1000000ull;
	/* It keeps the job's place after its end, and the other ranks wait for that long, too. */
	member->asked_ms = sml_least(join->heartbeat_ms, MAX_HEARTBEAT_MS);
	member->heartbeat_ms = sml_jobs_heartbeat_ms(job->jobs, join);
	sml_text_copy(member->host, sizeof(member->host), join->host);
	sml_job_note_machine(member, join);
	note_follows(job, member, join);
	member->after = after_of(job->jobs, join);
	sml_kept_take(job, member->after);
	peer->job = job;
	peer->rank = (uint16_t)join->rank;
	job->members.n++;
	sml_ranks_add(&job->members.came, join->rank);
	job->jobs->n_members += peer->via == NULL;
	if (join->n_stripe_ports > 0)
		sml_job_note_peer(member, join);
	return join->resume == NULL || sml_job_keep_report(job, join->rank, join);
}

/*
 * The ranks that wait for this rank learn why it does not join; those that come soon, too. A name
 * that no job can have is nobody's.
 */
static void note_refusal(struct sml_jobs *jobs, struct sml_job *job, const SmlControl__Join *join,
			 const char *text)
{
	if (job != NULL && job->state == SML_JOB_JOINING) {
		snprintf(job->members.refused, sizeof(job->members.refused), "%s", text);
	} else if (job == NULL && strlen(join->job) < SML_NAME_BYTES) {
		snprintf(jobs->turned_away.job, sizeof(jobs->turned_away.job), "%s", join->job);
		snprintf(jobs->turned_away.text, sizeof(jobs->turned_away.text), "%s", text);
		jobs->turned_away.rank = join->rank;
		jobs->turned_away.at_ns = jobs->now_ns;
	}
}

/* ---- ranks that disagree ---- */

/* A rank that has come again with better settings has nothing to be told about. */
static void recall_refusal(struct sml_job *job, const SmlControl__Join *join)
{
	struct sml_jobs *jobs = job->jobs;

	if (strcmp(jobs->turned_away.job, job->name) != 0)
		return;
	if (jobs->turned_away.rank == join->rank ||
	    jobs->now_ns - jobs->turned_away.at_ns > SML_TURNED_AWAY_NS)
		jobs->turned_away.job[0] = '\0';
	else if (job->members.refused[0] == '\0')
		snprintf(job->members.refused, sizeof(job->members.refused), "%s",
			 jobs->turned_away.text);
}

/*
 * Ranks that disagree about what their job is, or that are of different versions, will not agree by
 * waiting: all get the error, in whatever order they come. Any other refusal is the newcomer's own,
 * and so is that of a stranger, who comes when all ranks have.
 */
static bool is_for_all(const struct sml_job *job, const SmlControl__Join *join,
		       const struct sml_refusal *refusal)
{
	if (refusal->error != SML_ERROR_MISMATCH && refusal->error != SML_ERROR_VERSION)
		return false;
	return job != NULL ? sml_job_gathers(job) && !job->resume.runs
			   : !sml_join_resumes(join) && strlen(join->job) < SML_NAME_BYTES;
}

static void refuse(struct sml_jobs *jobs, struct sml_peer *peer, struct sml_job *job,
		   const SmlControl__Join *join, const struct sml_refusal *refusal)
{
	bool ends = is_for_all(job, join, refusal);

	if (ends)
		sml_disagreement_note(jobs, job, join, refusal);
	else
		note_refusal(jobs, job, join, refusal->text);
	if (!ends || job == NULL)
		sml_jobs_log_refusal(jobs, join, refusal->text);
	sml_peer_refuse(jobs, peer, refusal->error, refusal->text);
	if (ends && job != NULL)
		sml_job_fail(job, refusal->error, "%s", refusal->text);
}

/* ---- ranks that had not been told to start, and have come before those that had ---- */

static bool is_of(const struct sml_job *job, const struct sml_member *member)
{
	return member->peer != NULL && member->resume != NULL &&
	       member->resume->resume->membership == job->membership;
}

/* From the job that it would have begun anew, which may end. */
static void move(struct sml_job *job, struct sml_job *from, uint16_t rank)
{
	struct sml_member *member = &from->members.of[rank];
	struct sml_peer *peer = sml_job_release(from, rank);
	struct sml_refusal refusal;

	sml_terms_check(job->jobs, job, member->resume, &refusal);
	if (refusal.error) {
		refuse(job->jobs, peer, job, member->resume, &refusal);
	} else if (!add_member(job, peer, member->resume)) {
		sml_peer_end(job->jobs, sml_job_release(job, rank));
		sml_job_forget_member(job, rank, NULL);
	}
	sml_job_forget_member(from, rank, NULL);
}

static void gather_own(struct sml_job *job)
{
	const struct sml_jobs *jobs = job->jobs;

	for (struct sml_job *from = NULL; (from = sml_jobs_next(jobs, from)) != NULL;) {
		if (!gathers_anew(from) || from->terms.stripe != job->terms.stripe ||
		    strcmp(from->name, job->name) != 0)
			continue;
		for (uint16_t rank = 0; jobs->jobs[from->place] == from && rank < from->n_ranks;
		     rank++)
			if (is_of(job, &from->members.of[rank]))
				move(job, from, rank);
	}
}

/* Does a rank resume that has this job here, and whose old connection is doubted? */
static bool is_given_up_by(const struct sml_job *job, const SmlControl__Join *join)
{
	const struct sml_peer *before;

	if (job->state < SML_JOB_PROBING || join->resume == NULL || join->rank >= job->n_ranks)
		return false;
	before = job->members.of[join->rank].peer;
	return before != NULL && sml_peer_is_doubted(before);
}

/*
 * Does a member come again? Its connection has been lost, and this switch does not know yet: a leaf
 * or a host on the way may have gone. Ranks that resume try several addresses at a time.
 */
static bool comes_again(const struct sml_job *job, const SmlControl__Join *join)
{
	return job != NULL && gathers_anew(job) && join->resume == NULL && !join->elsewhere &&
	       join->stripe == job->terms.stripe && join->process != 0 &&
	       join->rank < job->n_ranks && job->members.of[join->rank].peer != NULL &&
	       job->members.of[join->rank].asked.process == join->process;
}

/* Of its two connections, the one that ends, perhaps with the job, which has no other member. */
static struct sml_peer *end_older(struct sml_job *job, struct sml_peer *peer,
				  const SmlControl__Join *join)
{
	struct sml_peer *older = peer;

	if (job->members.of[join->rank].asked.time_ns <= join->time_ns) {
		older = sml_job_release(job, join->rank);
		sml_job_forget_member(job, (uint16_t)join->rank, NULL);
	}
	sml_peer_refuse(job->jobs, older, SML_ERROR_REFUSED, sml_asked_again);
	return older;
}

/* It waits at another switch, and this one has ranks of its job that wait for it. */
static bool is_apart(const struct sml_job *job, const SmlControl__Join *join)
{
	bool of_list = job != NULL && join->switches != 0 && join->switches == job->terms.switches;

	/* This is rank 0, and that rank has a switch. */
	of_list |= job != NULL && job->jobs->operations->ranks_have_slots &&
		   join->n_stripe_ports == 0 && join->world_size == job->n_ranks;
	return of_list && gathers_anew(job) && join->stripe == job->terms.stripe &&
	       join->rank < job->n_ranks && job->members.of[join->rank].peer == NULL;
}

static void report_apart(const struct sml_job *job, const SmlControl__Join *join,
			 struct sml_refusal *refusal)
{
	if (job->jobs->operations->ranks_have_slots) {
		sml_refuse(refusal, SML_ERROR_MISMATCH, SML_TERMS_APART, job->name, join->rank, 0u);
		return;
	}
	sml_refuse(
		refusal, SML_ERROR_MISMATCH,
		"ranks of job \"%s\" wait at different switches of one list, rank %u here and rank "
		"%u not: give all ranks the same switches in the same order (SWITCHML_SWITCH), "
		"and let all reach the first",
		job->name, job->members.first, join->rank);
}

void sml_job_join(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	if (join->ask != NULL)
		sml_applicant_comes(jobs, peer, join);
	else
		sml_job_join_as(jobs, peer, join);
}

void sml_job_join_as(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	struct sml_job *job = find_job(jobs, join);
	const SmlControl__PastRank *past = NULL;
	bool only_looks = join->elsewhere && join->n_left == 0;
	struct sml_refusal refusal;

	if (comes_again(job, join)) {
		if (end_older(job, peer, join) == peer)
			return;
		job = find_job(jobs, join);
	}
	/* Another job may have this name here. */
	if (only_looks && !is_apart(job, join)) {
		sml_peer_end(jobs, peer);
		return;
	}
	if (job != NULL && is_given_up_by(job, join)) {
		sml_job_given_up(job, (uint16_t)join->rank,
				 job->members.of[join->rank].peer->missed_ns, "it resumes");
		job = NULL;
	}
	if (only_looks)
		report_apart(job, join, &refusal);
	else
		sml_terms_check(jobs, job, join, &refusal);
	/* Whom the switch has chosen as a member is late for nothing. */
	if (!refusal.error && job == NULL && jobs->deciding == NULL &&
	    sml_disagreement_recall(jobs, join, &refusal)) {
		sml_peer_refuse(jobs, peer, refusal.error, refusal.text);
		return;
	}
	if (!refusal.error)
		past = sml_applicants_check_list(jobs, join, &refusal);
	if (refusal.error) {
		refuse(jobs, peer, job, join, &refusal);
		return;
	}
	if (join->elsewhere) {
		sml_peer_end(jobs, peer);
		return;
	}
	if (!sml_jobs_has_room_for_member(jobs, peer, join))
		return;
	if (job == NULL)
		job = admit(jobs, peer, join);
	if (job == NULL)
		return;
	recall_refusal(job, join);
	if (!add_member(job, peer, join)) {
		sml_job_fail(job, SML_ERROR_REFUSED,
			     "the switch has no memory for what the ranks report");
		return;
	}
	if (job->resume.runs)
		gather_own(job);
	sml_listed_note(job, (uint16_t)join->rank, past);
	if (!sml_listed_misses(job))
		sml_job_joined(job, peer);
}

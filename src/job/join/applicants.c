/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Those who ask to be members, until the switch decides (decide.c): in the order in which they
 * came.
 *
 * The invariant: an applicant is in no job. It is in the list as long as its connection lasts.
 */
#include "job/join/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "job/states/states.h"
#include "switchml.h"

#define MS_NS	   1000000ull
#define LONGEST_MS (24u * 3600 * 1000)

static const char no_such_rank[] = "the switch knows no such place in a job";
const char sml_asked_again[] = "this process has asked again, on another connection";

/* ---- the list ---- */

struct sml_applicant *sml_applicants_find(const struct sml_jobs *jobs, uint64_t tag, uint32_t rank)
{
	struct sml_applicant *applicant = jobs->applicants;

	while (applicant != NULL && (applicant->tag != tag || applicant->rank != rank))
		applicant = applicant->next;
	return applicant;
}

static struct sml_applicant *find_process(const struct sml_jobs *jobs, uint64_t process)
{
	struct sml_applicant *applicant = jobs->applicants;

	while (applicant != NULL && applicant->join->process != process)
		applicant = applicant->next;
	return applicant;
}

struct sml_applicant *sml_applicants_first(const struct sml_jobs *jobs, uint64_t tag)
{
	struct sml_applicant *asker = jobs->applicants;

	while (asker != NULL && asker->tag != tag)
		asker = asker->next;
	return asker;
}

static void append(struct sml_jobs *jobs, struct sml_applicant *applicant)
{
	struct sml_applicant **end = &jobs->applicants;

	while (*end != NULL)
		end = &(*end)->next;
	*end = applicant;
	applicant->peer->applicant = applicant;
	jobs->n_members += applicant->peer->via == NULL;
}

/* It is no applicant any more. Its Join is the caller's, who frees it. */
SmlControl__Join *sml_applicant_take(struct sml_jobs *jobs, struct sml_applicant *applicant)
{
	struct sml_applicant **at = &jobs->applicants;
	SmlControl__Join *join = applicant->join;
	const uint64_t tag = applicant->tag;

	while (*at != applicant)
		at = &(*at)->next;
	*at = applicant->next;
	applicant->peer->applicant = NULL;
	jobs->n_members -= applicant->peer->via == NULL;
	free(applicant);
	if (sml_applicants_first(jobs, tag) == NULL)
		sml_kept_unasked(jobs, tag);
	return join;
}

void sml_applicant_dismiss(struct sml_jobs *jobs, struct sml_applicant *applicant, int error,
			   const char *text)
{
	struct sml_peer *peer = applicant->peer;

	sml_control__join__free_unpacked(sml_applicant_take(jobs, applicant), NULL);
	sml_peer_refuse(jobs, peer, error, text);
}

void sml_applicants_dismiss(struct sml_jobs *jobs, uint64_t tag, int error, const char *text)
{
	struct sml_applicant *applicant, *next;

	for (applicant = jobs->applicants; applicant != NULL; applicant = next) {
		next = applicant->next;
		if (applicant->tag == tag)
			sml_applicant_dismiss(jobs, applicant, error, text);
	}
}

/* ---- who waits to join a job ---- */

/* "train" and "train #7" are memberships of the job "train". */
static bool is_of_line(const struct sml_job *job, const char *line)
{
	size_t n = strlen(line), whole = strlen(job->name);

	return whole >= n && memcmp(job->name, line, n) == 0 &&
	       (whole == n || (whole > n + 2 && memcmp(job->name + n, " #", 2) == 0));
}

bool sml_applicant_waits_for(const struct sml_applicant *applicant, const char *line)
{
	return applicant->tag == 0 && strcmp(applicant->join->job, line) == 0;
}

uint32_t sml_applicants_count(const struct sml_job *job)
{
	uint32_t n = 0;

	for (const struct sml_applicant *a = job->jobs->applicants; a != NULL; a = a->next)
		n += a->tag == 0 && is_of_line(job, a->join->job);
	return n;
}

/* At once: its ranks may want to let them in. Pings have the same answer. */
static void notify_job(struct sml_job *job)
{
	SmlControl__Pong pong = SML_CONTROL__PONG__INIT;

	pong.waiting = sml_applicants_count(job);
	sml_job_send_all(job, sml_envelope(PONG, pong, &pong));
}

static void notify_jobs(struct sml_jobs *jobs, const struct sml_applicant *newcomer)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (job->state >= SML_JOB_RUNNING && is_of_line(job, newcomer->join->job))
			notify_job(job);
	if (jobs->config.debug >= SML_LOG_INFO)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "a process (host %.64s, pid %u) waits to join job \"%s\"",
			     newcomer->join->host, newcomer->join->pid, newcomer->join->job);
}

/* ---- a process asks ---- */

/*
 * Has this process asked since, on another connection? This one has been lost, or given up, and has
 * been read late: a switch may read two connections in any order, and leaves are on the way.
 */
static bool is_outdated(const struct sml_jobs *jobs, const SmlControl__Join *join)
{
	const struct sml_applicant *other = find_process(jobs, join->process);
	const struct sml_asked asked = {join->process, join->time_ns};

	return (other != NULL && other->join->time_ns > asked.time_ns) ||
	       sml_ask_was_decided_on(jobs, &asked);
}

/* ---- ranks of one job that go on in both ways ---- */

/*
 * A switch that decides on a job's members must know all who go on: otherwise, there could be two
 * memberships that compute.
 */
static void describe_both(const char *list, uint32_t lister, uint32_t asker,
			  struct sml_refusal *refusal)
{
	sml_refuse(refusal, SML_ERROR_MISMATCH,
		   "rank %u of a job goes on with a list of members, as job \"%s\", and rank %u as "
		   "the switch decides (sml_reconfigure()): all ranks must do the same",
		   lister, list, asker);
}

/*
 * A rank asks, and another one has gone on with a list: those that wait there need not. If all with
 * lists are among them, no membership can begin with these any more, and the ranks may ask again.
 */
static void refuse_both(struct sml_jobs *jobs, struct sml_failed_job *before, uint32_t asker,
			struct sml_refusal *refusal)
{
	bool waits = false;

	describe_both(before->list, before->lister, asker, refusal);
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (!sml_job_gathers(job) || job->resume.runs ||
		    strcmp(job->name, before->list) != 0)
			continue;
		waits |= job->elastic.after == before->tag && !before->list_stays;
		sml_disagreement_note(jobs, job, NULL, refusal);
		sml_job_fail(job, refusal->error, "%s", refusal->text);
	}
	if (waits)
		before->list[0] = '\0';
}

const SmlControl__PastRank *sml_applicants_check_list(struct sml_jobs *jobs,
						      const SmlControl__Join *join,
						      struct sml_refusal *refusal)
{
	struct sml_failed_job *before;
	const SmlControl__PastRank *past;
	const struct sml_applicant *asker;

	if (join->n_left == 0)
		return NULL;
	past = sml_past_rank_that_counts(jobs, join->process, join->left, join->n_left, &before);
	if (past == NULL || past->tag == 0)
		return NULL;
	asker = sml_applicants_first(jobs, past->tag);
	if (before != NULL && past->members.len > 0 && past->world_size != before->n_ranks) {
		sml_refuse(refusal, SML_ERROR_REFUSED, "%s", no_such_rank);
	} else if (asker != NULL) {
		describe_both(join->job, past->rank, asker->rank, refusal);
		sml_applicants_dismiss(jobs, past->tag, refusal->error, refusal->text);
	} else if (before != NULL && before->decided) {
		sml_refuse(refusal, SML_ERROR_MISMATCH,
			   "the switch has decided who goes on, and this rank comes with a list of "
			   "members (sml_reconfigure()): all ranks must do the same");
	} else if (before != NULL) {
		before->list_stays |= join->elsewhere || (before->list[0] != '\0' &&
							  strcmp(before->list, join->job) != 0);
		snprintf(before->list, sizeof(before->list), "%s", join->job);
		before->lister = (uint16_t)past->rank;
	}
	return past;
}

/* ---- a rank asks ---- */

/* Which of its past ranks counts. NULL: none; it is new. Otherwise an error may be set. */
static const SmlControl__PastRank *
find_past_rank(struct sml_jobs *jobs, const SmlControl__Join *join, struct sml_refusal *refusal)
{
	const SmlControl__Ask *ask = join->ask;
	struct sml_failed_job *before;
	const SmlControl__PastRank *past = sml_past_rank_that_counts(
		jobs, join->process, ask->past_ranks, ask->n_past_ranks, &before);

	if (past == NULL)
		return NULL;
	if (past->tag == 0 || past->world_size < 1 || past->world_size > SML_MAX_WORLD ||
	    past->rank >= past->world_size ||
	    (before != NULL && past->world_size != before->n_ranks))
		sml_refuse(refusal, SML_ERROR_REFUSED, "%s", no_such_rank);
	else if (before != NULL && before->decided)
		sml_refuse(refusal, SML_ERROR_REFUSED, "%s", sml_too_late);
	else if (before != NULL && before->list[0] != '\0')
		refuse_both(jobs, before, past->rank, refusal);
	else if (before == NULL && !past->ran)
		sml_refuse(
			refusal, SML_ERROR_TIMEOUT,
			"the switch that decided on the last membership has died before this rank "
			"saw it begin: your program must decide on the members (job, rank and "
			"world_size of struct sml_membership)");
	return past;
}

/*
 * A new process that the job's ranks could not compute with is told so at once, and they are not
 * told of it: they would end their job for its sake. Jobs of other runs may have such names, too,
 * so it is enough that it fits one.
 */
static void compare_with_members(const struct sml_jobs *jobs, SmlControl__Join join,
				 struct sml_refusal *refusal)
{
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (!is_of_line(job, join.job))
			continue;
		refusal->error = 0;
		join.rank = join.world_size = job->n_ranks;
		join.stripe = job->terms.stripe;
		sml_terms_compare(job, &join, refusal);
		if (!refusal->error)
			return;
	}
}

static bool is_acceptable(struct sml_jobs *jobs, const SmlControl__Join *join,
			  struct sml_refusal *refusal)
{
	const unsigned most = SML_NAME_BYTES - 1 - SML_DECISION_BYTES;

	sml_terms_check(jobs, NULL, join, refusal);
	if (refusal->error)
		return false;
	if (jobs->operations->ranks_have_slots) {
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "rank 0's own switch does not decide on members: give all ranks a "
			   "dedicated switch (SWITCHML_SWITCH)");
	} else if (strlen(join->job) > most) {
		sml_refuse(refusal, SML_ERROR_REFUSED,
			   "the name of a job whose members the switch decides on has at most %u "
			   "bytes",
			   most);
	} else if (join->ask->n_past_ranks == 0) {
		compare_with_members(jobs, *join, refusal);
	}
	return refusal->error == 0;
}

/* NULL: no memory. */
static struct sml_applicant *new_applicant(struct sml_jobs *jobs, struct sml_peer *peer,
					   const SmlControl__Join *join,
					   const SmlControl__PastRank *past)
{
	struct sml_applicant *applicant = calloc(1, sizeof(*applicant));

	if (applicant == NULL)
		return NULL;
	applicant->peer = peer;
	applicant->join = sml_join_copy(join);
	if (applicant->join == NULL) {
		free(applicant);
		return NULL;
	}
	applicant->came_ns = jobs->now_ns;
	applicant->waits_until_ns = jobs->now_ns + sml_least(join->wait_ms, LONGEST_MS) * MS_NS;
	applicant->heartbeat_ms = sml_jobs_heartbeat_ms(jobs, join);
	if (past != NULL) {
		applicant->tag = past->tag;
		applicant->rank = (uint16_t)past->rank;
		applicant->n_ranks = (uint16_t)past->world_size;
	} else {
		/* Also if it was in a job that never ran. */
		applicant->join->rank = 0;
		applicant->join->world_size = 1;
	}
	append(jobs, applicant);
	return applicant;
}

/* Its first connection has been lost without a word, or will be. A past rank is of one process. */
static void replace_older(struct sml_jobs *jobs, uint64_t process, const SmlControl__PastRank *past)
{
	struct sml_applicant *older = find_process(jobs, process);

	if (older != NULL)
		sml_applicant_dismiss(jobs, older, SML_ERROR_REFUSED, sml_asked_again);
	older = past != NULL ? sml_applicants_find(jobs, past->tag, past->rank) : NULL;
	if (older != NULL)
		sml_applicant_dismiss(jobs, older, SML_ERROR_REFUSED, sml_asked_again);
}

void sml_applicant_comes(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	const SmlControl__PastRank *past = NULL;
	struct sml_refusal refusal;
	struct sml_applicant *applicant;

	if (peer->applicant != NULL)
		return;
	if (is_outdated(jobs, join)) {
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, sml_asked_again);
		return;
	}
	if (is_acceptable(jobs, join, &refusal))
		past = find_past_rank(jobs, join, &refusal);
	if (refusal.error) {
		sml_jobs_log_refusal(jobs, join, refusal.text);
		sml_peer_refuse(jobs, peer, refusal.error, refusal.text);
		return;
	}
	if (!sml_jobs_has_room_for_member(jobs, peer, join))
		return;
	replace_older(jobs, join->process, past);
	applicant = new_applicant(jobs, peer, join, past);
	if (applicant == NULL) {
		sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
		return;
	}
	sml_kept_back(jobs, applicant->tag, applicant->rank);
	sml_kept_asked(jobs, applicant->tag, sml_applicant_decides_at(applicant));
	sml_survivors_await(jobs, applicant->tag, sml_applicant_decides_at(applicant));
	sml_applicant_notify(jobs, applicant);
	if (past == NULL)
		notify_jobs(jobs, applicant);
	sml_decide(jobs);
}

/* ---- its end ---- */

void sml_applicant_lost(struct sml_jobs *jobs, struct sml_peer *peer, bool may_ask_again)
{
	struct sml_applicant *applicant = peer->applicant;
	struct sml_failed_job *before = sml_jobs_find_judged(jobs, applicant->tag);

	if (before != NULL && !may_ask_again)
		sml_kept_without(jobs, before, applicant->rank);
	sml_control__join__free_unpacked(sml_applicant_take(jobs, applicant), NULL);
	sml_decide(jobs);
}

void sml_applicants_stop(struct sml_jobs *jobs)
{
	while (jobs->applicants != NULL)
		sml_applicant_dismiss(jobs, jobs->applicants, SML_ERROR_SWITCH_DIED,
				      "the switch was stopped");
}

/* ---- time ---- */

uint64_t sml_applicant_decides_at(const struct sml_applicant *applicant)
{
	return applicant->came_ns + sml_least(applicant->join->ask->wait_ms, LONGEST_MS) * MS_NS;
}

static uint64_t silence_ends(const struct sml_applicant *applicant)
{
	return applicant->peer->heard_ns + applicant->heartbeat_ms * MS_NS;
}

uint64_t sml_applicants_deadline(const struct sml_jobs *jobs)
{
	uint64_t due_ns = UINT64_MAX;

	for (const struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next) {
		if (a->tag != 0)
			due_ns = sml_earlier(due_ns, sml_applicant_decides_at(a));
		due_ns = sml_earlier(due_ns, silence_ends(a));
		due_ns = sml_earlier(due_ns, a->waits_until_ns);
		due_ns = sml_earlier(due_ns, a->told_ns + SML_SECOND_NS);
	}
	return due_ns;
}

/* True: it has gone. */
static bool check_applicant(struct sml_jobs *jobs, struct sml_applicant *applicant)
{
	struct sml_peer *peer = applicant->peer;
	bool doubted;

	if (jobs->now_ns >= silence_ends(applicant)) {
		doubted = sml_peer_is_doubted(peer);
		sml_applicant_lost(jobs, peer, doubted);
		sml_peer_end_silent(jobs, peer, doubted,
				    "the switch heard nothing from this process for its heartbeat");
		return true;
	}
	if (jobs->now_ns >= applicant->waits_until_ns) {
		sml_applicant_dismiss(
			jobs, applicant, SML_ERROR_TIMEOUT,
			"the switch formed no membership within this process's timeout");
		return true;
	}
	if (jobs->now_ns >= applicant->told_ns + SML_SECOND_NS)
		sml_applicant_notify(jobs, applicant);
	return false;
}

void sml_applicants_tick(struct sml_jobs *jobs)
{
	struct sml_applicant *applicant = jobs->applicants;

	/* One that goes may take others along: begin again. */
	while (applicant != NULL)
		applicant = check_applicant(jobs, applicant) ? jobs->applicants : applicant->next;
	sml_decide(jobs);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Those who ask to be members, until the switch decides (decide.c): in the order in which they
 * came.
 *
 * The invariant: an applicant is in no job. It is in the list as long as its connection lasts.
 */
#include "job/join/applicants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "job/join/decide.h"
#include "job/join/room.h"
#include "job/join/terms.h"
#include "job/peer/output.h"
#include "job/states/end.h"
#include "job/states/reports.h"
#include "switchml.h"

#define MS_NS	   1000000ull
#define LONGEST_MS (24u * 3600 * 1000)

static const char asked_again[] = "this rank has asked again, on another connection";

/* ---- the list ---- */

struct sml_applicant *sml_applicants_find(const struct sml_jobs *jobs, uint64_t tag, uint32_t rank)
{
	struct sml_applicant *applicant = jobs->applicants;

	while (applicant != NULL && (applicant->tag != tag || applicant->rank != rank))
		applicant = applicant->next;
	return applicant;
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

	while (*at != applicant)
		at = &(*at)->next;
	*at = applicant->next;
	applicant->peer->applicant = NULL;
	jobs->n_members -= applicant->peer->via == NULL;
	free(applicant);
	return join;
}

void sml_applicant_dismiss(struct sml_jobs *jobs, struct sml_applicant *applicant, int error,
			   const char *text)
{
	struct sml_peer *peer = applicant->peer;

	sml_control__join__free_unpacked(sml_applicant_take(jobs, applicant), NULL);
	sml_peer_refuse(jobs, peer, error, text);
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
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members[rank].peer,
					    sml_envelope(PONG, pong, &pong));
}

static void notify_jobs(struct sml_jobs *jobs, const struct sml_applicant *newcomer)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->state >= SML_JOB_RUNNING &&
		    is_of_line(jobs->jobs[i], newcomer->join->job))
			notify_job(jobs->jobs[i]);
	if (jobs->config.debug >= 1)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "a process (host %.64s, pid %u) waits to join job \"%s\"",
			     newcomer->join->host, newcomer->join->pid, newcomer->join->job);
}

/* ---- a process asks ---- */

static struct sml_job *find_job(const struct sml_jobs *jobs, uint64_t tag)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->state >= SML_JOB_PROBING &&
		    jobs->jobs[i]->report_tag == tag)
			return jobs->jobs[i];
	return NULL;
}

/* Only its ranks know the tag, and one of them has left it: its message about that may be late. */
static void end_job(struct sml_jobs *jobs, const SmlControl__Place *place)
{
	struct sml_job *job = find_job(jobs, place->tag);
	char text[SML_SENTENCE_BYTES];

	if (job == NULL)
		return;
	snprintf(text, sizeof(text),
		 "this is no failure: rank %u asks to be in the job's next membership "
		 "(sml_reconfigure())",
		 place->rank);
	job->planned = true;
	sml_job_fail(job, SML_ERROR_ABORTED, text);
}

/* Its rank there; -1: it has none. */
static int find_rank(const struct sml_decision *decision, const SmlControl__Place *place)
{
	for (uint32_t rank = 0; rank < decision->n; rank++)
		if (decision->before[rank] != 0 && decision->before[rank] - 1 == place->rank)
			return (int)rank;
	return -1;
}

/*
 * A member of the next membership asks as a rank of the job before it: so its connection broke
 * before it was told of the decision, and this switch may not know that yet. That membership waits
 * for it in vain, and it has not run, because not all of its members were ready.
 */
static void end_undelivered(struct sml_jobs *jobs, const SmlControl__Place *place)
{
	char text[SML_SENTENCE_BYTES];

	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		struct sml_job *job = jobs->jobs[i];
		int rank;

		if (job == NULL || job->decision == NULL || job->state >= SML_JOB_RUNNING ||
		    place->tag == 0 || job->decision->after != place->tag)
			continue;
		rank = find_rank(job->decision, place);
		if (rank < 0)
			continue;
		snprintf(text, sizeof(text),
			 "rank %d asks again to be a member, because its connection broke before "
			 "the job had begun: ask again (sml_reconfigure()), too",
			 rank);
		sml_job_fail(job, SML_ERROR_ABORTED, text);
		return;
	}
}

static bool was_member(const struct sml_decision *decision, const SmlControl__Place *place,
		       uint64_t after_ns)
{
	int rank = decision->after == place->tag ? find_rank(decision, place) : -1;

	return rank >= 0 && decision->asked_ns[rank] > after_ns;
}

/*
 * Has this rank asked since, on another connection? This one has been lost, or given up, and has
 * been read late: a switch may read two connections in any order, and leaves are on the way.
 */
static bool has_asked_since(const struct sml_jobs *jobs, const SmlControl__Place *place,
			    uint64_t time_ns)
{
	const struct sml_applicant *other = sml_applicants_find(jobs, place->tag, place->rank);

	if (place->tag == 0)
		return false;
	if (other != NULL && other->join->ask->time_ns > time_ns)
		return true;
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->decision != NULL &&
		    was_member(jobs->jobs[i]->decision, place, time_ns))
			return true;
	return false;
}

static bool is_outdated(const struct sml_jobs *jobs, const SmlControl__Ask *ask)
{
	for (size_t i = 0; i < ask->n_places; i++)
		if (has_asked_since(jobs, ask->places[i], ask->time_ns))
			return true;
	return false;
}

static int refuse(struct sml_refusal *refusal, int error, const char *text)
{
	refusal->error = error;
	snprintf(refusal->text, sizeof(refusal->text), "%s", text);
	return error;
}

/*
 * Which of its places counts: that of the newest job, unless this switch knows that it never ran.
 * NULL: none; it is new. Otherwise an error may be set.
 */
static const SmlControl__Place *find_past_rank(struct sml_jobs *jobs, const SmlControl__Ask *ask,
					       struct sml_refusal *refusal)
{
	const SmlControl__Place *place = NULL;
	const struct sml_failed_job *before = NULL;

	for (size_t i = 0; i < ask->n_places; i++) {
		place = ask->places[i];
		end_job(jobs, place);
		end_undelivered(jobs, place);
		before = sml_jobs_find_judged(jobs, place->tag);
		if (before == NULL || before->ran)
			break;
		place = NULL;
	}
	if (place == NULL)
		return NULL;
	if (place->tag == 0 || place->world_size < 1 || place->world_size > SML_MAX_WORLD ||
	    place->rank >= place->world_size ||
	    (before != NULL && place->world_size != before->n_ranks))
		refuse(refusal, SML_ERROR_REFUSED, "the switch knows no such place in a job");
	else if (before != NULL && before->decided)
		refuse(refusal, SML_ERROR_REFUSED, sml_too_late);
	else if (before == NULL && !place->ran)
		refuse(refusal, SML_ERROR_TIMEOUT,
		       "the switch that decided on the last membership has died before this rank "
		       "saw it begin: your program must decide on the members (job, rank and "
		       "world_size of struct sml_membership)");
	return place;
}

/*
 * A new process that the job's ranks could not compute with is told so at once, and they are not
 * told of it: they would end their job for its sake. Jobs of other runs may have such names, too,
 * so it is enough that it fits one.
 */
static void compare_with_members(const struct sml_jobs *jobs, SmlControl__Join join,
				 struct sml_refusal *refusal)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		const struct sml_job *job = jobs->jobs[i];

		if (job == NULL || !is_of_line(job, join.job))
			continue;
		refusal->error = 0;
		join.rank = join.world_size = job->n_ranks;
		join.stripe = job->stripe;
		sml_terms_compare(job, &join, refusal);
		if (!refusal->error)
			return;
	}
}

static bool is_acceptable(struct sml_jobs *jobs, const SmlControl__Join *join,
			  struct sml_refusal *refusal)
{
	sml_terms_check(jobs, NULL, join, refusal);
	if (refusal->error)
		return false;
	if (jobs->operations->ranks_have_slots)
		refuse(refusal, SML_ERROR_REFUSED,
		       "rank 0's own switch does not decide on members: give all ranks a "
		       "dedicated switch (SWITCHML_SWITCH)");
	else if (strlen(join->job) > SML_NAME_BYTES - 1 - SML_DECISION_BYTES)
		refuse(refusal, SML_ERROR_REFUSED,
		       "the name of a job whose members the switch decides on must be shorter");
	else if (join->ask->n_places == 0)
		compare_with_members(jobs, *join, refusal);
	return refusal->error == 0;
}

/* NULL: no memory. */
static struct sml_applicant *new_applicant(struct sml_jobs *jobs, struct sml_peer *peer,
					   const SmlControl__Join *join,
					   const SmlControl__Place *place)
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
	applicant->heartbeat_ms = sml_least(join->heartbeat_ms, jobs->config.heartbeat_ms);
	if (applicant->heartbeat_ms < 500)
		applicant->heartbeat_ms = 500;
	if (place != NULL) {
		applicant->tag = place->tag;
		applicant->rank = (uint16_t)place->rank;
		applicant->n_ranks = (uint16_t)place->world_size;
	} else {
		/* Also if it was in a job that never ran. */
		applicant->join->rank = 0;
		applicant->join->world_size = 1;
	}
	append(jobs, applicant);
	return applicant;
}

/* It is here, whatever became of its last connection. */
static void note_back(const struct sml_jobs *jobs, const struct sml_applicant *applicant)
{
	struct sml_failed_job *before = sml_jobs_find_judged(jobs, applicant->tag);

	if (applicant->tag != 0 && before != NULL)
		sml_ranks_remove(&before->gone, applicant->rank);
}

/* Its first connection has been lost without a word, or will be. */
static void replace_older(struct sml_jobs *jobs, const SmlControl__Place *place)
{
	struct sml_applicant *older =
		place != NULL ? sml_applicants_find(jobs, place->tag, place->rank) : NULL;

	if (older != NULL)
		sml_applicant_dismiss(jobs, older, SML_ERROR_REFUSED, asked_again);
}

void sml_applicant_comes(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	const SmlControl__Place *place = NULL;
	struct sml_refusal refusal;
	struct sml_applicant *applicant;

	if (peer->applicant != NULL)
		return;
	if (is_outdated(jobs, join->ask)) {
		sml_peer_refuse(jobs, peer, SML_ERROR_REFUSED, asked_again);
		return;
	}
	if (is_acceptable(jobs, join, &refusal))
		place = find_past_rank(jobs, join->ask, &refusal);
	if (refusal.error) {
		sml_jobs_log_refusal(jobs, join, refusal.text);
		sml_peer_refuse(jobs, peer, refusal.error, refusal.text);
		return;
	}
	if (!sml_jobs_has_room_for_member(jobs, peer, join))
		return;
	replace_older(jobs, place);
	applicant = new_applicant(jobs, peer, join, place);
	if (applicant == NULL) {
		sml_peer_refuse_for_now(jobs, peer, "the switch has no memory");
		return;
	}
	note_back(jobs, applicant);
	sml_applicant_notify(jobs, applicant);
	if (place == NULL)
		notify_jobs(jobs, applicant);
	sml_decide(jobs);
}

/* ---- its end ---- */

void sml_applicant_lost(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_applicant *applicant = peer->applicant;
	struct sml_failed_job *before = sml_jobs_find_judged(jobs, applicant->tag);

	/* The others need not wait for it. */
	if (applicant->tag != 0 && before != NULL)
		sml_ranks_add(&before->gone, applicant->rank);
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

	if (jobs->now_ns >= silence_ends(applicant)) {
		sml_applicant_lost(jobs, peer);
		sml_peer_refuse(jobs, peer, SML_ERROR_TIMEOUT,
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch decides who the members of a job's next membership are. Ranks of a job that has ended,
 * and new processes, ask (Join.ask), and wait here. When the time has come, all that are there
 * become the members: the ranks in their old order, then the new ones in the order in which they
 * came. Each then joins like any other rank, in the same input, by the Join that it has sent.
 *
 * There must never be two memberships of a job that both compute, so this switch forms one of
 *
 *   - any number of the ranks of a job that has run and ended here: its tag is known to its ranks
 *     and to this switch alone. Another is formed of it only if the last one never ran here, and
 *     only with one of its members, without whom it cannot begin elsewhere, either;
 *   - all ranks of a job that ran elsewhere, or here before this switch was started again. None of
 *     them can be in another membership then.
 *
 * The invariant: an applicant is in no job. It is in the list as long as its connection lasts.
 */
#include "job/join/decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "base/plural.h"
#include "control/envelope.h"
#include "job/join/join.h"
#include "job/join/room.h"
#include "job/join/terms.h"
#include "job/peer/heard.h"
#include "job/peer/output.h"
#include "job/states/end.h"
#include "job/states/reports.h"
#include "switchml.h"

#define MS_NS	   1000000ull
#define LONGEST_MS (24u * 3600 * 1000)
/* Room for " #" and a number, behind the name. */
#define NUMBER_BYTES 12

static const char too_late[] =
	"the job's next membership was formed without this rank, which asked too late: start its "
	"process again with SWITCHML_JOIN=1, and it can join";

/* ---- the list ---- */

static struct sml_applicant *find_rank(const struct sml_jobs *jobs, uint64_t tag, uint32_t rank)
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
static SmlControl__Join *take(struct sml_jobs *jobs, struct sml_applicant *applicant)
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

static void dismiss(struct sml_jobs *jobs, struct sml_applicant *applicant, int error,
		    const char *text)
{
	struct sml_peer *peer = applicant->peer;

	sml_control__join__free_unpacked(take(jobs, applicant), NULL);
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

static bool waits_for(const struct sml_applicant *applicant, const char *line)
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
static void tell_job(struct sml_job *job)
{
	SmlControl__Pong pong = SML_CONTROL__PONG__INIT;

	pong.waiting = sml_applicants_count(job);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].peer != NULL)
			(void)sml_peer_send(job->jobs, job->members[rank].peer,
					    sml_envelope(PONG, pong, &pong));
}

static void tell_jobs(struct sml_jobs *jobs, const struct sml_applicant *newcomer)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && jobs->jobs[i]->state >= SML_JOB_RUNNING &&
		    is_of_line(jobs->jobs[i], newcomer->join->job))
			tell_job(jobs->jobs[i]);
	if (jobs->config.debug >= 1)
		sml_jobs_log(jobs, SML_JOBS_INFO,
			     "a process (host %.64s, pid %u) waits to join job \"%s\"",
			     newcomer->join->host, newcomer->join->pid, newcomer->join->job);
}

/* ---- those that ask together ---- */

/* By then, without those that have not come. */
static uint64_t decides_at(const struct sml_applicant *applicant)
{
	return applicant->came_ns + sml_least(applicant->join->ask->wait_ms, LONGEST_MS) * MS_NS;
}

/* The ranks of one job that have asked. */
struct group {
	uint64_t tag, due_ns;
	const struct sml_failed_job *before; /* their job, if it ran here; NULL: it did not */
	uint32_t n, n_ranks, min_ranks, max_ranks, number;
	const char *line;
	bool has_heir;
	struct sml_ranks asked;
};

static void look_at_group(const struct sml_jobs *jobs, uint64_t tag, struct group *group)
{
	*group = (struct group){
		.tag = tag, .due_ns = UINT64_MAX, .before = sml_jobs_find_failed(jobs, tag)};
	if (group->before != NULL)
		group->number = group->before->decisions;
	for (const struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next) {
		const SmlControl__Ask *ask = a->join->ask;

		if (a->tag != tag)
			continue;
		if (group->n++ == 0) {
			group->line = a->join->job;
			group->n_ranks = a->n_ranks;
		}
		sml_ranks_add(&group->asked, a->rank);
		group->has_heir |= a->is_heir;
		group->due_ns = sml_earlier(group->due_ns, decides_at(a));
		group->min_ranks = sml_most(group->min_ranks, ask->min_ranks);
		group->number = sml_most(group->number, ask->number);
		if (ask->max_ranks != 0)
			group->max_ranks = group->max_ranks != 0
						   ? sml_least(group->max_ranks, ask->max_ranks)
						   : ask->max_ranks;
	}
}

/* To an applicant: which ranks of its last job have not asked. */
static void tell_applicant(struct sml_jobs *jobs, struct sml_applicant *applicant)
{
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	uint32_t missing[SML_MAX_CHILDREN];
	struct group group;

	look_at_group(jobs, applicant->tag, &group);
	waiting.missing = missing;
	for (uint32_t rank = 0; applicant->tag != 0 && rank < applicant->n_ranks; rank++) {
		if (sml_ranks_has(&group.asked, rank))
			continue;
		if (waiting.n_missing < SML_MAX_CHILDREN)
			missing[waiting.n_missing++] = rank;
		else
			waiting.more++;
	}
	applicant->told_ns = jobs->now_ns;
	(void)sml_peer_send(jobs, applicant->peer, sml_envelope(WAITING, waiting, &waiting));
}

/* The last membership of these ranks may begin elsewhere, if all of its members are there. */
static bool lacks_heir(const struct group *group)
{
	return group->before != NULL && group->before->heir != 0 && !group->has_heir;
}

/* Have all asked that can? */
static bool is_complete(const struct group *group)
{
	struct sml_ranks here = group->asked;

	if (group->before != NULL)
		sml_ranks_unite(&here, &group->before->gone);
	return sml_ranks_count(&here) == group->n_ranks;
}

static void dismiss_group(struct sml_jobs *jobs, const struct group *group, int error,
			  const char *text)
{
	struct sml_applicant *applicant, *next;

	for (applicant = jobs->applicants; applicant != NULL; applicant = next) {
		next = applicant->next;
		if (applicant->tag == group->tag)
			dismiss(jobs, applicant, error, text);
	}
}

static void tell_unknown(struct sml_jobs *jobs, const struct group *group)
{
	char text[SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "this switch did not run the last membership of job \"%s\" to its end, and only "
		 "%u of its %u ranks have asked, so the others may go on elsewhere: your program "
		 "must decide on the members (job, rank and world_size of struct sml_membership)",
		 group->line, group->n, group->n_ranks);
	dismiss_group(jobs, group, SML_ERROR_TIMEOUT, text);
}

static void tell_too_few(struct sml_jobs *jobs, const struct group *group, uint32_t n)
{
	char text[SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "job \"%s\" has too few ranks to go on: %u, of at least %u (SWITCHML_MIN_RANKS)",
		 group->line, n, group->min_ranks);
	dismiss_group(jobs, group, SML_ERROR_REFUSED, text);
}

/* ---- the new membership ---- */

/* In the order of their ranks. */
struct chosen {
	struct sml_peer *peer;
	SmlControl__Join *join;
	uint32_t before; /* 1 plus the old rank; 0: none */
};

/* As sml_terms_check() sees them: a job of these members has them. */
static void note_member(struct sml_job *terms, uint32_t rank, const struct sml_applicant *applicant)
{
	terms->members[rank].peer = applicant->peer;
	terms->members[rank].shards = applicant->join->shards;
	terms->members[rank].shards_set = applicant->join->shards_set;
}

/*
 * A job that has one rank of the group, and room for joiners, with all that they must have in
 * common. NULL: no memory.
 */
static struct sml_job *terms_of(struct sml_jobs *jobs, const struct group *group,
				uint32_t n_joiners)
{
	struct sml_applicant *a = jobs->applicants;
	SmlControl__Join join;
	struct sml_job *terms;

	while (a->tag != group->tag)
		a = a->next;
	join = *a->join;
	join.rank = 0;
	join.world_size = 1 + n_joiners;
	terms = sml_job_with_terms(jobs, &join);
	if (terms != NULL)
		note_member(terms, 0, a);
	return terms;
}

/* As this rank of that job. */
static bool fits(struct sml_jobs *jobs, struct sml_job *terms, uint32_t rank,
		 struct sml_applicant *applicant)
{
	SmlControl__Join join = *applicant->join;
	struct sml_refusal refusal;

	join.rank = rank;
	join.world_size = terms->n_ranks;
	sml_terms_check(jobs, terms, &join, &refusal);
	if (refusal.error)
		dismiss(jobs, applicant, refusal.error, refusal.text);
	else
		note_member(terms, rank, applicant);
	return refusal.error == 0;
}

static uint32_t count_waiting(const struct sml_jobs *jobs, const struct group *group)
{
	uint32_t n = 0;

	for (const struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next)
		n += waits_for(a, group->line);
	return n;
}

/* A joiner that does not fit the others, or those that came before it, would end the job for all.
 */
static void dismiss_misfits(struct sml_jobs *jobs, const struct group *group)
{
	uint32_t n = sml_least(count_waiting(jobs, group), SML_MAX_WORLD - 1), rank = 1;
	struct sml_job *terms = terms_of(jobs, group, n);
	struct sml_applicant *applicant = jobs->applicants, *next;

	for (; terms != NULL && applicant != NULL && rank <= n; applicant = next) {
		next = applicant->next;
		if (waits_for(applicant, group->line))
			rank += fits(jobs, terms, rank, applicant);
	}
	if (terms != NULL)
		free(terms->members);
	free(terms);
}

/* How many may join; the rest goes on waiting. */
static uint32_t count_joiners(const struct sml_jobs *jobs, const struct group *group)
{
	const uint32_t limit = jobs->branches != NULL ? SML_MAX_WORLD : SML_MAX_CHILDREN;
	uint32_t bound = group->max_ranks != 0 ? sml_least(group->max_ranks, limit) : limit;

	return group->n >= bound ? 0 : sml_least(count_waiting(jobs, group), bound - group->n);
}

static void choose(struct sml_jobs *jobs, struct sml_applicant *applicant, struct chosen *chosen)
{
	*chosen = (struct chosen){.peer = applicant->peer,
				  .before = applicant->tag != 0 ? applicant->rank + 1u : 0};
	chosen->join = take(jobs, applicant);
}

static void choose_all(struct sml_jobs *jobs, const struct group *group, struct chosen *chosen,
		       uint32_t n)
{
	struct sml_applicant *applicant;
	uint32_t i = 0;

	for (unsigned rank = sml_ranks_next(&group->asked, 0); rank < SML_MAX_WORLD;
	     rank = sml_ranks_next(&group->asked, rank + 1))
		choose(jobs, find_rank(jobs, group->tag, rank), &chosen[i++]);
	for (; i < n; i++) {
		applicant = jobs->applicants;
		while (!waits_for(applicant, group->line))
			applicant = applicant->next;
		choose(jobs, applicant, &chosen[i]);
	}
}

static bool is_taken(const struct sml_jobs *jobs, const char *name)
{
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && strcmp(jobs->jobs[i]->name, name) == 0)
			return true;
	return false;
}

/* NULL: no memory. */
static struct sml_decision *new_decision(const struct group *group, const struct chosen *chosen,
					 uint32_t n)
{
	struct sml_decision *decision = calloc(1, sizeof(*decision));
	uint32_t *before = calloc(n, sizeof(*before));

	if (decision == NULL || before == NULL) {
		free(decision);
		free(before);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++)
		before[i] = chosen[i].before;
	decision->before = before;
	decision->n = n;
	decision->after = group->tag;
	decision->number = group->number > 1 ? group->number + 1 : 2;
	return decision;
}

static void join_one(struct sml_jobs *jobs, struct chosen *chosen, char *name, uint32_t rank,
		     uint32_t n)
{
	SmlControl__Join join = *chosen->join;

	join.ask = NULL;
	join.resume = NULL;
	join.job = name;
	join.rank = rank;
	join.world_size = n;
	sml_job_join_as(jobs, chosen->peer, &join);
}

/* One of them cannot be in the job, for lack of room perhaps: nobody waits for it. */
static void give_up(struct sml_jobs *jobs, const struct chosen *chosen, uint32_t n, uint32_t failed)
{
	static const char text[] = "the switch could not take in all members: see its log";

	for (uint32_t i = 0; i < failed; i++)
		if (chosen[i].peer->job != NULL)
			sml_job_fail(chosen[i].peer->job, SML_ERROR_REFUSED, text);
	for (uint32_t i = failed + 1; i < n; i++)
		sml_peer_refuse(jobs, chosen[i].peer, SML_ERROR_REFUSED, text);
}

/* Until the new job ends without having run. */
static void set_decided(struct sml_jobs *jobs, const struct sml_decision *decision, bool decided)
{
	struct sml_failed_job *before = sml_jobs_find_failed(jobs, decision->after);

	if (before == NULL)
		return;
	before->decided = decided;
	before->decisions = decision->number;
}

static void join_all(struct sml_jobs *jobs, struct sml_decision *decision, struct chosen *chosen,
		     uint32_t n)
{
	char name[SML_NAME_BYTES + NUMBER_BYTES];

	do
		snprintf(name, sizeof(name), "%s #%u", chosen[0].join->job, decision->number++);
	while (is_taken(jobs, name));
	decision->number--;
	set_decided(jobs, decision, true);
	jobs->deciding = decision;
	for (uint32_t i = 0; i < n; i++) {
		join_one(jobs, &chosen[i], name, i, n);
		if (i + 1 < n && chosen[i].peer->job == NULL) {
			give_up(jobs, chosen, n, i);
			break;
		}
	}
	if (jobs->deciding == NULL)
		return;
	/* No job has begun to gather. */
	set_decided(jobs, decision, false);
	sml_decision_free(decision);
	jobs->deciding = NULL;
}

static void form(struct sml_jobs *jobs, const struct group *group, uint32_t n)
{
	struct chosen *chosen = calloc(n, sizeof(*chosen));
	struct sml_decision *decision;

	if (chosen == NULL) {
		dismiss_group(jobs, group, SML_ERROR_REFUSED, "the switch has no memory");
		return;
	}
	choose_all(jobs, group, chosen, n);
	decision = new_decision(group, chosen, n);
	if (decision != NULL)
		join_all(jobs, decision, chosen, n);
	for (uint32_t i = 0; i < n; i++) {
		if (decision == NULL)
			sml_peer_refuse(jobs, chosen[i].peer, SML_ERROR_REFUSED,
					"the switch has no memory");
		sml_control__join__free_unpacked(chosen[i].join, NULL);
	}
	free(chosen);
}

/* True: the group has gone. */
static bool decide(struct sml_jobs *jobs, uint64_t tag)
{
	struct group group;
	uint32_t n;
	bool due, complete;

	look_at_group(jobs, tag, &group);
	due = jobs->now_ns >= group.due_ns;
	complete = is_complete(&group) && !lacks_heir(&group);
	if (!due && !complete)
		return false;
	if (group.before == NULL && !complete) {
		tell_unknown(jobs, &group);
		return true;
	}
	if (lacks_heir(&group)) {
		dismiss_group(jobs, &group, SML_ERROR_REFUSED, too_late);
		return true;
	}
	dismiss_misfits(jobs, &group);
	n = group.n + count_joiners(jobs, &group);
	/* Joiners may still come. */
	if (n < group.min_ranks && !due)
		return false;
	if (n < group.min_ranks)
		tell_too_few(jobs, &group, n);
	else
		form(jobs, &group, n);
	return true;
}

/* The first that asks speaks for its group, or thousands of ranks would take very long. */
static bool is_first(const struct sml_jobs *jobs, const struct sml_applicant *applicant)
{
	const struct sml_applicant *first = jobs->applicants;

	while (first->tag != applicant->tag)
		first = first->next;
	return first == applicant;
}

static void decide_all(struct sml_jobs *jobs)
{
	struct sml_applicant *a = jobs->applicants;

	while (a != NULL)
		a = a->tag != 0 && is_first(jobs, a) && decide(jobs, a->tag) ? jobs->applicants
									     : a->next;
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
	sml_job_fail(job, SML_ERROR_ABORTED, text);
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
static const SmlControl__Place *find_place(struct sml_jobs *jobs, const SmlControl__Ask *ask,
					   struct sml_refusal *refusal)
{
	const SmlControl__Place *place = NULL;
	const struct sml_failed_job *before = NULL;

	for (size_t i = 0; i < ask->n_places; i++) {
		place = ask->places[i];
		end_job(jobs, place);
		before = sml_jobs_find_failed(jobs, place->tag);
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
		refuse(refusal, SML_ERROR_REFUSED, too_late);
	else if (before == NULL && !place->ran)
		refuse(refusal, SML_ERROR_TIMEOUT,
		       "the switch that decided on the last membership has died before this rank "
		       "saw it begin: your program must decide on the members (job, rank and "
		       "world_size of struct sml_membership)");
	return place;
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
	else if (strlen(join->job) > SML_NAME_BYTES - 1 - NUMBER_BYTES)
		refuse(refusal, SML_ERROR_REFUSED,
		       "the name of a job whose members the switch decides on must be shorter");
	return refusal->error == 0;
}

/* NULL: no memory. */
static struct sml_applicant *new_applicant(struct sml_jobs *jobs, struct sml_peer *peer,
					   const SmlControl__Join *join,
					   const SmlControl__Place *place)
{
	struct sml_applicant *applicant = calloc(1, sizeof(*applicant));
	const struct sml_failed_job *before =
		place != NULL ? sml_jobs_find_failed(jobs, place->tag) : NULL;

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
		applicant->is_heir = before != NULL && before->heir != 0 &&
				     join->ask->places[0]->tag == before->heir;
	} else {
		/* Also if it was in a job that never ran. */
		applicant->join->rank = 0;
		applicant->join->world_size = 1;
	}
	append(jobs, applicant);
	return applicant;
}

/* Its first connection has been lost without a word, or will be. */
static void replace_older(struct sml_jobs *jobs, const SmlControl__Place *place)
{
	struct sml_applicant *older =
		place != NULL ? find_rank(jobs, place->tag, place->rank) : NULL;

	if (older != NULL)
		dismiss(jobs, older, SML_ERROR_REFUSED,
			"this rank has asked again, on another connection");
}

void sml_applicant_comes(struct sml_jobs *jobs, struct sml_peer *peer, const SmlControl__Join *join)
{
	const SmlControl__Place *place = NULL;
	struct sml_refusal refusal;
	struct sml_applicant *applicant;

	if (peer->applicant != NULL)
		return;
	if (is_acceptable(jobs, join, &refusal))
		place = find_place(jobs, join->ask, &refusal);
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
	tell_applicant(jobs, applicant);
	if (place == NULL)
		tell_jobs(jobs, applicant);
	decide_all(jobs);
}

/* ---- its end ---- */

void sml_applicant_lost(struct sml_jobs *jobs, struct sml_peer *peer)
{
	struct sml_applicant *applicant = peer->applicant;
	struct sml_failed_job *before = sml_jobs_find_failed(jobs, applicant->tag);

	/* The others need not wait for it. */
	if (applicant->tag != 0 && before != NULL)
		sml_ranks_add(&before->gone, applicant->rank);
	sml_control__join__free_unpacked(take(jobs, applicant), NULL);
	decide_all(jobs);
}

void sml_applicants_stop(struct sml_jobs *jobs)
{
	while (jobs->applicants != NULL)
		dismiss(jobs, jobs->applicants, SML_ERROR_SWITCH_DIED, "the switch was stopped");
}

/* ---- time ---- */

static uint64_t silence_ends(const struct sml_applicant *applicant)
{
	return applicant->peer->heard_ns + applicant->heartbeat_ms * MS_NS;
}

uint64_t sml_applicants_deadline(const struct sml_jobs *jobs)
{
	uint64_t due_ns = UINT64_MAX;

	for (const struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next) {
		if (a->tag != 0)
			due_ns = sml_earlier(due_ns, decides_at(a));
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
		dismiss(jobs, applicant, SML_ERROR_TIMEOUT,
			"the switch formed no membership within this process's timeout");
		return true;
	}
	if (jobs->now_ns >= applicant->told_ns + SML_SECOND_NS)
		tell_applicant(jobs, applicant);
	return false;
}

void sml_applicants_tick(struct sml_jobs *jobs)
{
	struct sml_applicant *applicant = jobs->applicants;

	/* One that goes may take others along: begin again. */
	while (applicant != NULL)
		applicant = check_applicant(jobs, applicant) ? jobs->applicants : applicant->next;
	decide_all(jobs);
}

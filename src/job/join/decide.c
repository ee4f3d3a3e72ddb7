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
 *     and to this switch alone. Another is formed of it only if those before never ran here, and
 *     only with one who is in all of them, without whom they cannot begin elsewhere, either;
 *   - all ranks of a job that ran elsewhere, or here before this switch was started again, or that
 *     was to go on here and never did. None of them can be in another membership then.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "job/join/join.h"
#include "job/states/states.h"
#include "switchml.h"

const char sml_too_late[] =
	"the job's next membership was formed without this rank, which asked too late: start its "
	"process again with SWITCHML_JOIN=1, and it can join";

/* ---- those that ask together ---- */

/* The ranks of one job that have asked. */
struct group {
	uint64_t tag, due_ns;
	const struct sml_failed_job *before; /* their job, if it ran here; NULL: it did not */
	uint32_t n, n_ranks, min_ranks, max_ranks, number;
	const char *line;
	bool has_successor;
	struct sml_ranks asked;
};

static void look_at_group(const struct sml_jobs *jobs, uint64_t tag, struct group *group)
{
	*group = (struct group){
		.tag = tag, .due_ns = UINT64_MAX, .before = sml_jobs_find_judged(jobs, tag)};
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
		group->has_successor |=
			group->before != NULL && sml_ranks_has(&group->before->successors, a->rank);
		group->due_ns = sml_earlier(group->due_ns, sml_applicant_decides_at(a));
		group->min_ranks = sml_most(group->min_ranks, ask->min_ranks);
		group->number = sml_most(group->number, ask->number);
		if (ask->max_ranks != 0)
			group->max_ranks = group->max_ranks != 0
						   ? sml_least(group->max_ranks, ask->max_ranks)
						   : ask->max_ranks;
	}
}

/* To an applicant: which ranks of its last job have not asked. */
void sml_applicant_notify(struct sml_jobs *jobs, struct sml_applicant *applicant)
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

/*
 * A membership of these ranks that never ran here may begin elsewhere, if all of its members are
 * there. It is enough that one of them is here, even if it was not told that it is a member.
 */
static bool lacks_successor(const struct group *group)
{
	return group->before != NULL && group->before->has_successors && !group->has_successor;
}

/* Have all asked that can? */
static bool is_complete(const struct group *group)
{
	struct sml_ranks here = group->asked;

	if (group->before != NULL)
		sml_ranks_unite(&here, &group->before->gone);
	return sml_ranks_count(&here) == group->n_ranks;
}

static void report_unknown(struct sml_jobs *jobs, const struct group *group)
{
	char text[SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "this switch did not run the last membership of job \"%s\" to its end, and only "
		 "%u of its %u ranks have asked, so the others may go on elsewhere: your program "
		 "must decide on the members (job, rank and world_size of struct sml_membership)",
		 group->line, group->n, group->n_ranks);
	sml_applicants_dismiss(jobs, group->tag, SML_ERROR_TIMEOUT, text);
}

static void report_too_few(struct sml_jobs *jobs, const struct group *group, uint32_t n)
{
	char text[SML_SENTENCE_BYTES];

	snprintf(text, sizeof(text),
		 "job \"%s\" has too few ranks to go on: %u, of at least %u (min_ranks)",
		 group->line, n, group->min_ranks);
	sml_applicants_dismiss(jobs, group->tag, SML_ERROR_REFUSED, text);
}

/* ---- the new membership ---- */

/* In the order of their ranks. */
struct chosen {
	struct sml_peer *peer;
	SmlControl__Join *join;
	uint32_t before; /* 1 plus the old rank; 0: none */
	struct sml_asked asked;
};

/* As sml_terms_check() sees them: a job of these members has them. */
static void note_member(struct sml_job *terms, uint32_t rank, const struct sml_applicant *applicant)
{
	terms->members.of[rank].peer = applicant->peer;
	terms->members.of[rank].shards = applicant->join->shards;
	terms->members.of[rank].shards_set = applicant->join->shards_set;
}

/*
 * A job that has one rank of the group, and room for joiners, with all that they must have in
 * common. NULL: no memory.
 */
static struct sml_job *terms_of(struct sml_jobs *jobs, const struct group *group,
				uint32_t n_joiners)
{
	const struct sml_applicant *a = sml_applicants_first(jobs, group->tag);
	SmlControl__Join join = *a->join;
	struct sml_job *terms;

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
		sml_applicant_dismiss(jobs, applicant, refusal.error, refusal.text);
	else
		note_member(terms, rank, applicant);
	return refusal.error == 0;
}

static uint32_t count_waiting(const struct sml_jobs *jobs, const struct group *group)
{
	uint32_t n = 0;

	for (const struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next)
		n += sml_applicant_waits_for(a, group->line);
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
		if (sml_applicant_waits_for(applicant, group->line))
			rank += fits(jobs, terms, rank, applicant);
	}
	if (terms != NULL)
		sml_job_free(terms);
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
				  .before = applicant->tag != 0 ? applicant->rank + 1u : 0,
				  .asked = {applicant->join->process, applicant->join->time_ns}};
	chosen->join = sml_applicant_take(jobs, applicant);
}

static void choose_all(struct sml_jobs *jobs, const struct group *group, struct chosen *chosen,
		       uint32_t n)
{
	struct sml_applicant *applicant;
	uint32_t i = 0;

	for (unsigned rank = sml_ranks_next(&group->asked, 0); rank < SML_MAX_WORLD;
	     rank = sml_ranks_next(&group->asked, rank + 1))
		choose(jobs, sml_applicants_find(jobs, group->tag, rank), &chosen[i++]);
	for (; i < n; i++) {
		applicant = jobs->applicants;
		while (!sml_applicant_waits_for(applicant, group->line))
			applicant = applicant->next;
		choose(jobs, applicant, &chosen[i]);
	}
}

static bool is_taken(const struct sml_jobs *jobs, const char *name)
{
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (strcmp(job->name, name) == 0)
			return true;
	return false;
}

/* NULL: no memory. */
static struct sml_decision *new_decision(const struct group *group, const struct chosen *chosen,
					 uint32_t n)
{
	struct sml_decision *decision = calloc(1, sizeof(*decision));

	if (decision == NULL)
		return NULL;
	decision->before = calloc(n, sizeof(*decision->before));
	decision->asked = calloc(n, sizeof(*decision->asked));
	if (decision->before == NULL || decision->asked == NULL) {
		sml_decision_free(decision);
		return NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		decision->before[i] = chosen[i].before;
		decision->asked[i] = chosen[i].asked;
	}
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
			sml_job_fail(chosen[i].peer->job, SML_ERROR_REFUSED, "%s", text);
	for (uint32_t i = failed + 1; i < n; i++)
		sml_peer_refuse(jobs, chosen[i].peer, SML_ERROR_REFUSED, text);
}

/* Until the new job ends without having run. */
static void set_decided(struct sml_jobs *jobs, const struct sml_decision *decision, bool decided)
{
	struct sml_failed_job *before = sml_jobs_find_judged(jobs, decision->after);

	if (before == NULL)
		return;
	before->decided = decided;
	before->decisions = decision->number;
}

static void join_all(struct sml_jobs *jobs, struct sml_decision *decision, struct chosen *chosen,
		     uint32_t n)
{
	char name[SML_NAME_BYTES + SML_DECISION_BYTES];

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
		sml_applicants_dismiss(jobs, group->tag, SML_ERROR_REFUSED,
				       "the switch has no memory");
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
	complete = is_complete(&group) && !lacks_successor(&group);
	if (!due && !complete)
		return false;
	if (group.before == NULL && !complete) {
		report_unknown(jobs, &group);
		return true;
	}
	if (lacks_successor(&group)) {
		sml_applicants_dismiss(jobs, group.tag, SML_ERROR_REFUSED, sml_too_late);
		return true;
	}
	dismiss_misfits(jobs, &group);
	n = group.n + count_joiners(jobs, &group);
	/* Joiners may still come. */
	if (n < group.min_ranks && !due)
		return false;
	if (n < group.min_ranks)
		report_too_few(jobs, &group, n);
	else
		form(jobs, &group, n);
	return true;
}

void sml_decide(struct sml_jobs *jobs)
{
	struct sml_applicant *a = jobs->applicants;

	/* The first that asks speaks for its group, or thousands of ranks would take very long. */
	while (a != NULL)
		a = a->tag != 0 && sml_applicants_first(jobs, a->tag) == a && decide(jobs, a->tag)
			    ? jobs->applicants
			    : a->next;
}

void sml_decide_without(struct sml_jobs *jobs, struct sml_peer *survivor)
{
	sml_survivor_lost(jobs, survivor);
	sml_decide(jobs);
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		(void)sml_listed_misses(job);
}

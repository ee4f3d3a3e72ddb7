/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a job: which rank has not contributed to which slot. Sent to a member that asks
 * because its call does not end, and to all members when the job fails.
 *
 * Its cost is bounded: the threads that own the job's slots check them once, a member gets at most
 * ten answers a second, and the answers to all members together have at most about ALL_BYTES. So
 * with many ranks, each is told of fewer slots, and only of the ranks that matter.
 */
#include "job/states/states.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"

#define ANSWER_EVERY_NS 100000000ull
/* 4 KiB for each of 4,096 ranks, and all that there is to say for each of 64. */
#define ALL_BYTES (16u << 20)
/* Of a rank's state, besides its host's name. */
#define STATE_BYTES 32

static void add_rank(const struct sml_job *job, uint16_t rank, struct sml_stalls *out)
{
	const struct sml_member *member = &job->members.of[rank];
	SmlControl__StallReport *report = &out->message.report;
	SmlControl__RankState *state = &out->ranks[report->n_ranks];
	uint64_t heard_ns = member->peer ? member->peer->heard_ns : member->heard_ns;
	uint64_t now_ns = job->jobs->now_ns;

	sml_control__rank_state__init(state);
	state->rank = rank;
	state->host = (char *)(uintptr_t)member->host;
	state->pid = member->pid;
	state->connected = member->peer != NULL;
	/* A switch that was stopped for a while forgives others the time (job/input/jobs.c). */
	state->last_heard_ms = heard_ns < now_ns ? (now_ns - heard_ns) / 1000000u : 0;
	report->ranks[report->n_ranks++] = state;
}

#define URGENCIES 3

/* First the ranks that are gone, then those that slots wait for, then the others. */
static unsigned urgency(const struct sml_job *job, unsigned rank, const uint32_t *n_missing)
{
	return job->members.of[rank].peer == NULL ? 0 : n_missing[rank] > 0 ? 1 : 2;
}

static size_t state_bytes(const struct sml_job *job, unsigned rank)
{
	return STATE_BYTES + strlen(job->members.of[rank].host);
}

/* The urgent ones come first, because there may be no room for all. */
static void add_ranks(const struct sml_job *job, const uint32_t *n_missing, size_t room,
		      struct sml_stalls *out)
{
	for (unsigned urgent = 0; urgent < URGENCIES; urgent++) {
		for (unsigned rank = 0; rank < job->n_ranks; rank++) {
			if (urgency(job, rank, n_missing) != urgent)
				continue;
			if (state_bytes(job, rank) > room) {
				out->message.report.partial = true;
				return;
			}
			room -= state_bytes(job, rank);
			add_rank(job, (uint16_t)rank, out);
		}
	}
}

void sml_stalls_close(struct sml_stalls *stalls)
{
	if (stalls == NULL)
		return;
	free(stalls->message.report.ranks);
	free(stalls->ranks);
	sml_waits_free(&stalls->message);
	free(stalls);
}

struct sml_stalls *sml_stalls_open(struct sml_job *job)
{
	uint32_t room = ALL_BYTES / job->n_ranks / 2;
	uint32_t n_missing[SML_MAX_WORLD] = {0};
	SmlControl__RankState **list;
	struct sml_stalls *stalls;
	struct sml_waits waits;

	if (job->state < SML_JOB_RUNNING)
		return NULL;
	stalls = calloc(1, sizeof(*stalls));
	if (stalls == NULL || !sml_job_pool_look(job, &waits)) {
		free(stalls);
		return NULL;
	}
	sml_waits_count(&waits, n_missing);
	sml_waits_pack(&waits, sml_least(room, SML_WAITS_ROOM), &stalls->message);
	sml_waits_fini(&waits);
	stalls->ranks = calloc(job->n_ranks, sizeof(*stalls->ranks));
	list = calloc(job->n_ranks, sizeof(SmlControl__RankState *));
	stalls->message.report.ranks = list;
	if (stalls->ranks != NULL && list != NULL) {
		add_ranks(job, n_missing, room, stalls);
		return stalls;
	}
	sml_stalls_close(stalls);
	return NULL;
}

void sml_job_query_member(const struct sml_job *job, struct sml_member *member)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	if (member->peer == NULL || member->stalls_requested ||
	    !sml_peer_listens(job->jobs, member->peer))
		return;
	/* Without memory, it is asked at the next occasion. */
	if (sml_peer_send(job->jobs, member->peer,
			  sml_envelope(STALL_REQUEST, stall_request, &request)) == 0)
		member->stalls_requested = true;
}

static void pass(struct sml_job *job, SmlControl__StallReport *report)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members.of[rank].stalls_wanted && job->members.of[rank].peer)
			(void)sml_peer_send(job->jobs, job->members.of[rank].peer,
					    sml_envelope(STALL_REPORT, stall_report, report));
}

/* One answer for each question; otherwise a rank could make us forward unsolicited reports. */
void sml_job_pass_stalls(struct sml_job *job, uint16_t from, const SmlControl__StallReport *in)
{
	size_t n_slots = sml_job_pool_slots(job);
	SmlControl__StallReport report;
	struct sml_stalls *stalls;

	if (from >= job->terms.stripes || !job->members.of[from].stalls_requested ||
	    in->n_slots > n_slots || in->n_sets > 2 * n_slots)
		return;
	job->members.of[from].stalls_requested = false;
	stalls = sml_stalls_open(job);
	if (stalls == NULL)
		return;
	report = stalls->message.report;
	report.slots = in->slots;
	report.n_slots = in->n_slots;
	report.sets = in->sets;
	report.n_sets = in->n_sets;
	report.partial = in->partial;
	report.stripe = from;
	pass(job, &report);
	sml_stalls_close(stalls);
}

/* A leaf to its parent. */
static void send_up(const struct sml_job *job)
{
	struct sml_waits_message message;
	struct sml_waits waits;
	bool known = sml_job_pool_look(job, &waits);

	sml_waits_pack(known ? &waits : NULL, SML_WAITS_ROOM, &message);
	if (known)
		sml_waits_fini(&waits);
	(void)sml_link_send(
		job->jobs, &job->jobs->leaf.up,
		sml_envelope_of(job->pool.rules.job, STALL_REPORT, stall_report, &message.report));
	sml_waits_free(&message);
}

void sml_job_look_for_answers(struct sml_job *job)
{
	struct sml_stalls *stalls;

	if (!sml_job_pool_is_answered(job))
		return;
	if (sml_jobs_is_leaf(job->jobs)) {
		send_up(job);
		return;
	}
	stalls = sml_stalls_open(job);
	if (stalls == NULL)
		return;
	pass(job, &stalls->message.report);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		job->members.of[rank].stalls_wanted = false;
	sml_stalls_close(stalls);
}

void sml_job_query_leaves(struct sml_job *job)
{
	job->pool.leaves_queried = true;
	sml_job_pool_ask(job);
	/* At once if there are no leaves, or those that could answer have been silent for long. */
	sml_job_look_for_answers(job);
}

/* ---- a member asks ---- */

void sml_job_send_stalls(struct sml_job *job, struct sml_member *member)
{
	uint64_t now_ns = job->jobs->now_ns;

	/* Before the job runs, no slot waits. */
	if (job->state < SML_JOB_RUNNING || now_ns - member->stalls_sent_ns < ANSWER_EVERY_NS ||
	    !sml_peer_listens(job->jobs, member->peer))
		return;
	member->stalls_sent_ns = now_ns;
	member->stalls_wanted = true;
	if (!job->jobs->operations->ranks_have_slots)
		sml_job_query_leaves(job);
	else
		/* Each reports its own slots, to all who have asked. */
		for (unsigned other = 0; other < job->terms.stripes; other++)
			sml_job_query_member(job, &job->members.of[other]);
}

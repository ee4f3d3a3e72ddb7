/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a job: which rank has not contributed to which slot. Sent to a member that asks
 * because its call does not end, and to all members when the job fails.
 *
 * Its cost is bounded: the threads that own the job's slots check them once, the message has at
 * most 85 KiB, and a member gets at most ten answers a second.
 */
#include <stdlib.h>

#include "control/envelope.h"
#include "job/switch_job.h"

#define ANSWER_EVERY_NS 100000000ull

/* A report, and the memory of its parts. */
struct stalls {
	SmlControl__StallReport report;
	SmlControl__RankState ranks[SML_MAX_CHILDREN], *rank_list[SML_MAX_CHILDREN];
	struct sml_slot_progress *states;
	SmlControl__SlotState *slots, **slot_list;
};

static void add_slots(struct sml_job *job, struct stalls *out)
{
	uint32_t n = (uint32_t)job->rules.head_slots + job->rules.data_slots;

	n = sml_job_slot_states(job, out->states, n);
	for (uint32_t i = 0; i < n; i++) {
		SmlControl__SlotState *slot = &out->slots[out->report.n_slots];

		sml_control__slot_state__init(slot);
		/* A leaf that has not said for whom it waits would be blamed wholly. */
		if (!sml_job_ranks_missing(job, &out->states[i], &slot->missing))
			continue;
		slot->slot = out->states[i].slot;
		slot->use = out->states[i].use;
		out->slot_list[out->report.n_slots++] = slot;
	}
	out->report.slots = out->slot_list;
}

static void add_ranks(const struct sml_job *job, struct stalls *out)
{
	uint64_t now_ns = job->jobs->now_ns;

	for (uint8_t rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members[rank];
		SmlControl__RankState *state = &out->ranks[rank];
		uint64_t heard_ns = member->peer ? member->peer->heard_ns : member->heard_ns;

		sml_control__rank_state__init(state);
		state->rank = rank;
		state->host = (char *)(uintptr_t)member->host;
		state->pid = member->pid;
		state->connected = member->peer != NULL;
		/* A switch that was stopped for a while forgives others the time
		 * (sml_jobs_forgive()). */
		state->last_heard_ms = heard_ns < now_ns ? (now_ns - heard_ns) / 1000000u : 0;
		out->rank_list[rank] = state;
	}
	out->report.ranks = out->rank_list;
	out->report.n_ranks = job->n_ranks;
}

static void close_stalls(struct stalls *stalls)
{
	if (stalls == NULL)
		return;
	free(stalls->states);
	free(stalls->slots);
	free(stalls->slot_list);
	free(stalls);
}

/* NULL: no memory, or the job has not begun. */
static struct stalls *open_stalls(struct sml_job *job)
{
	size_t n = (size_t)job->rules.head_slots + job->rules.data_slots;
	struct stalls *stalls;

	if (job->state != SML_JOB_RUNNING && job->state != SML_JOB_LEAVING)
		return NULL;
	stalls = calloc(1, sizeof(*stalls));
	if (stalls == NULL)
		return NULL;
	stalls->states = calloc(n, sizeof(*stalls->states));
	stalls->slots = calloc(n, sizeof(*stalls->slots));
	stalls->slot_list = calloc(n, sizeof(SmlControl__SlotState *));
	if (!stalls->states || !stalls->slots || !stalls->slot_list) {
		close_stalls(stalls);
		return NULL;
	}
	sml_control__stall_report__init(&stalls->report);
	add_slots(job, stalls);
	add_ranks(job, stalls);
	return stalls;
}

/*
 * The ranks have the slots: each reports its own, to all who have asked. A rank that has not
 * answered the last question is not asked again.
 */
static void ask_ranks(struct sml_job *job)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	for (unsigned rank = 0; rank < job->stripes; rank++) {
		struct sml_member *member = &job->members[rank];

		if (member->peer == NULL || member->stalls_asked ||
		    !sml_peer_listens(job->jobs, member->peer))
			continue;
		member->stalls_asked = true;
		(void)sml_peer_send(job->jobs, member->peer,
				    sml_envelope(STALL_REQUEST, stall_request, &request));
	}
}

static void pass(struct sml_job *job, const struct stalls *stalls)
{
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (job->members[rank].stalls_wanted && job->members[rank].peer)
			(void)sml_peer_send(
				job->jobs, job->members[rank].peer,
				sml_envelope(
					STALL_REPORT, stall_report,
					(SmlControl__StallReport *)(uintptr_t)&stalls->report));
}

/* One answer for each question; otherwise a rank could make us forward unsolicited reports. */
void sml_job_pass_stalls(struct sml_job *job, uint8_t from, const SmlControl__StallReport *in)
{
	size_t n_slots = (size_t)job->rules.head_slots + job->rules.data_slots;
	struct stalls *stalls;

	if (from >= job->stripes || !job->members[from].stalls_asked || in->n_slots > n_slots)
		return;
	job->members[from].stalls_asked = false;
	stalls = open_stalls(job);
	if (stalls == NULL)
		return;
	stalls->report.slots = in->slots;
	stalls->report.n_slots = in->n_slots;
	stalls->report.stripe = from;
	pass(job, stalls);
	close_stalls(stalls);
}

void sml_job_pass_leaves_stalls(struct sml_job *job)
{
	struct stalls *stalls = open_stalls(job);

	if (stalls == NULL)
		return;
	pass(job, stalls);
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		job->members[rank].stalls_wanted = false;
	close_stalls(stalls);
}

void sml_job_tell_stalls(struct sml_job *job, struct sml_member *member)
{
	uint64_t now_ns = job->jobs->now_ns;
	struct stalls *stalls;

	/* Before the job runs, no slot waits. */
	if (job->state < SML_JOB_RUNNING || now_ns - member->stalls_told_ns < ANSWER_EVERY_NS ||
	    !sml_peer_listens(job->jobs, member->peer))
		return;
	member->stalls_told_ns = now_ns;
	if (job->jobs->operations->ranks_have_slots) {
		member->stalls_wanted = true;
		ask_ranks(job);
		return;
	}
	if (job->n_leaves > 0) {
		member->stalls_wanted = true;
		sml_job_ask_leaves(job);
		return;
	}
	stalls = open_stalls(job);
	if (stalls == NULL)
		return;
	(void)sml_peer_send(job->jobs, member->peer,
			    sml_envelope(STALL_REPORT, stall_report, &stalls->report));
	close_stalls(stalls);
}

/* The connection ends with it. */
static void abort_peer(const struct sml_jobs *jobs, struct sml_peer *peer,
		       SmlControl__Abort *abort_message)
{
	if (sml_peer_send(jobs, peer, sml_envelope(ABORT, abort, abort_message)) == 0)
		sml_peer_end(jobs, peer);
	else
		/* For lack of memory: there may still be room for the text alone. */
		sml_peer_refuse(jobs, peer, abort_message->error, abort_message->text);
}

void sml_job_abort_all(struct sml_job *job, int error, const char *text)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;
	struct stalls *stalls = open_stalls(job);

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.stalls = stalls ? &stalls->report : NULL;
	message.again = job->lacks_room;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_peer *peer = sml_job_release(job, rank);

		if (peer != NULL)
			abort_peer(job->jobs, peer, &message);
	}
	close_stalls(stalls);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs, for any job, and the outputs. See switch.h. */
#include "job/switch.h"

#include <stdarg.h>
#include <stdio.h>

#include "control/envelope.h"
#include "job/tree/branches.h"

/* ---- out ---- */

/* Messages that a peer does not need, because they are repeated or are only answers. */
static bool is_optional(SmlControl__Envelope__BodyCase body)
{
	switch (body) {
	case SML_CONTROL__ENVELOPE__BODY_PONG:
	case SML_CONTROL__ENVELOPE__BODY_STATUS:
	case SML_CONTROL__ENVELOPE__BODY_STALL_REPORT:
	case SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST:
	case SML_CONTROL__ENVELOPE__BODY_WAITING:
		return true;
	default:
		return false;
	}
}

/*
 * Of all other messages there are only a few in each state of a job, so a peer that does not read
 * cannot fill memory.
 */
int sml_peer_send(const struct sml_jobs *jobs, struct sml_peer *peer,
		  const SmlControl__Envelope *message)
{
	if (is_optional(message->body_case) && !sml_peer_listens(jobs, peer))
		return 0;
	return peer->via != NULL ? sml_branch_send(peer, message)
				 : jobs->output->send(peer, message);
}

void sml_peer_end(const struct sml_jobs *jobs, struct sml_peer *peer)
{
	if (peer->via != NULL)
		sml_branch_end(peer);
	else
		jobs->output->end(peer);
}

bool sml_peer_listens(const struct sml_jobs *jobs, const struct sml_peer *peer)
{
	const struct sml_peer *last = peer->via != NULL ? peer->via->peer : peer;

	return last != NULL && jobs->output->listens(last);
}

static void refuse(const struct sml_jobs *jobs, struct sml_peer *peer, int error, const char *text,
		   bool again)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = error;
	message.text = (char *)(uintptr_t)text;
	message.again = again;
	(void)sml_peer_send(jobs, peer, sml_envelope(ABORT, abort, &message));
	sml_peer_end(jobs, peer);
}

void sml_peer_refuse(const struct sml_jobs *jobs, struct sml_peer *peer, int error,
		     const char *text)
{
	refuse(jobs, peer, error, text, false);
}

void sml_peer_refuse_for_now(const struct sml_jobs *jobs, struct sml_peer *peer, const char *text)
{
	refuse(jobs, peer, SML_ERROR_REFUSED, text, true);
}

bool sml_peer_runs(const struct sml_peer *peer)
{
	if (peer->passage != NULL)
		return peer->passage->job != NULL && sml_leaf_job_runs(peer->passage->job);
	return peer->is_parent || (peer->branch != NULL && peer->branch->ranks.n > 0) ||
	       (peer->job != NULL && peer->job->state >= SML_JOB_RUNNING);
}

bool sml_peer_is_member(const struct sml_peer *peer)
{
	return peer->job != NULL || peer->passage != NULL || peer->branch != NULL ||
	       peer->is_parent;
}

uint64_t sml_jobs_random(const struct sml_jobs *jobs)
{
	return jobs->output->random_u64(jobs->context);
}

void sml_jobs_log(const struct sml_jobs *jobs, enum sml_jobs_level level, const char *format, ...)
{
	char line[2 * SML_SENTENCE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	jobs->output->log(jobs->context, level, line);
}

/* ---- in ---- */

void sml_jobs_init(struct sml_jobs *jobs, uint64_t now_ns)
{
	jobs->begun_ns = jobs->now_ns = now_ns;
}

static void answer_ping(const struct sml_jobs *jobs, struct sml_peer *peer,
			const SmlControl__Ping *ping)
{
	SmlControl__Pong pong = SML_CONTROL__PONG__INIT;

	if (peer->job != NULL && ping->stripe != NULL)
		sml_job_note_served(peer, ping->stripe);
	if (peer->job != NULL && ping->traffic != NULL)
		sml_job_note_traffic(peer, ping->traffic);
	pong.time_ns = ping->time_ns;
	(void)sml_peer_send(jobs, peer, sml_envelope(PONG, pong, &pong));
}

/* Of a leaf of this switch, about one job. The job's number is each message's first field. */
static void take_leafs(struct sml_jobs *jobs, struct sml_branch *branch,
		       const SmlControl__Envelope *message)
{
	uint32_t number = message->leaf_ready->job_number;
	struct sml_job *job = jobs->jobs[number % SML_MAX_JOBS];

	if (sml_jobs_is_leaf(jobs))
		sml_leaf_job_branch_message(jobs, branch, message);
	else if (job != NULL && job->rules.job == number)
		sml_job_leaf_message(job, branch, message);
}

/* Of a rank, or of somebody who wants to be one. */
static void take_ranks(struct sml_jobs *jobs, struct sml_peer *peer,
		       const SmlControl__Envelope *message)
{
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_message(jobs, peer, message);
	else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN && peer->job == NULL)
		sml_job_join(jobs, peer, message->join);
	else if (peer->job != NULL)
		sml_job_message(peer, message);
}

void sml_jobs_take(struct sml_jobs *jobs, struct sml_peer *peer,
		   const SmlControl__Envelope *message)
{
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_PING:
		if (peer->passage == NULL)
			answer_ping(jobs, peer, message->ping);
		else
			take_ranks(jobs, peer, message);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST:
		if (sml_peer_listens(jobs, peer))
			sml_status_send(jobs, peer);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF:
		sml_branch_message(jobs, peer, message->leaf);
		break;
	case SML_CONTROL__ENVELOPE__BODY_RELAY:
		sml_branch_relay(peer->branch, message->relay);
		break;
	case SML_CONTROL__ENVELOPE__BODY_LEAF_READY:
	case SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED:
	case SML_CONTROL__ENVELOPE__BODY_LEAF_MISMATCH:
	case SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS:
	case SML_CONTROL__ENVELOPE__BODY_LEAF_RENEW:
		take_leafs(jobs, peer->branch, message);
		break;
	default:
		take_ranks(jobs, peer, message);
		break;
	}
}

void sml_jobs_message(struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Envelope *message, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	sml_peer_heard(peer, now_ns);
	if (peer->is_parent)
		sml_leaf_parent_message(jobs, message);
	else
		sml_jobs_take(jobs, peer, message);
	sml_branches_sweep(jobs);
}

void sml_jobs_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	if (peer->is_parent)
		sml_leaf_parent_lost(jobs, why);
	else if (peer->branch != NULL)
		sml_branch_lost(peer->branch, why);
	else if (peer->passage != NULL)
		sml_passage_lost(jobs, peer, why, false);
	else if (peer->job != NULL)
		sml_job_lost(peer, why);
	sml_branches_sweep(jobs);
	sml_assert(!sml_peer_is_member(peer));
}

void sml_jobs_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch, uint64_t now_ns)
{
	struct sml_job *job = jobs->jobs[mismatch->job % SML_MAX_JOBS];

	sml_jobs_set_time(jobs, now_ns);
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_job_mismatch(jobs, mismatch);
	/* The note may be about a job that has ended, and whose place another job has now. */
	if (job != NULL && job->rules.job == mismatch->job &&
	    mismatch->ranks[0] < job->n_children && mismatch->ranks[1] < job->n_children)
		sml_job_mismatch(job,
				 &(struct sml_mismatch){
					 .job = mismatch->job,
					 .slot = mismatch->slot,
					 .use = mismatch->use,
					 .chunk = mismatch->chunk,
					 .ranks = {job->children[mismatch->ranks[0]].first_rank,
						   job->children[mismatch->ranks[1]].first_rank},
				 });
}

void sml_jobs_tick(struct sml_jobs *jobs, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL && sml_job_deadline(jobs->jobs[i]) <= now_ns)
			sml_job_tick(jobs->jobs[i]);
	sml_branches_tick(jobs);
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_tick(jobs);
	sml_branches_sweep(jobs);
}

uint64_t sml_jobs_deadline(const struct sml_jobs *jobs)
{
	uint64_t first_ns = sml_branches_deadline(jobs);

	if (sml_jobs_is_leaf(jobs) && sml_leaf_deadline(jobs) < first_ns)
		first_ns = sml_leaf_deadline(jobs);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++) {
		uint64_t due_ns = jobs->jobs[i] ? sml_job_deadline(jobs->jobs[i]) : UINT64_MAX;

		if (due_ns < first_ns)
			first_ns = due_ns;
	}
	if (sml_jobs_has_dependents(jobs) && jobs->now_ns + SML_BEAT_NS < first_ns)
		first_ns = jobs->now_ns + SML_BEAT_NS;
	return first_ns;
}

void sml_jobs_stop(struct sml_jobs *jobs, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL)
			sml_job_fail(jobs->jobs[i], SML_ERROR_SWITCH_DIED,
				     "the switch was stopped");
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_stop(jobs);
	while (jobs->branches != NULL)
		sml_branch_close(jobs->branches, "this switch was stopped");
	sml_branches_sweep(jobs);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs, for any job: see switch.h. */
#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "control/frame.h"
#include "job/input/absence.h"
#include "job/join/applicants.h"
#include "job/join/join.h"
#include "job/members/members.h"
#include "job/members/peers.h"
#include "job/peer/heard.h"
#include "job/peer/output.h"
#include "job/report/status.h"
#include "job/states/states.h"
#include "job/tree.h"
#include "job/tree/branches.h"
#include "job/tree/leaf.h"

bool sml_peer_runs(const struct sml_peer *peer)
{
	return peer->is_parent || (peer->branch != NULL && peer->branch->link.ranks.n > 0) ||
	       (peer->job != NULL && peer->job->state >= SML_JOB_RUNNING);
}

bool sml_peer_is_member(const struct sml_peer *peer)
{
	return peer->job != NULL || peer->applicant != NULL || peer->survived != 0 ||
	       peer->proxied != NULL || peer->branch != NULL || peer->is_parent;
}

/* At a leaf, also one whose job has not begun. */
bool sml_peer_may_be_silent(const struct sml_peer *peer)
{
	return peer->survived != 0 || (peer->proxied != NULL && peer->job == NULL);
}

/* What has ended while an input was handled is freed after it. */
static void sweep(struct sml_jobs *jobs)
{
	sml_branches_sweep(jobs);
	sml_jobs_sweep(jobs);
}

void sml_jobs_init(struct sml_jobs *jobs, uint64_t now_ns)
{
	jobs->tree = &sml_tree_events;
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
	if (peer->job != NULL)
		pong.waiting = sml_applicants_count(peer->job);
	pong.time_ns = ping->time_ns;
	(void)sml_peer_send(jobs, peer, sml_envelope(PONG, pong, &pong));
}

static bool gives_up(const SmlControl__Envelope *message)
{
	return message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT ||
	       message->body_case == SML_CONTROL__ENVELOPE__BODY_LEAVE;
}

/*
 * Whatever else it says, it said before it was told of the job's end. What another stripe's switch
 * has told it, it passes on: that is no word of its own.
 */
static void take_survivors(struct sml_jobs *jobs, struct sml_peer *peer,
			   const SmlControl__Envelope *message)
{
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT && message->abort->planned &&
	    !message->abort->told)
		sml_survivor_goes_on(jobs, peer);
}

/* Of a rank, or of somebody who wants to be one. */
static void take_ranks(struct sml_jobs *jobs, struct sml_peer *peer,
		       const SmlControl__Envelope *message)
{
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN)
		peer->heartbeat_ms = sml_jobs_heartbeat_ms(jobs, message->join);
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_message(jobs, peer, message);
	else if (peer->survived != 0)
		take_survivors(jobs, peer, message);
	else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN && peer->job == NULL)
		sml_job_join(jobs, peer, message->join);
	else if (peer->applicant != NULL && gives_up(message))
		sml_applicant_lost(jobs, peer, false);
	else if (peer->job != NULL)
		sml_job_message(peer, message);
}

static void take_message(struct sml_jobs *jobs, struct sml_peer *peer,
			 const SmlControl__Envelope *message);

/*
 * From a rank at a leaf. As for a connection: what it sends is checked before it is unpacked. A
 * rank has no leaves, so this does not go deeper.
 */
static void take_relayed(struct sml_jobs *jobs, struct sml_remote *remote,
			 const SmlControl__Relay *in)
{
	const size_t n = in->message.len;
	const struct sml_head head = {
		.bytes = in->message.data,
		.n = n < SML_RULES_HEAD_BYTES ? n : SML_RULES_HEAD_BYTES,
		.whole = n,
	};
	SmlControl__Envelope *message = NULL;
	char text[SML_SENTENCE_BYTES];

	if (sml_jobs_reject(jobs, &remote->peer, &head, text, sizeof(text)) == NULL) {
		if (sml_frame_unpack(in->message.data, n, &message) < 0)
			snprintf(text, sizeof(text),
				 "it sent something that is not a control message");
	}
	if (message == NULL) {
		sml_remote_drop(remote, text);
		return;
	}
	sml_peer_heard(&remote->peer, jobs->now_ns);
	take_message(jobs, &remote->peer, message);
	sml_control__envelope__free_unpacked(message, NULL);
}

static void take_relay(struct sml_jobs *jobs, struct sml_branch *branch,
		       const SmlControl__Relay *in)
{
	struct sml_remote *remote = sml_branch_relay(branch, in);

	if (remote != NULL)
		take_relayed(jobs, remote, in);
}

/* A message of a peer, wherever it is. */
static void take_message(struct sml_jobs *jobs, struct sml_peer *peer,
			 const SmlControl__Envelope *message)
{
	/* A Join makes a remote, which must end in a membership or a refusal. */
	if (message->job != 0 && message->body_case != SML_CONTROL__ENVELOPE__BODY_JOIN) {
		if (peer->branch != NULL)
			sml_leaves_message(jobs, peer->branch, message);
		return;
	}
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_PING:
		if (peer->proxied == NULL)
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
		take_relay(jobs, peer->branch, message->relay);
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
		take_message(jobs, peer, message);
	sweep(jobs);
}

void sml_jobs_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	if (peer->is_parent)
		sml_leaf_parent_lost(jobs, why);
	else if (peer->branch != NULL)
		sml_branch_lost(peer->branch, why);
	else if (peer->proxied != NULL)
		sml_proxied_lost(jobs, peer, why, false);
	else if (peer->job != NULL)
		sml_job_lost(peer, why, false);
	else if (peer->applicant != NULL)
		sml_applicant_lost(jobs, peer, sml_peer_is_doubted(peer));
	else if (peer->survived != 0)
		sml_decide_without(jobs, peer);
	sweep(jobs);
	sml_assert(!sml_peer_is_member(peer));
}

void sml_jobs_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch, uint64_t now_ns)
{
	/* The note may be about a job that has ended, and whose place another job has now. */
	struct sml_job *job = sml_job_find(jobs, mismatch->job);
	struct sml_mismatch named = *mismatch;

	sml_jobs_set_time(jobs, now_ns);
	if (job != NULL && sml_job_pool_name_ranks(&job->pool, &named))
		sml_job_mismatch(job, &named);
}

void sml_jobs_tick(struct sml_jobs *jobs, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (!sml_jobs_is_leaf(jobs) && jobs->jobs[i] != NULL &&
		    sml_job_deadline(jobs->jobs[i]) <= now_ns && !sml_listed_tick(jobs->jobs[i]))
			sml_job_tick(jobs->jobs[i]);
	sml_survivors_tick(jobs);
	sml_kept_tick(jobs);
	sml_applicants_tick(jobs);
	sml_branches_tick(jobs);
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_tick(jobs);
	sweep(jobs);
}

uint64_t sml_jobs_deadline(const struct sml_jobs *jobs)
{
	uint64_t first_ns = sml_branches_deadline(jobs);

	if (sml_jobs_is_leaf(jobs))
		first_ns = sml_earlier(first_ns, sml_leaf_deadline(jobs));
	first_ns = sml_earlier(first_ns, sml_survivors_deadline(jobs));
	first_ns = sml_earlier(first_ns, sml_kept_deadline(jobs));
	first_ns = sml_earlier(first_ns, sml_applicants_deadline(jobs));
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (!sml_jobs_is_leaf(jobs) && jobs->jobs[i] != NULL)
			first_ns = sml_earlier(first_ns, sml_job_deadline(jobs->jobs[i]));
	if (sml_jobs_has_dependents(jobs))
		first_ns = sml_earlier(first_ns, jobs->now_ns + SML_BEAT_NS);
	return first_ns;
}

void sml_jobs_serve_next(struct sml_jobs *jobs, uint32_t n_ranks, uint64_t now_ns)
{
	const char *next = jobs->config.only_job;
	char text[SML_SENTENCE_BYTES];

	sml_jobs_set_time(jobs, now_ns);
	jobs->config.only_world_size = n_ranks;
	/* Its ranks that came too early were turned away for that alone. */
	jobs->turned_away.job[0] = '\0';
	snprintf(text, sizeof(text),
		 "this is no failure: rank 0 goes on in job \"%s\" (sml_reconfigure())", next);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++) {
		if (jobs->jobs[i] == NULL || strcmp(jobs->jobs[i]->name, next) == 0)
			continue;
		jobs->jobs[i]->end.planned = true;
		sml_job_fail(jobs->jobs[i], SML_ERROR_ABORTED, text);
	}
	sweep(jobs);
}

void sml_jobs_stop(struct sml_jobs *jobs, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	sml_applicants_stop(jobs);
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (jobs->jobs[i] != NULL)
			sml_job_fail(jobs->jobs[i], SML_ERROR_SWITCH_DIED,
				     "the switch was stopped");
	sml_survivors_stop(jobs);
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_stop(jobs);
	while (jobs->branches != NULL)
		sml_branch_close(jobs->branches, "this switch was stopped");
	sweep(jobs);
}

void sml_jobs_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes, uint64_t now_ns)
{
	sml_jobs_set_time(jobs, now_ns);
	sml_leaf_attach(jobs, peer, lanes);
}

uint8_t *sml_jobs_pack_status(struct sml_jobs *jobs, uint64_t now_ns, size_t *n)
{
	sml_jobs_set_time(jobs, now_ns);
	return sml_status_pack(jobs, n);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs, for any job: see switch.h. */
#include <stdio.h>
#include <string.h>

#include "base/least.h"
#include "control/envelope.h"
#include "control/scan.h"
#include "control/stream.h"
#include "job/join/join.h"
#include "job/members/job.h"
#include "job/members/members.h"
#include "job/peer/peer.h"
#include "job/report/status.h"
#include "job/states/states.h"
#include "job/switch.h"
#include "job/tree/branches.h"

/*
 * ---- which messages are accepted ----
 *
 * The rules include messages that an honest rank may have
 * sent before it heard of its job's new state; the reactions ignore messages that are harmless
 * then.
 */

/* A peer's states: a stranger's, then its job's. */
enum { STRANGER, MEMBER_OF };

#define STATE(name) (1u << (MEMBER_OF + SML_JOB_##name))
#define BEGUN	    (STATE(RUNNING) | STATE(LEAVING))
#define MEMBER	    (STATE(JOINING) | STATE(HANDING_OVER) | STATE(PROBING) | BEGUN)
#define ANYBODY	    (1u << STRANGER | MEMBER)
/* In a tree: a leaf; the parent; at a leaf, a rank that the parent knows; and one that is at a
 * leaf. Between two memberships: who asks; and a rank of the job that has failed.
 */
enum { BRANCH = 16, PARENT, PROXIED, STRANGER_AT_LEAF, APPLICANT, SURVIVOR };
#define TREE(name) (1u << (name))
/* Of ranks, also if they have not been told of their job's end. */
#define LATE (TREE(PROXIED) | TREE(SURVIVOR))

/* A member of a job whose ranks have the slots: the same states, at higher numbers. */
#define RANKS_SHIFT   8
#define EVERYWHERE(x) ((x) | (x) << RANKS_SHIFT)
/* Messages that any peer may send, of a few numbers or a sentence. */
#define SHORT_BYTES 4096u
/* A report of 2 x 4096 chunks, as a rank that resumes has it, has 160 KiB. */
#define REPORT_BYTES (256u << 10)
/* A result has 9 KiB. */
#define RESULT_BYTES (16u << 10)
/* What all slots wait for has SML_WAITS_ROOM, and a leaf's Admitted with 4,096 ranks 40 KiB. */
#define STALLS_BYTES (192u << 10)
/* Join's field. What is before it has less than 1 KiB. */
#define RESUME_FIELD 16

static const char *const states[] = {
	[STRANGER] = "before it has joined",
	[MEMBER_OF + SML_JOB_JOINING] = "while its job gathers",
	[MEMBER_OF + SML_JOB_HANDING_OVER] = "while its job hands results over",
	[MEMBER_OF + SML_JOB_PROBING] = "while its job probes",
	[MEMBER_OF + SML_JOB_RUNNING] = "while its job runs",
	[MEMBER_OF + SML_JOB_LEAVING] = "while its job ends",
	[RANKS_SHIFT + STRANGER] = "before it has joined",
	[RANKS_SHIFT + MEMBER_OF + SML_JOB_JOINING] = "while its job gathers",
	[RANKS_SHIFT + MEMBER_OF + SML_JOB_HANDING_OVER] = "while its job hands results over",
	[RANKS_SHIFT + MEMBER_OF + SML_JOB_PROBING] = "while its job probes",
	[RANKS_SHIFT + MEMBER_OF + SML_JOB_RUNNING] = "while its job runs",
	[RANKS_SHIFT + MEMBER_OF + SML_JOB_LEAVING] = "while its job ends",
	[BRANCH] = "of a leaf",
	[PARENT] = "of a leaf's parent",
	[PROXIED] = "of a rank that has joined",
	[STRANGER_AT_LEAF] = "before it has joined",
	[APPLICANT] = "while the switch decides",
	[SURVIVOR] = "after its job has failed",
};
_Static_assert(MEMBER_OF + (int)SML_JOB_STATES <= RANKS_SHIFT &&
		       RANKS_SHIFT + MEMBER_OF + (int)SML_JOB_STATES <= (int)BRANCH,
	       "no two of them have one number");
_Static_assert(sizeof(states) / sizeof(states[0]) == SURVIVOR + 1, "each has its words");

#define RULE(BODY, when, max_bytes) [SML_CONTROL__ENVELOPE__BODY_##BODY] = {(when), (max_bytes)}

static const struct sml_rules rules = {
	.states = states,
	.messages =
		{
			RULE(JOIN, EVERYWHERE(1u << STRANGER) | TREE(STRANGER_AT_LEAF),
			     REPORT_BYTES),
			RULE(PING,
			     EVERYWHERE(ANYBODY) | TREE(BRANCH) | TREE(PROXIED) |
				     TREE(STRANGER_AT_LEAF) | TREE(APPLICANT) | TREE(SURVIVOR),
			     SHORT_BYTES),
			RULE(STATUS_REQUEST, EVERYWHERE(ANYBODY) | LATE, SHORT_BYTES),
			RULE(READY, EVERYWHERE(STATE(PROBING)) | LATE | TREE(BRANCH), SHORT_BYTES),
			RULE(RESULT, EVERYWHERE(STATE(HANDING_OVER)) | TREE(PROXIED), RESULT_BYTES),
			RULE(DESCRIPTION, EVERYWHERE(BEGUN) | LATE, SHORT_BYTES),
			/* Also from ranks that share memory and contribute as one. */
			RULE(MISMATCH, EVERYWHERE(BEGUN) | TREE(SURVIVOR) | TREE(BRANCH),
			     SHORT_BYTES),
			/* Also about a call that a rank made before its switch died. */
			RULE(STALL_REQUEST, EVERYWHERE(MEMBER) | LATE | TREE(PARENT), SHORT_BYTES),
			/* Also from ranks that share memory: job/states/liveness.c asks them. */
			RULE(STALL_REPORT, EVERYWHERE(BEGUN) | LATE | TREE(BRANCH), STALLS_BYTES),
			RULE(RENEW, BEGUN | LATE | TREE(BRANCH), SHORT_BYTES),
			RULE(ABORT,
			     EVERYWHERE(MEMBER) | LATE | TREE(BRANCH) | TREE(PARENT) |
				     TREE(APPLICANT),
			     SHORT_BYTES),
			RULE(LEAVE, EVERYWHERE(MEMBER) | LATE | TREE(APPLICANT), SHORT_BYTES),
			RULE(LEAF, EVERYWHERE(1u << STRANGER) | TREE(BRANCH), SHORT_BYTES),
			RULE(RELAY, TREE(BRANCH) | TREE(PARENT), REPORT_BYTES + SHORT_BYTES),
			RULE(PONG, TREE(PARENT), SHORT_BYTES),
			RULE(ATTACHED, TREE(PARENT), SHORT_BYTES),
			RULE(ADMITTED, TREE(PARENT), STALLS_BYTES),
			RULE(START, TREE(PARENT), SHORT_BYTES),
		},
};

static unsigned state_of(const struct sml_jobs *jobs, const struct sml_peer *peer)
{
	unsigned state = peer->job != NULL ? MEMBER_OF + peer->job->state : STRANGER;

	if (peer->is_parent)
		return PARENT;
	if (peer->branch != NULL)
		return BRANCH;
	if (peer->proxied != NULL)
		return PROXIED;
	if (peer->applicant != NULL)
		return APPLICANT;
	if (peer->survived != 0)
		return SURVIVOR;
	if (peer->via != NULL && peer->job == NULL)
		return STRANGER_AT_LEAF;
	return jobs->operations->ranks_have_slots ? state + RANKS_SHIFT : state;
}

const char *sml_jobs_reject(const struct sml_jobs *jobs, const struct sml_peer *peer,
			    const struct sml_head *head, char *text, size_t bytes)
{
	if (sml_rules_reject(&rules, state_of(jobs, peer), head, text, bytes) != NULL)
		return text;
	/* Only a rank that resumes sends such a long message. */
	if (head->whole > SHORT_BYTES && head->n >= SML_HEAD_BYTES &&
	    sml_scan_body(head->bytes, head->n) == SML_CONTROL__ENVELOPE__BODY_JOIN &&
	    !sml_scan_begins(head->bytes, head->n, RESUME_FIELD)) {
		snprintf(text, bytes,
			 "it sent a control message (join) that is too long (%zu bytes)",
			 head->whole);
		return text;
	}
	return NULL;
}

/*
 * ---- time ----
 *
 * The time in which this switch itself did not run: it was stopped, or its machine was paused. The
 * driver comes at least every SML_BEAT_NS while anything depends on the switch, so a longer gap
 * between two inputs is such a time. It has two consequences.
 *
 *	- Peers could not be heard, so their time limits move back.
 *	- After half of its heartbeat, a rank may have given this switch up. If its connection ends
 *	  now, or it stays silent, that does not prove that it has died: it is doubted.
 *
 *	heard --- absence of half a heartbeat ---> doubted, not heard since
 *	  ^                                            | a message, maybe sent before
 *	  |                                            | the absence ended
 *	  +------- another one, proof_ns later --------+
 *
 * The invariant: no rank is blamed for a silence or for an end that this switch's own absence
 * explains.
 */

#define ABSENCE_NS (SML_BEAT_NS + SML_TICK_NS)
/* After an absence, all that came meanwhile is read within. */
#define LATE_NS (SML_SECOND_NS / 2)

static void shift_job_deadlines(struct sml_job *job, uint64_t away_ns)
{
	job->begun_ns += away_ns;
	if (job->mismatch.since_ns != 0)
		job->mismatch.since_ns += away_ns;
	if (job->elastic.list.misses_ns != 0)
		job->elastic.list.misses_ns += away_ns;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		struct sml_member *member = &job->members.of[rank];

		if (member->peer == NULL)
			continue;
		member->waits_until_ns += away_ns;
		sml_peer_shift(member->peer, job->jobs, away_ns);
		sml_peer_doubt(member->peer, member->heartbeat_ms, away_ns);
	}
}

static void shift_leaf_deadlines(struct sml_jobs *jobs, uint64_t away_ns)
{
	const struct sml_table *ranks = &jobs->leaf.up.ranks;

	if (jobs->leaf.up.peer != NULL)
		sml_leaf_was_away(jobs, away_ns);
	for (uint32_t i = 0; i < ranks->room; i++)
		if (sml_table_at(ranks, i) != NULL)
			sml_peer_doubt(sml_table_at(ranks, i)->peer,
				       sml_table_at(ranks, i)->peer->heartbeat_ms, away_ns);
}

static void shift_deadlines(struct sml_jobs *jobs, uint64_t away_ns)
{
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		shift_job_deadlines(job, away_ns);
	for (struct sml_applicant *a = jobs->applicants; a != NULL; a = a->next) {
		a->came_ns += away_ns;
		a->waits_until_ns += away_ns;
		sml_peer_shift(a->peer, jobs, away_ns);
		sml_peer_doubt(a->peer, a->heartbeat_ms, away_ns);
	}
	sml_survivors_doubt(jobs, away_ns);
	for (struct sml_branch *branch = jobs->branches; branch != NULL; branch = branch->next)
		sml_peer_shift(branch->link.peer, jobs, away_ns);
	shift_leaf_deadlines(jobs, away_ns);
}

/* Whether any peer could notice that this switch does not run. */
static bool has_dependents(const struct sml_jobs *jobs)
{
	return jobs->n_jobs > 0 || jobs->applicants != NULL || jobs->survivors != NULL ||
	       jobs->branches != NULL || jobs->leaf.up.peer != NULL;
}

/* Note the time of the input that is handled now. It may show an absence. */
static void set_time(struct sml_jobs *jobs, uint64_t now_ns)
{
	uint64_t away_ns = now_ns - jobs->now_ns;

	sml_assert(now_ns >= jobs->now_ns);
	jobs->now_ns = now_ns;
	if (away_ns < ABSENCE_NS || !has_dependents(jobs))
		return;
	shift_deadlines(jobs, away_ns);
	/* Of two with less than that between them, the longer one counts. */
	if (now_ns - away_ns - jobs->back_ns >= LATE_NS || away_ns > jobs->away_ns)
		jobs->away_ns = away_ns;
	jobs->back_ns = now_ns;
}

/* It may have come, and given this switch up, during the absence: then it is doubted, too. */
static void note_join(const struct sml_jobs *jobs, struct sml_peer *peer,
		      const SmlControl__Join *join)
{
	peer->heartbeat_ms = sml_jobs_heartbeat_ms(jobs, join);
	if (jobs->now_ns - jobs->back_ns < LATE_NS)
		sml_peer_doubt(peer, peer->heartbeat_ms, jobs->away_ns);
}

/* ---- inputs ---- */

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

	if (peer->job != NULL) {
		sml_job_note_ping(peer, ping);
		pong.waiting = sml_applicants_count(peer->job);
	}
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
		note_join(jobs, peer, message->join);
	if (peer->survived != 0) {
		take_survivors(jobs, peer, message);
	} else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_LEAVE &&
		   sml_peer_is_doubted(peer) && !sml_peer_runs(peer)) {
		/* It gives up this switch, which did not run: it closes, and reads no answer. */
		sml_rank_lost(jobs, peer, "it left", false);
		sml_peer_end(jobs, peer);
	} else if (sml_jobs_is_leaf(jobs)) {
		sml_leaf_message(jobs, peer, message);
	} else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN && peer->job == NULL) {
		sml_job_join(jobs, peer, message->join);
	} else if (peer->applicant != NULL && gives_up(message)) {
		sml_applicant_lost(jobs, peer, false);
	} else if (peer->job != NULL) {
		sml_job_message(peer, message);
	}
}

static void take_message(struct sml_jobs *jobs, struct sml_peer *peer,
			 const SmlControl__Envelope *message);

/*
 * From a rank at a leaf. As for a connection: what it sends is checked before it is unpacked. A
 * rank has no leaves, so this does not go deeper.
 */
static void take_relay(struct sml_jobs *jobs, struct sml_branch *branch,
		       const SmlControl__Relay *in)
{
	struct sml_remote *remote = sml_branch_relay(branch, in);
	const size_t n = in->message.len;
	const struct sml_head head = {
		.bytes = in->message.data,
		.n = n < SML_HEAD_BYTES ? n : SML_HEAD_BYTES,
		.whole = n,
	};
	SmlControl__Envelope *message = NULL;
	char text[SML_SENTENCE_BYTES];

	if (remote == NULL)
		return;
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
	set_time(jobs, now_ns);
	sml_peer_heard(peer, now_ns);
	if (peer->is_parent)
		sml_leaf_parent_message(jobs, message);
	else
		take_message(jobs, peer, message);
	sweep(jobs);
}

void sml_jobs_lost(struct sml_jobs *jobs, struct sml_peer *peer, const char *why, uint64_t now_ns)
{
	set_time(jobs, now_ns);
	if (peer->is_parent)
		sml_leaf_parent_lost(jobs, why);
	else if (peer->branch != NULL)
		sml_branch_lost(peer->branch, why);
	else
		sml_rank_lost(jobs, peer, why, false);
	sweep(jobs);
	sml_assert(!sml_peer_is_member(peer));
}

void sml_jobs_mismatch(struct sml_jobs *jobs, const struct sml_mismatch *mismatch, uint64_t now_ns)
{
	/* The note may be about a job that has ended, and whose place another job has now. */
	struct sml_job *job = sml_job_find(jobs, mismatch->job);
	struct sml_mismatch named = *mismatch;

	set_time(jobs, now_ns);
	if (job != NULL && sml_job_pool_name_ranks(job, &named))
		sml_job_mismatch(job, &named);
}

void sml_jobs_tick(struct sml_jobs *jobs, uint64_t now_ns)
{
	set_time(jobs, now_ns);
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (!sml_jobs_is_leaf(jobs) && sml_job_deadline(job) <= now_ns &&
		    !sml_listed_tick(job))
			sml_job_tick(job);
	sml_survivors_tick(jobs);
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
	first_ns = sml_earlier(first_ns, sml_applicants_deadline(jobs));
	for (const struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		if (!sml_jobs_is_leaf(jobs))
			first_ns = sml_earlier(first_ns, sml_job_deadline(job));
	if (has_dependents(jobs))
		first_ns = sml_earlier(first_ns, jobs->now_ns + SML_BEAT_NS);
	return first_ns;
}

void sml_jobs_serve_next(struct sml_jobs *jobs, uint32_t n_ranks, uint64_t now_ns)
{
	const char *next = jobs->config.only_job;

	set_time(jobs, now_ns);
	jobs->config.only_world_size = n_ranks;
	/* Its ranks that came too early were turned away for that alone. */
	jobs->turned_away.job[0] = '\0';
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;) {
		if (strcmp(job->name, next) == 0)
			continue;
		job->end.planned = true;
		sml_job_fail(job, SML_ERROR_ABORTED,
			     "this is no failure: rank 0 goes on in job \"%s\" (sml_reconfigure())",
			     next);
	}
	sweep(jobs);
}

void sml_jobs_stop(struct sml_jobs *jobs, uint64_t now_ns)
{
	set_time(jobs, now_ns);
	sml_applicants_stop(jobs);
	for (struct sml_job *job = NULL; (job = sml_jobs_next(jobs, job)) != NULL;)
		sml_job_fail(job, SML_ERROR_SWITCH_DIED, "the switch was stopped");
	while (sml_survivors_make_room(jobs))
		;
	if (sml_jobs_is_leaf(jobs))
		sml_leaf_stop(jobs);
	while (jobs->branches != NULL)
		sml_branch_close(jobs->branches, "this switch was stopped");
	sweep(jobs);
}

void sml_jobs_attach(struct sml_jobs *jobs, struct sml_peer *peer, uint16_t lanes, uint64_t now_ns)
{
	set_time(jobs, now_ns);
	sml_leaf_attach(jobs, peer, lanes);
}

uint8_t *sml_jobs_pack_status(struct sml_jobs *jobs, uint64_t now_ns, size_t *n)
{
	set_time(jobs, now_ns);
	return sml_status_pack(jobs, n);
}

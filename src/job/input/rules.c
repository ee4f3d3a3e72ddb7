/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages that the switch accepts. The rules include messages that an honest rank may have
 * sent before it heard of its job's new state; the reactions ignore messages that are harmless
 * then.
 */
#include <stdio.h>

#include "control/scan.h"
#include "job/members/job.h"

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
	if (head->whole > SHORT_BYTES && head->n >= SML_RULES_HEAD_BYTES &&
	    sml_scan_body(head->bytes, head->n) == SML_CONTROL__ENVELOPE__BODY_JOIN &&
	    !sml_scan_begins(head->bytes, head->n, RESUME_FIELD)) {
		snprintf(text, bytes,
			 "it sent a control message (join) that is too long (%zu bytes)",
			 head->whole);
		return text;
	}
	return NULL;
}

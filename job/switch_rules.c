/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages that the switch accepts. The rules include messages that an honest rank may have
 * sent before it heard of its job's new state; the reactions ignore messages that are harmless
 * then.
 */
#include <stdio.h>

#include "control/scan.h"
#include "job/rules.h"
#include "job/switch_job.h"

/* A peer's states: a stranger's, then its job's. */
enum { STRANGER, MEMBER_OF };

#define STATE(name) (1u << (MEMBER_OF + SML_JOB_##name))
#define BEGUN	    (STATE(RUNNING) | STATE(LEAVING))
#define MEMBER	    (STATE(JOINING) | STATE(HANDING_OVER) | STATE(PROBING) | BEGUN)
#define ANYBODY	    (1u << STRANGER | MEMBER)
/* A member of a job whose ranks have the slots: the same states, at higher numbers. */
#define RANKS_SHIFT   8
#define EVERYWHERE(x) ((x) | (x) << RANKS_SHIFT)
#define WITH_RANKS(x) ((x) << RANKS_SHIFT)
/* Messages that any peer may send, of a few numbers or a sentence. */
#define SHORT_BYTES 4096u
/* A report of 2 x 4096 chunks, as a rank that resumes has it, has 160 KiB. */
#define REPORT_BYTES (256u << 10)
/* A result has 9 KiB. */
#define RESULT_BYTES (16u << 10)
/* What all of a stripe's slots wait for has 85 KiB. */
#define STALLS_BYTES (128u << 10)
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
};

#define RULE(BODY, when, max_bytes) [SML_CONTROL__ENVELOPE__BODY_##BODY] = {(when), (max_bytes)}

static const struct sml_rules rules = {
	.states = states,
	.messages =
		{
			RULE(JOIN, EVERYWHERE(1u << STRANGER), REPORT_BYTES),
			RULE(PING, EVERYWHERE(ANYBODY), SHORT_BYTES),
			RULE(STATUS_REQUEST, EVERYWHERE(ANYBODY), SHORT_BYTES),
			RULE(READY, EVERYWHERE(STATE(PROBING)), SHORT_BYTES),
			RULE(RESULT, EVERYWHERE(STATE(HANDING_OVER)), RESULT_BYTES),
			RULE(DESCRIPTION, EVERYWHERE(BEGUN), SHORT_BYTES),
			RULE(MISMATCH, WITH_RANKS(BEGUN), SHORT_BYTES),
			/* Also about a call that a rank made before its switch died. */
			RULE(STALL_REQUEST, EVERYWHERE(MEMBER), SHORT_BYTES),
			RULE(STALL_REPORT, WITH_RANKS(BEGUN), STALLS_BYTES),
			RULE(ABORT, EVERYWHERE(MEMBER), SHORT_BYTES),
			RULE(LEAVE, EVERYWHERE(MEMBER), SHORT_BYTES),
		},
};

const char *sml_jobs_object(const struct sml_jobs *jobs, const struct sml_peer *peer,
			    const struct sml_head *head, char *text, size_t bytes)
{
	unsigned state = peer->job != NULL ? MEMBER_OF + peer->job->state : STRANGER;

	if (jobs->operations->ranks_have_slots)
		state += RANKS_SHIFT;
	if (sml_rules_object(&rules, state, head, text, bytes) != NULL)
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* The messages that a rank accepts, and when. Anything else is not our protocol. */
#include "job/rank/session.h"

#define PHASE(name) (1u << SML_SESSION_##name)
#define BEGUN	    (PHASE(RUNNING) | PHASE(LEAVING))
#define TALKING	    (PHASE(CONNECTED) | PHASE(JOINING) | PHASE(ADMITTED) | PHASE(READY) | BEGUN)
/* Messages of a few numbers or a sentence. */
#define SHORT_BYTES 4096u
/* Two tables of 2 x 4096 chunks, or the places of all ranks. */
#define ADMITTED_BYTES (256u << 10)
#define RESULT_BYTES   (16u << 10)
/* What all slots wait for (SML_WAITS_ROOM), and who the ranks are. */
#define STALLS_BYTES (256u << 10)

static const char *const states[] = {
	[SML_SESSION_CONNECTED] = "before it was asked",
	[SML_SESSION_JOINING] = "while the job gathers",
	[SML_SESSION_ADMITTED] = "while the path is probed",
	[SML_SESSION_READY] = "before the job starts",
	[SML_SESSION_RUNNING] = "while the job runs",
	[SML_SESSION_LEAVING] = "while the job ends",
};
_Static_assert(sizeof(states) / sizeof(states[0]) == SML_SESSION_LEFT, "each has its words");

#define RULE(BODY, when, max_bytes) [SML_CONTROL__ENVELOPE__BODY_##BODY] = {(when), (max_bytes)}

static const struct sml_rules rules = {
	.states = states,
	.messages =
		{
			RULE(WAITING, PHASE(JOINING), SHORT_BYTES),
			/* Again, if ranks of one machine could not share memory. */
			RULE(ADMITTED, PHASE(JOINING) | PHASE(READY), ADMITTED_BYTES),
			RULE(FETCH, PHASE(JOINING), SHORT_BYTES),
			RULE(RESULT, PHASE(JOINING), RESULT_BYTES),
			RULE(START, PHASE(READY), SHORT_BYTES),
			RULE(DESCRIBE, BEGUN, SHORT_BYTES),
			RULE(STALL_REPORT, BEGUN, STALLS_BYTES),
			RULE(STALL_REQUEST, BEGUN, SHORT_BYTES),
			RULE(ABORT, TALKING, STALLS_BYTES),
			/* While it joins: it may leave, if the others are gone. */
			RULE(LEFT, PHASE(LEAVING) | PHASE(JOINING), SHORT_BYTES),
			RULE(PONG, TALKING, SHORT_BYTES),
		},
};

bool sml_session_reject(struct sml_session *session, const struct sml_head *head)
{
	char text[SML_SESSION_TEXT_BYTES / 2];

	/* Messages of a finished session do not count. */
	if (session->phase >= SML_SESSION_LEFT)
		return false;
	if (sml_rules_reject(&rules, session->phase, head, text, sizeof(text)) == NULL)
		return false;
	sml_session_fail(session, SML_ERROR_PROTOCOL,
			 "what answers at %s does not speak the SwitchML protocol: %s. Check the "
			 "address and the port",
			 session->config.where, text);
	return true;
}

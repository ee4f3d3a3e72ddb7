/* SPDX-License-Identifier: BSD-3-Clause */
/* Which messages a switch accepts from a peer, depending on the peer's state, before unpacking. */
#include <string.h>

#include "support/jobs.h"
#include "support/test.h"

/* NULL: the peer may say it. */
static const char *why_not(unsigned peer, unsigned body, size_t whole)
{
	const uint8_t key[2] = {(uint8_t)((body & 15) << 3 | 2 | (body > 15 ? 128 : 0)),
				(uint8_t)(body >> 4)};
	const struct sml_head head = {key, body > 15 ? 2 : 1, whole};
	static char text[SML_SENTENCE_BYTES];

	return sml_jobs_reject(&world.jobs, &world.peers[peer].peer, &head, text, sizeof(text));
}

/* Bit b: the peer may send message b. */
static uint64_t sayable(unsigned peer, size_t whole)
{
	uint64_t bodies = 0;

	for (unsigned body = 1; body < 40; body++)
		if (why_not(peer, body, whole) == NULL)
			bodies |= (uint64_t)1 << body;
	return bodies;
}

#define BODY(name) ((uint64_t)1 << SML_CONTROL__ENVELOPE__BODY_##name)
#define ALWAYS	   (BODY(PING) | BODY(STATUS_REQUEST))
#define MEMBER	   (ALWAYS | BODY(ABORT) | BODY(LEAVE) | BODY(STALL_REQUEST))

JOBS_TEST(each_state_has_its_messages)
{
	assert_int_equal(sayable(0, 10), ALWAYS | BODY(JOIN));
	jobs_join(0, jobs_join_message("a", 0, 2));
	assert_int_equal(sayable(0, 10), MEMBER);
	jobs_join(1, jobs_join_message("a", 1, 2));
	assert_int_equal(sayable(0, 10), MEMBER | BODY(READY));
	jobs_ready(0);
	jobs_ready(1);
	assert_int_equal(sayable(0, 10), MEMBER | BODY(DESCRIPTION) | BODY(MISMATCH) |
						 BODY(STALL_REPORT) | BODY(RENEW));
	assert_string_equal(
		why_not(0, SML_CONTROL__ENVELOPE__BODY_JOIN, 10),
		"it sent a control message (join) that is not allowed while its job runs");
	jobs_leave(0);
	assert_int_equal(sayable(1, 10), MEMBER | BODY(DESCRIPTION) | BODY(MISMATCH) |
						 BODY(STALL_REPORT) | BODY(RENEW));
}

WORLD_TEST(ranks_with_slots_tell_of_them)
{
	jobs_open(4096, 64, true);
	jobs_join(0, jobs_embedded_join("a", 0, 1));
	assert_int_equal(sayable(0, 10), MEMBER | BODY(READY));
	jobs_ready(0);
	assert_int_equal(sayable(0, 10),
			 MEMBER | BODY(DESCRIPTION) | BODY(MISMATCH) | BODY(STALL_REPORT));
	assert_int_equal(sayable(0, 100000), BODY(STALL_REPORT));
	assert_int_equal(sayable(0, 200000), 0);
}

JOBS_TEST(only_reports_are_long)
{
	assert_int_equal(sayable(0, 4097), BODY(JOIN));
	assert_int_equal(sayable(0, 300000), 0);
	jobs_join_all(0, "a", 2);
	jobs_ready(0);
	assert_int_equal(sayable(0, 4097), 0);
	jobs_ready(1);
	assert_int_equal(sayable(0, 4097), BODY(STALL_REPORT));
	assert_non_null(strstr(why_not(0, SML_CONTROL__ENVELOPE__BODY_ABORT, 20480),
			       "a control message (abort) that is too long"));
}

JOBS_TEST(a_long_join_shows_its_report_early)
{
	static uint8_t bytes[SML_HEAD_BYTES];
	struct sml_head head = {bytes, sizeof(bytes), 8000};
	char text[SML_SENTENCE_BYTES];

	/* A Join whose job name never ends. */
	memcpy(bytes, "\x0a\xbd\x3e\x1a\xba\x3e", 6);
	assert_non_null(
		sml_jobs_reject(&world.jobs, &world.peers[0].peer, &head, text, sizeof(text)));
	/* Too early to tell. */
	head.n = 100;
	assert_null(sml_jobs_reject(&world.jobs, &world.peers[0].peer, &head, text, sizeof(text)));
	/* A name of two bytes, then a report. */
	head.n = sizeof(bytes);
	memcpy(bytes, "\x0a\xbd\x3e\x1a\x02hi\x82\x01\xb0\x3e", 11);
	assert_null(sml_jobs_reject(&world.jobs, &world.peers[0].peer, &head, text, sizeof(text)));
}

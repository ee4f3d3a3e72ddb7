/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's session with its switch: the messages that it accepts, its answers, and dead peers. */
#include <stdio.h>
#include <string.h>

#include "control/envelope.h"
#include "job/rank/session.h"
#include "support/test.h"
#include "switchml.h"

#define MS	     1000000ull
#define HEARTBEAT_MS 1000u

static struct sml_session session;
static unsigned n_sent[SML_RULES_MESSAGES];
static unsigned n_described, n_stalls_told, n_empty_reports;
static bool knows_stalls;

static int send_out(void *self, const SmlControl__Envelope *message)
{
	(void)self;
	n_sent[message->body_case]++;
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_STALL_REPORT)
		n_empty_reports +=
			message->stall_report->partial && message->stall_report->n_slots == 0;
	return 0;
}

static void stalls_reported(void *self, const SmlControl__StallReport *report, bool last_words)
{
	(void)self;
	(void)report;
	(void)last_words;
}

static bool describe(void *self, enum sml_stream_id stream, uint32_t chunk, char *text,
		     size_t text_bytes, SmlControl__Call *call)
{
	(void)self;
	n_described++;
	snprintf(text, text_bytes, "stream %d, chunk %u", stream, chunk);
	call->number = chunk;
	return true;
}

static void pack_waits(void *self, size_t room, struct sml_waits_message *waits)
{
	(void)self;
	n_stalls_told += knows_stalls;
	sml_waits_pack(NULL, room, waits);
	waits->report.partial = !knows_stalls;
}

static bool get_traffic(void *self, SmlControl__Traffic *traffic)
{
	(void)self;
	(void)traffic;
	return false;
}

static const struct sml_session_output output = {send_out, NULL, stalls_reported};

static void admit(uint32_t lanes)
{
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;

	admitted.lanes = lanes;
	admitted.shards = 1;
	admitted.head_slots = admitted.data_slots = 4;
	admitted.data_port = 1;
	sml_session_message(&session, sml_envelope(ADMITTED, admitted, &admitted));
}

static void start(uint32_t lanes)
{
	SmlControl__Start message = SML_CONTROL__START__INIT;

	message.lanes = lanes;
	sml_session_ready(&session, &(struct sml_readiness){.lanes = session.admission.lanes});
	sml_session_message(&session, sml_envelope(START, start, &message));
}

static void join(void)
{
	const struct sml_session_config config = {.where = "here",
						  .rank = 1,
						  .world_size = 2,
						  .heartbeat_ms = HEARTBEAT_MS,
						  .output = &output};
	SmlControl__Join message = SML_CONTROL__JOIN__INIT;

	memset(n_sent, 0, sizeof(n_sent));
	n_described = n_stalls_told = n_empty_reports = 0;
	knows_stalls = true;
	sml_session_init(&session, &config);
	message.shards = 1;
	sml_session_join(&session, &message, NULL);
}

static void run_until_started(void)
{
	join();
	admit(352);
	start(352);
	assert_int_equal(session.phase, SML_SESSION_RUNNING);
	/* Of the job's heartbeats it knows its own, at least. */
	assert_int_equal(session.admission.heartbeat_ms, HEARTBEAT_MS);
}

static void end(void)
{
	sml_session_fini(&session);
}

static void serve(void)
{
	static const struct sml_session_answers answers = {
		.describe = describe, .pack_waits = pack_waits, .get_traffic = get_traffic};

	sml_session_serve(&session, &answers, true);
}

TEST_WITH(questions_that_come_before_the_owner_are_answered_after_it, run_until_started, end)
{
	SmlControl__Describe question = SML_CONTROL__DESCRIBE__INIT;
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	sml_session_message(&session, sml_envelope(DESCRIBE, describe, &question));
	sml_session_message(&session, sml_envelope(STALL_REQUEST, stall_request, &request));
	assert_int_equal(session.phase, SML_SESSION_RUNNING);
	serve();
	assert_int_equal(n_described, 1);
	assert_int_equal(n_stalls_told, 1);
	assert_int_equal(n_sent[SML_CONTROL__ENVELOPE__BODY_DESCRIPTION], 1);
}

static void ask_for_stalls(void)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;

	sml_session_message(&session, sml_envelope(STALL_REQUEST, stall_request, &request));
}

/* It would not be asked again: one that was once too busy was silent until its job ended. */
TEST_WITH(a_rank_that_does_not_know_what_its_slots_wait_for_says_so, run_until_started, end)
{
	knows_stalls = false;
	ask_for_stalls();
	assert_int_equal(n_empty_reports, 0);
	serve();
	assert_int_equal(n_empty_reports, 1);
	ask_for_stalls();
	assert_int_equal(n_empty_reports, 2);
	knows_stalls = true;
	ask_for_stalls();
	assert_int_equal(n_empty_reports, 2);
	assert_int_equal(n_stalls_told, 1);
}

static void tick_until(uint64_t from_ms, uint64_t until_ms, uint64_t results_a_tick)
{
	static uint64_t n_results;

	for (uint64_t ms = from_ms; ms <= until_ms && session.phase < SML_SESSION_LEFT; ms += 250) {
		n_results += results_a_tick;
		sml_session_tick(&session, 0, n_results, true, ms * MS);
	}
}

TEST_WITH(a_switch_that_serves_is_not_dead_for_a_while, run_until_started, end)
{
	serve();
	tick_until(250, 6 * HEARTBEAT_MS, 3);
	assert_int_equal(session.phase, SML_SESSION_RUNNING);
	tick_until(6 * HEARTBEAT_MS, 12 * HEARTBEAT_MS, 3);
	assert_int_equal(session.phase, SML_SESSION_LOST);
}

TEST_WITH(a_switch_that_is_silent_on_both_paths_is_dead, run_until_started, end)
{
	serve();
	tick_until(250, 2 * HEARTBEAT_MS, 0);
	assert_int_equal(session.phase, SML_SESSION_LOST);
}

static bool objects_to(SmlControl__Envelope__BodyCase body, size_t whole)
{
	/* A field of the envelope: its number and its kind, and a length. */
	const uint8_t bytes[] = {(uint8_t)(body << 3 | 2), 0};
	const struct sml_head head = {bytes, sizeof(bytes), whole};

	return sml_session_reject(&session, &head);
}

TEST_WITH(a_message_out_of_turn_or_too_long_is_not_waited_for, run_until_started, end)
{
	assert_false(objects_to(SML_CONTROL__ENVELOPE__BODY_PONG, 20));
	assert_false(objects_to(SML_CONTROL__ENVELOPE__BODY_ABORT, 100000));
	assert_true(objects_to(SML_CONTROL__ENVELOPE__BODY_START, 20));
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	assert_int_equal(session.error, SML_ERROR_PROTOCOL);
	/* Messages after the end do not matter. */
	assert_false(objects_to(SML_CONTROL__ENVELOPE__BODY_START, 20));
	run_until_started();
	assert_true(objects_to(SML_CONTROL__ENVELOPE__BODY_DESCRIBE, 100000));
	assert_int_equal(session.phase, SML_SESSION_FAILED);
}

static void join_with(const struct sml_resumption *resumption)
{
	const struct sml_session_config config = session.config;
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;

	sml_session_fini(&session);
	sml_session_init(&session, &config);
	join.shards = 1;
	sml_session_join(&session, &join, resumption);
}

/* With a report that says whether this rank only wants to leave. */
static void join_to_resume(bool leaving)
{
	join_with(&(struct sml_resumption){.membership = 1, .leaving = leaving});
}

/* It was not told to start. */
static void join_to_begin(void)
{
	join_with(&(struct sml_resumption){.membership = 1, .begins = true});
}

TEST_WITH(who_resumes_only_to_leave_may_be_let_go_as_it_joins, run_until_started, end)
{
	SmlControl__Left left = SML_CONTROL__LEFT__INIT;

	join_to_resume(true);
	assert_false(objects_to(SML_CONTROL__ENVELOPE__BODY_LEFT, 2));
	sml_session_message(&session, sml_envelope(LEFT, left, &left));
	assert_int_equal(session.phase, SML_SESSION_LEFT);
	/* Another rank has calls to make, so a peer that lets it leave is no switch. */
	join_to_resume(false);
	sml_session_message(&session, sml_envelope(LEFT, left, &left));
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	assert_int_equal(session.error, SML_ERROR_PROTOCOL);
}

/* Admits rank 1 of two, with these ranks on its machine. */
static void admit_with(const uint32_t *ranks, size_t n, size_t n_tokens, size_t token_bytes)
{
	static uint8_t bytes[32];
	ProtobufCBinaryData tokens[4];
	SmlControl__HostGroup group = SML_CONTROL__HOST_GROUP__INIT;
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;

	join_to_resume(false);
	session.resumption = NULL;
	for (size_t i = 0; i < 4; i++)
		tokens[i] = (ProtobufCBinaryData){token_bytes, bytes};
	group.ranks = (uint32_t *)(uintptr_t)ranks;
	group.n_ranks = n;
	group.tokens = tokens;
	group.n_tokens = n_tokens;
	admitted.host_group = &group;
	admitted.lanes = 352;
	admitted.shards = 1;
	admitted.head_slots = admitted.data_slots = 4;
	admitted.data_port = 1;
	sml_session_message(&session, sml_envelope(ADMITTED, admitted, &admitted));
}

TEST_WITH(impossible_ranks_of_its_machine_are_not_believed, run_until_started, end)
{
	static const uint32_t both[] = {0, 1}, other[] = {0}, beyond[] = {1, 64}, huge[] = {1, ~0u};
	static const uint32_t turned[] = {1, 0}, twice[] = {0, 1, 1};

	admit_with(both, 2, 2, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_ADMITTED);
	assert_int_equal(session.admission.host_ranks.ranks.words[0], 3);
	assert_int_equal(session.admission.host_ranks.n, 2);
	admit_with(turned, 2, 2, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(twice, 3, 3, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(both, 2, 1, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(both, 2, 2, SML_SESSION_TOKEN_BYTES - 1);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(other, 1, 1, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(beyond, 2, 2, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	admit_with(huge, 2, 2, SML_SESSION_TOKEN_BYTES);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
}

/* Not even an element of the int64 wire has room in two lanes. */
TEST_WITH(packets_that_are_too_small_are_refused, join, end)
{
	admit(SML_MIN_LANES - 1);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	sml_session_fini(&session);
	join();
	admit(SML_MIN_LANES);
	start(SML_MIN_LANES - 1);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	sml_session_fini(&session);
	join();
	admit(SML_MIN_LANES);
	start(SML_MIN_LANES);
	assert_int_equal(session.phase, SML_SESSION_RUNNING);
}

/* Else it would use memory that it does not have. */
TEST_WITH(memory_that_was_not_offered_is_not_used, run_until_started, end)
{
	static const uint32_t both[] = {0, 1};
	SmlControl__Start start = SML_CONTROL__START__INIT;

	start.lanes = 352;
	start.share_memory = true;
	for (unsigned offers = 0; offers < 2; offers++) {
		admit_with(both, 2, 2, SML_SESSION_TOKEN_BYTES);
		sml_session_ready(&session,
				  &(struct sml_readiness){.lanes = 352, .shares_memory = offers});
		sml_session_message(&session, sml_envelope(START, start, &start));
		assert_int_equal(session.phase, offers ? SML_SESSION_RUNNING : SML_SESSION_FAILED);
	}
	assert_true(session.shares_memory);
}

/* ---- before the job runs ---- */

static void join_as(bool rank_0_runs_it)
{
	const struct sml_session_config config = {.what = rank_0_runs_it ? "rank 0" : NULL,
						  .where = "here",
						  .rank = 1,
						  .world_size = 3,
						  .heartbeat_ms = HEARTBEAT_MS,
						  .rank_0_runs_it = rank_0_runs_it,
						  .output = &output};
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;

	sml_session_fini(&session);
	sml_session_init(&session, &config);
	join.shards = 1;
	sml_session_join(&session, &join, NULL);
}

static void be_told_to_wait(void)
{
	SmlControl__Waiting waiting = SML_CONTROL__WAITING__INIT;
	uint32_t missing = 2;

	waiting.missing = &missing;
	waiting.n_missing = 1;
	waiting.refused = (char *)(uintptr_t) "";
	sml_session_message(&session, sml_envelope(WAITING, waiting, &waiting));
}

TEST_WITH(a_switch_that_has_answered_dies_as_a_switch, run_until_started, end)
{
	join_as(false);
	be_told_to_wait();
	sml_session_ended(&session, "closed the connection", true);
	assert_int_equal(session.error, SML_ERROR_SWITCH_DIED);
	assert_string_equal(session.text,
			    "the switch at here closed the connection while rank 2 was awaited");
}

static void be_admitted(void)
{
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;

	admitted.lanes = 352;
	admitted.shards = 1;
	admitted.head_slots = admitted.data_slots = 4;
	admitted.data_port = 1;
	sml_session_message(&session, sml_envelope(ADMITTED, admitted, &admitted));
}

static void assert_says_when_silent(unsigned leaves)
{
	memset(n_sent, 0, sizeof(n_sent));
	tick_until(250, 2 * HEARTBEAT_MS, 0);
	assert_int_equal(session.phase, SML_SESSION_FAILED);
	assert_int_equal(n_sent[SML_CONTROL__ENVELOPE__BODY_LEAVE], leaves);
	assert_false(sml_session_give_up(&session));
}

/* It may be late, and not dead: then the job begins there, and this rank has not died. */
TEST_WITH(a_silent_switch_is_told_that_a_rank_gives_it_up, run_until_started, end)
{
	join_as(false);
	assert_says_when_silent(1);
	join_as(true);
	be_told_to_wait();
	assert_says_when_silent(1);
	join_as(false);
	be_admitted();
	assert_int_equal(session.phase, SML_SESSION_ADMITTED);
	assert_says_when_silent(1);
	/* It may have started the job, and waits for the others' leaves, too. */
	join_as(false);
	be_admitted();
	sml_session_ready(&session, &(struct sml_readiness){.lanes = 352});
	assert_says_when_silent(0);
}

/* Unless it begins the job anew there, if nobody resumes it. */
TEST_WITH(where_a_job_resumes_nobody_need_say_that_he_gives_up, run_until_started, end)
{
	join_to_resume(false);
	assert_says_when_silent(0);
	join_to_begin();
	assert_says_when_silent(1);
}

TEST_WITH(rank_0_that_has_answered_dies_as_rank_0, run_until_started, end)
{
	join_as(true);
	be_told_to_wait();
	sml_session_ended(&session, "closed the connection", true);
	assert_int_equal(session.error, SML_ERROR_RANK_DIED);
	assert_non_null(strstr(session.text, "rank 0 died"));
	assert_non_null(strstr(session.text, "while rank 2 was awaited"));
}

TEST_WITH(what_has_said_nothing_may_be_something_else, run_until_started, end)
{
	join_as(false);
	sml_session_ended(&session, "closed the connection", true);
	assert_int_equal(session.error, SML_ERROR_UNREACHABLE);
	assert_non_null(strstr(session.text, "is it a SwitchML switch?"));
	join_as(true);
	sml_session_ended(&session, "closed the connection", true);
	assert_int_equal(session.error, SML_ERROR_UNREACHABLE);
	assert_non_null(strstr(session.text, "is it rank 0 of this job?"));
}

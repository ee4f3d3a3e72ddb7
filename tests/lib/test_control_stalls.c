/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank keeps of the answers to its question what the job's slots wait for, after a failure.
 * Ranks have the slots, so each answer is that of one of them. The test speaks for rank 0.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "control/envelope.h"
#include "lib/control/internal.h"
#include "support/test.h"

#define N_RANKS 3
#define N_SLOTS 4 /* of each stream */
#define BUSY	2 /* the rank whose slots the test is about */

static struct sml_settings settings = {
	.config = {.job = "job", .heartbeat_ms = 60000}, .rank = 1, .world_size = N_RANKS};
static struct sml_control *control;
static int peer;

/* Three ranks, each with a stripe. */
static void be_admitted(void)
{
	SmlControl__Admitted admitted = SML_CONTROL__ADMITTED__INIT;
	SmlControl__Start start = SML_CONTROL__START__INIT;
	SmlControl__Peer peers[N_RANKS], *list[N_RANKS];
	uint64_t cookies[N_RANKS] = {1, 2, 3};
	uint32_t port = 40000;

	for (uint32_t rank = 0; rank < N_RANKS; rank++) {
		sml_control__peer__init(&peers[rank]);
		peers[rank].first_of_host = rank;
		peers[rank].ports = &port;
		peers[rank].n_ports = 1;
		list[rank] = &peers[rank];
	}
	admitted.lanes = start.lanes = 352;
	admitted.shards = 1;
	admitted.head_slots = admitted.data_slots = N_SLOTS;
	admitted.data_port = 1;
	admitted.stall_reports = true;
	admitted.stripes = N_RANKS;
	admitted.peers = list;
	admitted.n_peers = N_RANKS;
	admitted.cookies = cookies;
	admitted.n_cookies = N_RANKS;
	sml_control_received(control, sml_envelope(ADMITTED, admitted, &admitted));
	sml_session_ready(&control->session, &(struct sml_readiness){.lanes = 352});
	sml_control_received(control, sml_envelope(START, start, &start));
	assert_int_equal(sml_control_phase(control), SML_SESSION_RUNNING);
}

static void open_control(void)
{
	static const struct sml_endpoint endpoint = {.name = "rank0:1", .host = "rank0"};
	static const struct sml_stripe_index place = {0, 0, &sml_listener_rank_0};
	static const uint16_t ports[] = {40000};
	const struct sml_application application = {.lanes = 352, .ports = ports};
	struct sml_reached connection = {.endpoint = &endpoint};
	int fds[2];

	settings.threads = 1;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	connection.fd = fds[0];
	peer = fds[1];
	assert_int_equal(sml_control_open(&control, &settings, &connection, &place, NULL), 0);
	sml_control_request_join(control, &application);
	be_admitted();
	sml_control_keep_stalls(control);
}

static void close_control(void)
{
	sml_control_close(control);
	close(peer);
}

/* The busy rank says that its first slot waits for this one, and that it has (not) seen all. */
static void answer(unsigned missing, bool partial)
{
	struct sml_waits_message message;
	struct sml_ranks ranks = {{0}};
	struct sml_waits waits;

	assert_true(sml_waits_init(&waits, 2 * N_SLOTS, N_RANKS));
	sml_ranks_add(&ranks, missing);
	sml_waits_note(&waits, 0, 7, &ranks);
	sml_waits_pack(&waits, 10000, &message);
	message.report.stripe = BUSY;
	message.report.partial = partial;
	sml_control_received(control, sml_envelope(STALL_REPORT, stall_report, &message.report));
	sml_waits_free(&message);
	sml_waits_fini(&waits);
}

static void answer_nothing(void)
{
	SmlControl__StallReport message = SML_CONTROL__STALL_REPORT__INIT;

	message.stripe = BUSY;
	message.partial = true;
	sml_control_received(control, sml_envelope(STALL_REPORT, stall_report, &message));
}

static void expect_missing(unsigned rank)
{
	char why[200] = "";
	struct sml_stall_report *report = sml_control_stalls(control, BUSY, 0, why, sizeof(why));
	struct sml_ranks missing;

	assert_string_equal(why, "");
	assert_non_null(report);
	assert_true(sml_waits_knows(&report->waits, 0));
	sml_waits_get(&report->waits, 0, &missing);
	assert_int_equal(sml_ranks_count(&missing), 1);
	assert_true(sml_ranks_has(&missing, rank));
	sml_stall_report_close(report);
}

/* Other ranks ask as well, and all get each answer. So a better one may follow. */
TEST_WITH(an_answer_of_a_rank_that_could_not_look_does_not_hide_a_later_one, open_control,
	  close_control)
{
	char why[200] = "";

	answer_nothing();
	assert_null(sml_control_stalls(control, BUSY, 0, why, sizeof(why)));
	assert_string_equal(why, "rank 2 does not answer");
	answer(0, false);
	expect_missing(0);
}

TEST_WITH(an_answer_that_has_some_slots_is_kept, open_control, close_control)
{
	answer(0, true);
	expect_missing(0);
}

/* Another thread may be reading it. */
TEST_WITH(the_first_answer_with_slots_stays, open_control, close_control)
{
	answer_nothing();
	answer(0, false);
	answer(1, false);
	answer_nothing();
	expect_missing(0);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of the P4 dataplane on a Tofino switch, as far as BF Runtime's gRPC goes: the module and a
 * server (support/bfrt_server.h) with our program (support/bfrt_program.h). No packet flows.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "bfrt_server.h"
#include "support/bfrt_program.h"
#include "support/p4_peers.h"
#include "support/test.h"
#include "switch/dataplane.h"
#include "switch/p4/internal.h"

extern const struct sml_p4_target_operations sml_p4_target_operations;

#define OPERATIONS sml_p4_target_operations

static struct bfrt_server *server;
static struct sml_dataplane dataplane;

static struct sml_p4_address place_of_server(void)
{
	return (struct sml_p4_address){.host = "127.0.0.1", .port = bfrt_server_port(server)};
}

static int connect_target(struct sml_p4_target **target)
{
	struct sml_p4_address place = place_of_server();

	return OPERATIONS.open(target, &place, &sml_p4_services);
}

static void serve(json_t *program)
{
	server = bfrt_server_open(program, bfrt_fixed_tables());
	p4_open(&dataplane, &OPERATIONS);
}

static void open_server(void)
{
	serve(bfrt_program());
}

static void open_world(void)
{
	int rc;

	open_server();
	rc = connect_target(&dataplane.target);
	if (rc == 0)
		rc = OPERATIONS.limits(dataplane.target, &dataplane.limits);
	if (rc < 0)
		fail_msg("%s", sml_error_last());
}

static void close_world(void)
{
	if (dataplane.target != NULL)
		OPERATIONS.close(dataplane.target);
	bfrt_server_close(server);
	p4_close(&dataplane);
}

#define FIRST_PORT 130 /* of pipe 1 */

static int add(uint32_t job)
{
	return p4_add(&dataplane, job, 3);
}

static void start(uint32_t job)
{
	p4_start(&dataplane, job, 3, FIRST_PORT);
}

static uint64_t parameter(const struct bfrt_entry *entry, const char *name)
{
	assert_non_null(entry);
	return bfrt_server_number(server, entry, name);
}

#define NODE(group, i) (0x530000u + (uint32_t)(group)*64 + (i))

static void assert_refused(int rc, int error, const char *why, const char *remedy)
{
	assert_int_equal(rc, error);
	if (strstr(sml_error_last(), why) == NULL || strstr(sml_error_last(), remedy) == NULL)
		fail_msg("the error is \"%s\", without \"%s\" and \"%s\"", sml_error_last(), why,
			 remedy);
	assert_null(strchr(sml_error_last(), '\n'));
}

/* ---- tests ---- */

TEST_WITH(a_jobs_entries_are_on_the_switch, open_world, close_world)
{
	const struct bfrt_entry *entry;

	start(9);
	entry = bfrt_server_entry(server, JOBS, 9);
	assert_int_equal(parameter(entry, "epoch"), 3);
	assert_true(parameter(entry, "tag") == 0x0102030405060708);
	assert_int_equal(parameter(entry, "place"), 9);
	assert_int_equal(parameter(entry, "started"), 1);
	assert_int_equal(parameter(entry, "group"), SML_P4_FIRST_GROUP + 9);
	assert_int_equal(parameter(entry, "incarnation"),
			 sml_p4_job_of(&dataplane, 9)->incarnation);
	assert_int_equal(bfrt_server_entries(server, RANKS), 3);
	assert_int_equal(bfrt_server_entries(server, MEMBERS), 3);
	assert_int_equal(bfrt_server_entries(server, PEERS), 6);
	assert_int_equal(parameter(bfrt_server_nth(server, RANKS, 2), "port"), 132);
	assert_int_equal(parameter(bfrt_server_nth(server, RANKS, 2), "rank_bit"), 4);
	entry = bfrt_server_nth(server, PEERS, 3);
	assert_int_equal(parameter(entry, "mac"), 0x020000000001);
	assert_int_equal(parameter(entry, "tagged"), 1);
	assert_int_equal(parameter(entry, "tci"), 77);
	assert_int_equal(parameter(entry, "src"), 0x0a000001);
	assert_int_equal(parameter(entry, "dst"), 0x0a000011);
	assert_int_equal(parameter(entry, "dst_port"), 701);
}

/* Job 10's come after the 4 slots of job 9. Its streams are 20 (1 slot) and 21 (99 slots). */
TEST_WITH(each_slot_has_its_place, open_world, close_world)
{
	start(9);
	assert_int_equal(bfrt_server_entries(server, PLACES), 4);
	p4_start(&dataplane, 10, 99, FIRST_PORT);
	assert_int_equal(bfrt_server_entries(server, PLACES), 104);
	for (unsigned slot = 0; slot < 100; slot++) {
		const struct bfrt_entry *entry = bfrt_server_nth(server, PLACES, 4 + slot);

		assert_non_null(entry);
		assert_int_equal(entry->keys[0][BFRT_BYTES - 1], 10);
		assert_int_equal(entry->keys[1][BFRT_BYTES - 1], slot);
		assert_int_equal(entry->keys[2][BFRT_BYTES - 1], slot % 2);
		assert_int_equal(parameter(entry, "buffer"), 8 + 2 * slot);
		assert_int_equal(parameter(entry, "stream"), slot == 0 ? 20 : 21);
		assert_int_equal(parameter(entry, "first_ticket"), slot == 0 ? 1 : 99);
	}
	sml_dataplane_p4.remove_job(&dataplane, 10);
	assert_int_equal(bfrt_server_entries(server, PLACES), 4);
}

TEST_WITH(each_rank_gets_its_own_copy_of_a_result, open_world, close_world)
{
	const struct bfrt_entry *group;

	start(9);
	group = bfrt_server_entry(server, "$pre.mgid", SML_P4_FIRST_GROUP + 9);
	assert_non_null(group);
	assert_int_equal(group->n_list[1], 3);
	for (unsigned rank = 0; rank < 3; rank++) {
		const struct bfrt_entry *node =
			bfrt_server_entry(server, "$pre.node", group->lists[1][rank]);

		assert_int_equal(group->lists[1][rank], NODE(SML_P4_FIRST_GROUP + 9, rank));
		assert_int_equal(group->lists[2][rank], 0);
		assert_non_null(node);
		assert_int_equal(node->data[1][BFRT_BYTES - 1], 1 + rank);
		assert_int_equal(node->n_list[3], 1);
		assert_int_equal(node->lists[3][0], 130 + rank);
		assert_int_equal(node->n_list[2], 0);
	}
}

TEST_WITH(an_ended_job_leaves_nothing, open_world, close_world)
{
	start(9);
	start(10);
	sml_dataplane_p4.remove_job(&dataplane, 9);
	assert_null(bfrt_server_entry(server, JOBS, 9));
	assert_int_equal(bfrt_server_entries(server, PEERS), 6);
	assert_int_equal(bfrt_server_entries(server, "$pre.node"), 3);
	sml_dataplane_p4.remove_job(&dataplane, 10);
	assert_int_equal(bfrt_server_entries(server, JOBS), 0);
	assert_int_equal(bfrt_server_entries(server, RANKS), 0);
	assert_int_equal(bfrt_server_entries(server, MEMBERS), 0);
	assert_int_equal(bfrt_server_entries(server, PEERS), 0);
	assert_int_equal(bfrt_server_entries(server, PLACES), 0);
	assert_int_equal(bfrt_server_entries(server, "$pre.mgid"), 0);
	assert_int_equal(bfrt_server_entries(server, "$pre.node"), 0);
}

TEST_WITH(a_rank_in_ipv6_is_addressed_there, open_world, close_world)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(900)};
	const struct bfrt_entry *entry;

	assert_int_equal(sml_listen_address_parse("fd00::1", 28500, &dataplane.own), 0);
	assert_int_equal(add(9), 0);
	p4_learn_addresses(&dataplane, 9, FIRST_PORT);
	assert_int_equal(inet_pton(AF_INET6, "fd00::12", &to.sin6_addr), 1);
	sml_p4_job_of(&dataplane, 9)->peers[2][1].path.to = to;
	assert_int_equal(sml_dataplane_p4.start_job(&dataplane, 9), 0);
	entry = bfrt_server_nth(server, PEERS, 5);
	assert_int_equal(parameter(entry, "dst_port"), 900);
	assert_memory_equal(entry->data[5], &to.sin6_addr, 16);
}

TEST_WITH(other_traffic_goes_to_the_hosts, open_world, close_world)
{
	assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts,
					    "02:00:00:00:00:01=1,02:00:00:00:00:aB=452,"
					    "02:00:00:00:00:03=1"),
			 0);
	assert_int_equal(sml_p4_hosts_set(&dataplane), 0);
	assert_int_equal(bfrt_server_entries(server, HOSTS), 3);
	assert_int_equal(parameter(bfrt_server_entry(server, HOSTS, 0x0200000000ab), "port"), 452);
	assert_int_equal(bfrt_server_entry(server, "$pre.mgid", SML_P4_FLOOD_GROUP)->n_list[1], 2);
	assert_int_equal(
		bfrt_server_entry(server, "$pre.node", NODE(SML_P4_FLOOD_GROUP, 1))->lists[3][0],
		452);
}

TEST_WITH(the_program_tells_its_limits, open_world, close_world)
{
	/* The compiled program has 32 lanes (p4/meson.build). */
	assert_int_equal(dataplane.limits.lanes, getenv("SML_BF_RT") == NULL ? 64 : 32);
	assert_true(dataplane.limits.slots >= SLOTS);
	assert_true(dataplane.limits.staged);
}

TEST_WITH(counters_are_read_from_the_hardware, open_world, close_world)
{
	struct sml_job_counters counters = {0};
	struct sml_dataplane_counters traffic = {0};
	uint32_t at = 9 * SML_P4_FATES + SML_VERDICT_ABSORBED;

	bfrt_server_set_counter(server, FATES, at, 1000, 100000);
	assert_int_equal(add(9), 0);
	bfrt_server_set_counter(server, FATES, at, 1007, 100700);
	bfrt_server_set_counter(server, "pipe.SmlIngress.resends", 9 * SML_MAX_CHILDREN + 2, 5, 0);
	sml_dataplane_p4.job_counters(&dataplane, 9, &counters);
	assert_int_equal(counters.verdicts[SML_VERDICT_ABSORBED], 7);
	assert_int_equal(counters.resends[2], 5);
	sml_p4_job_traffic(&dataplane, sml_p4_job_of(&dataplane, 9), &traffic);
	assert_int_equal(traffic.packets_received, 7);
	assert_int_equal(traffic.bytes_received, 700);
}

static void set_buffer(unsigned pipe, uint32_t i, uint32_t held, uint32_t incarnation,
		       uint32_t seen)
{
	bfrt_server_set_register(server, USES, pipe, i, 0, held);
	bfrt_server_set_register(server, USES, pipe, i, 1, incarnation);
	bfrt_server_set_register(server, SEEN_0, pipe, i, 0, seen);
}

/* In the pipe of the ranks, which is pipe 1. Slots 0 to 2: fresh, even complete, odd filling. */
TEST_WITH(slots_are_read_from_the_ranks_pipe, open_world, close_world)
{
	struct sml_slot_progress states[4];
	uint32_t incarnation;

	start(9);
	incarnation = sml_p4_job_of(&dataplane, 9)->incarnation;
	set_buffer(0, 0, 4, incarnation, 1);
	set_buffer(1, 0, 4, incarnation + 1, 1);
	set_buffer(1, 2, 13, incarnation, 1); /* use 12, complete */
	set_buffer(1, 3, 12, incarnation, 7); /* use 11, complete */
	set_buffer(1, 4, 0, incarnation, 7);
	set_buffer(1, 5, 0xffffffff, incarnation, 5); /* before use 0 of buffer 4 */
	set_buffer(1, 6, 2, incarnation, 7);
	set_buffer(1, 7, 3, incarnation, 5);
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 4), 3);
	assert_int_equal(states[0].slot, 1);
	assert_int_equal(states[0].use, 12);
	assert_int_equal(states[0].missing, 0);
	assert_int_equal(states[1].slot, 2);
	assert_int_equal(states[1].use, 0);
	assert_int_equal(states[1].missing, 0);
	assert_int_equal(states[2].slot, 3);
	assert_int_equal(states[2].use, 3);
	assert_int_equal(states[2].missing, 2);
}

/* More than one message has. */
TEST_WITH(many_registers_are_read_in_order, open_world, close_world)
{
	uint64_t values[2 * SLOTS];

	for (uint32_t i = 0; i < 2 * SLOTS; i++)
		bfrt_server_set_register(server, SEEN_0, 3, i, 0, 0x80000000u + i);
	assert_int_equal(OPERATIONS.read_registers(dataplane.target,
						   "SmlIngress.slot_step.slot_seen_0", 3, 1, values,
						   2 * SLOTS - 1),
			 0);
	for (uint32_t i = 0; i < 2 * SLOTS - 1; i++)
		assert_int_equal(values[i], 0x80000001u + i);
}

TEST_WITH(registers_are_written_in_all_pipes, open_world, close_world)
{
	uint64_t value;

	assert_int_equal(OPERATIONS.write_register(dataplane.target,
						   "SmlIngress.slot_step.slot_use_hi", 5,
						   0xfedcba98),
			 0);
	for (unsigned pipe = 0; pipe < BFRT_PIPES; pipe++) {
		assert_int_equal(bfrt_server_register(server, USES, pipe, 5, 1), 0xfedcba98);
		assert_int_equal(OPERATIONS.read_registers(dataplane.target,
							   "SmlIngress.slot_step.slot_use_hi", pipe,
							   5, &value, 1),
				 0);
		assert_int_equal(value, 0xfedcba98);
	}
	assert_refused(OPERATIONS.write_register(dataplane.target,
						 "SmlIngress.slot_step.slot_use_hi", 5,
						 0x1fedcba98),
		       -ENOENT, "slot_use_hi", "compile p4/tna/switchml.p4");
}

TEST_WITH(what_an_earlier_daemon_left_is_forgotten, open_world, close_world)
{
	start(9);
	assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts, "02:00:00:00:00:01=1"), 0);
	assert_int_equal(sml_p4_hosts_set(&dataplane), 0);
	set_buffer(2, 7, 3, 1, 1);
	/* A node without a group, of a daemon that died between the two. */
	bfrt_server_leave(server, "$pre.node", NODE(200, 63));
	/* Of somebody else, and the compiler's. */
	bfrt_server_leave(server, "$pre.node", NODE(0, 0) - 1);
	bfrt_server_leave(server, "$pre.mgid", SML_P4_FIRST_GROUP + SML_MAX_JOBS);
	bfrt_server_leave(server, "pipe.SmlIngress.slot_step.decide", 1);
	OPERATIONS.close(dataplane.target);
	dataplane.target = NULL;
	assert_int_equal(connect_target(&dataplane.target), 0);
	assert_int_equal(bfrt_server_entries(server, JOBS), 0);
	assert_int_equal(bfrt_server_entries(server, RANKS), 0);
	assert_int_equal(bfrt_server_entries(server, MEMBERS), 0);
	assert_int_equal(bfrt_server_entries(server, PEERS), 0);
	assert_int_equal(bfrt_server_entries(server, HOSTS), 0);
	/* Registers take longer, and without hosts all frames are flooded. */
	assert_true(bfrt_server_cleared(server, HOSTS) > bfrt_server_cleared(server, USES));
	assert_int_equal(bfrt_server_register(server, USES, 2, 7, 1), 0);
	assert_int_equal(bfrt_server_entries(server, "$pre.node"), 1);
	assert_int_equal(bfrt_server_entries(server, "$pre.mgid"), 1);
	assert_non_null(bfrt_server_entry(server, "$pre.node", NODE(0, 0) - 1));
	assert_non_null(bfrt_server_entry(server, "$pre.mgid", SML_P4_FIRST_GROUP + SML_MAX_JOBS));
	assert_int_equal(bfrt_server_entries(server, "pipe.SmlIngress.slot_step.decide"), 1);
}

TEST_WITH(a_second_daemon_is_refused, open_world, close_world)
{
	struct sml_p4_target *second = NULL;

	assert_refused(connect_target(&second), -EEXIST, "another client controls the program",
		       "end it first");
	assert_null(second);
	assert_int_equal(OPERATIONS.check(dataplane.target), 0);
	/* The server's thread sees the end of the other connection later. */
	for (int i = 0; i < 10000 && bfrt_server_clients(server) != 1; i++)
		usleep(1000);
	assert_int_equal(bfrt_server_clients(server), 1);
}

TEST_WITH(why_the_stream_of_a_client_was_refused_is_told, open_world, close_world)
{
	struct sml_p4_target *second = NULL;

	bfrt_server_take_numbers(server);
	assert_refused(connect_target(&second), -EREMOTEIO, "connecting",
		       "Can't have two clients with the same client id");
	assert_null(second);
	assert_int_equal(OPERATIONS.check(dataplane.target), 0);
}

TEST_WITH(what_the_switch_refuses_is_told, open_world, close_world)
{
	const struct sml_p4_row row = {.table = "SmlIngress.forwarding.hosts",
				       .action = "SmlIngress.forwarding.to_port",
				       .keys = {sml_p4_number(0x020000000001, 6)},
				       .parameters = {sml_p4_number(5, 2)},
				       .n_keys = 1,
				       .n_parameters = 1};

	assert_refused(OPERATIONS.modify(dataplane.target, &row), -ENOENT,
		       "SmlIngress.forwarding.hosts", "modify failed");
	assert_int_equal(OPERATIONS.insert(dataplane.target, &row, 1), 0);
	assert_refused(OPERATIONS.insert(dataplane.target, &row, 1), -EEXIST,
		       "SmlIngress.forwarding.hosts", "Add failed");
	assert_int_equal(OPERATIONS.remove(dataplane.target, &row, 1), 0);
	assert_refused(OPERATIONS.remove(dataplane.target, &row, 1), -ENOENT,
		       "SmlIngress.forwarding.hosts", "delete failed");
}

TEST_WITH(a_row_that_does_not_fit_is_refused, open_world, close_world)
{
	struct sml_p4_row row = {.table = "SmlIngress.forwarding.hosts",
				 .action = "SmlIngress.forwarding.to_port",
				 .keys = {sml_p4_number(0x020000000001, 6)},
				 .parameters = {sml_p4_number(511, 2)},
				 .n_keys = 1,
				 .n_parameters = 1};

	row.parameters[0] = sml_p4_number(1 << 16, 3);
	assert_refused(OPERATIONS.insert(dataplane.target, &row, 1), -ENOENT, "to_port",
		       "compile p4/tna/switchml.p4");
	row.parameters[0] = sml_p4_number(511, 2);
	row.n_keys = 2;
	assert_refused(OPERATIONS.insert(dataplane.target, &row, 1), -ENOENT, "forwarding.hosts",
		       "compile p4/tna/switchml.p4");
	row.n_keys = 1;
	row.action = "SmlIngress.forwarding.nowhere";
	assert_refused(OPERATIONS.insert(dataplane.target, &row, 1), -ENOENT, "nowhere",
		       "compile p4/tna/switchml.p4");
	row.table = "SmlIngress.nothing";
	assert_refused(OPERATIONS.remove(dataplane.target, &row, 1), -ENOENT, "SmlIngress.nothing",
		       "compile p4/tna/switchml.p4");
	assert_int_equal(bfrt_server_entries(server, HOSTS), 0);
}

TEST_WITH(an_answer_without_a_register_is_noticed, open_world, close_world)
{
	uint64_t values[2], packets, bytes;

	bfrt_server_forget_answers(server);
	assert_refused(OPERATIONS.read_registers(dataplane.target,
						 "SmlIngress.slot_step.slot_seen_0", 0, 0, values,
						 2),
		       -EBADMSG, "slot_seen_0", "without all the registers");
	assert_refused(
		OPERATIONS.read_counter(dataplane.target, "SmlIngress.fates", 0, &packets, &bytes),
		-EBADMSG, "SmlIngress.fates", "without the counter");
}

TEST_WITH(a_lost_stream_is_noticed, open_world, close_world)
{
	assert_int_equal(OPERATIONS.check(dataplane.target), 0);
	bfrt_server_disconnect(server);
	/* What comes next on the connection is the end of the stream. */
	while (bfrt_server_clients(server) > 0)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_true(OPERATIONS.check(dataplane.target) < 0);
	assert_non_null(strstr(sml_error_last(), "the P4 switch at 127.0.0.1 port"));
}

TEST_WITH(a_replaced_program_is_noticed, open_world, close_world)
{
	bfrt_server_replace_program(server);
	assert_refused(OPERATIONS.check(dataplane.target), -ESTALE, "its program",
		       "another client has replaced it");
}

TEST_WITH(another_program_is_refused, NULL, close_world)
{
	serve(json_pack("{s:[]}", "tables"));
	assert_refused(connect_target(&dataplane.target), -ENOENT,
		       "does not run p4/tna/switchml.p4", "start bf_switchd with it");
}

/* A label of a name in DNS has at most 63 characters, so no name server is asked. */
TEST(an_unknown_host_is_told)
{
	struct sml_p4_address place = {.port = 9};

	memset(place.host, 'a', 64);
	assert_int_equal(OPERATIONS.open(&dataplane.target, &place, &sml_p4_services),
			 -EHOSTUNREACH);
	assert_non_null(strstr(sml_error_last(), "cannot be reached"));
	assert_null(strstr(sml_error_last(), strerror(EHOSTUNREACH)));
}

TEST_WITH(nobody_there_is_told, open_server, close_world)
{
	struct sml_p4_address place = place_of_server();

	bfrt_server_close(server);
	assert_int_equal(OPERATIONS.open(&dataplane.target, &place, &sml_p4_services),
			 -ECONNREFUSED);
	assert_non_null(strstr(sml_error_last(), "cannot be reached"));
	open_server();
}

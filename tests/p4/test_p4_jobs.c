/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of the P4 dataplane, on a target that only remembers what it is told: its entries, groups,
 * slots and counters. p4-slot.sh and p4.sh test the same with a real P4 program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "support/p4_peers.h"
#include "support/test.h"
#include "switch/dataplane.h"
#include "switch/p4/internal.h"

#define MAX_ROWS 256
#define JOBS	 "SmlIngress.job_lookup.jobs"

/* ---- a target ---- */

struct sml_p4_target {
	struct sml_p4_row rows[MAX_ROWS];
	unsigned n_rows;
	struct sml_p4_node nodes[SML_P4_FIRST_GROUP + SML_MAX_JOBS][SML_MAX_CHILDREN];
	unsigned n_nodes[SML_P4_FIRST_GROUP + SML_MAX_JOBS];
	const char *first_removed, *last_told; /* tables */
	uint64_t packets;		       /* of each counter */
	uint64_t incarnations[128], uses[128], seen[128];
	unsigned pipe;	     /* whose registers are read */
	unsigned reading_ms; /* how long that takes */
	unsigned checks;
};

static bool is_same_entry(const struct sml_p4_row *a, const struct sml_p4_row *b)
{
	if (strcmp(a->table, b->table) != 0 || a->n_keys != b->n_keys)
		return false;
	for (unsigned i = 0; i < a->n_keys; i++)
		if (a->keys[i].n != b->keys[i].n ||
		    memcmp(a->keys[i].bytes, b->keys[i].bytes, a->keys[i].n) != 0)
			return false;
	return true;
}

static struct sml_p4_row *find_row(struct sml_p4_target *target, const struct sml_p4_row *wanted)
{
	for (unsigned i = 0; i < target->n_rows; i++)
		if (is_same_entry(&target->rows[i], wanted))
			return &target->rows[i];
	return NULL;
}

static int insert(struct sml_p4_target *target, const struct sml_p4_row *row, unsigned n)
{
	for (; n-- > 0; row++) {
		assert_null(find_row(target, row));
		assert_true(target->n_rows < MAX_ROWS);
		target->rows[target->n_rows++] = *row;
		target->last_told = row->table;
	}
	return 0;
}

static int modify(struct sml_p4_target *target, const struct sml_p4_row *row)
{
	struct sml_p4_row *old = find_row(target, row);

	assert_non_null(old);
	*old = *row;
	target->last_told = row->table;
	return 0;
}

static int remove_rows(struct sml_p4_target *target, const struct sml_p4_row *row, unsigned n)
{
	for (; n-- > 0; row++) {
		struct sml_p4_row *old = find_row(target, row);

		assert_non_null(old);
		*old = target->rows[--target->n_rows];
		if (target->first_removed == NULL)
			target->first_removed = row->table;
	}
	return 0;
}

static int add_group(struct sml_p4_target *target, uint16_t group, const struct sml_p4_node *nodes,
		     unsigned n)
{
	assert_int_equal(target->n_nodes[group], 0);
	memcpy(target->nodes[group], nodes, n * sizeof(*nodes));
	target->n_nodes[group] = n;
	target->last_told = "a group";
	return 0;
}

static int remove_group(struct sml_p4_target *target, uint16_t group)
{
	assert_int_not_equal(target->n_nodes[group], 0);
	target->n_nodes[group] = 0;
	return 0;
}

static int read_counter(struct sml_p4_target *target, const char *name, uint32_t index,
			uint64_t *packets, uint64_t *bytes)
{
	(void)name;
	*packets = target->packets + index % SML_P4_FATES;
	*bytes = 100 * *packets;
	return 0;
}

static int read_registers(struct sml_p4_target *target, const char *name, unsigned pipe,
			  uint32_t first, uint64_t *values, uint32_t n)
{
	const uint64_t *from = strstr(name, "incarnation") ? target->incarnations
			       : strstr(name, "use")	   ? target->uses
							   : target->seen;

	assert_int_equal(pipe, target->pipe);
	assert_true(first + n <= sizeof(target->uses) / sizeof(target->uses[0]));
	memcpy(values, from + first, n * sizeof(*values));
	usleep(1000 * target->reading_ms);
	return 0;
}

static int check(struct sml_p4_target *target)
{
	target->checks++;
	return 0;
}

#define OPERATIONS                                                                                 \
	.name = "fake", .window = 64, .check = check, .insert = insert, .modify = modify,          \
	.remove = remove_rows, .add_group = add_group, .remove_group = remove_group,               \
	.read_counter = read_counter, .read_registers = read_registers

static const struct sml_p4_target_operations operations = {OPERATIONS};
static const struct sml_p4_target_operations with_pipes = {OPERATIONS, .pipe_ports = 4};

/* ---- a dataplane with it ---- */

static struct sml_p4_target target;
static struct sml_dataplane dataplane;

static void open_world(void)
{
	target = (struct sml_p4_target){.packets = 0};
	p4_open(&dataplane, &operations);
	dataplane.target = &target;
	dataplane.limits = (struct sml_p4_limits){.lanes = 64, .slots = 16};
}

static void close_world(void)
{
	p4_close(&dataplane);
}

static int add(uint32_t job, uint16_t slots)
{
	return p4_add(&dataplane, job, (uint16_t)(slots - 1));
}

/* Job 9, with 4 slots. */
static void start(void)
{
	p4_start(&dataplane, 9, 3, 5);
}

static uint32_t first_buffer(uint32_t job)
{
	return sml_p4_job_of(&dataplane, job)->first_buffer;
}

static void learn_addresses(uint32_t job)
{
	p4_learn_addresses(&dataplane, job, 5);
}

static unsigned rows_of(const char *table)
{
	unsigned n = 0;

	for (unsigned i = 0; i < target.n_rows; i++)
		n += strcmp(target.rows[i].table, table) == 0;
	return n;
}

static uint64_t number(const struct sml_p4_field *field)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < field->n; i++)
		value = value << 8 | field->bytes[i];
	return value;
}

static const struct sml_p4_row *peer_row(uint8_t rank, uint8_t shard)
{
	const struct sml_p4_row wanted = {
		.table = "SmlEgress.addressing.peers",
		.keys = {sml_p4_number(9, 2), sml_p4_number(rank, 1), sml_p4_number(shard, 1)},
		.n_keys = 3};
	const struct sml_p4_row *found = find_row(&target, &wanted);

	assert_non_null(found);
	return found;
}

/* ---- tests ---- */

TEST_WITH(a_job_starts_with_its_own_entry_and_ends_with_it, open_world, close_world)
{
	assert_int_equal(add(9, 4), 0);
	assert_int_equal(target.n_rows, 1);
	assert_int_equal(number(&target.rows[0].parameters[11]), 0); /* not started */
	learn_addresses(9);
	assert_int_equal(sml_dataplane_p4.start_job(&dataplane, 9), 0);
	assert_string_equal(target.last_told, JOBS);
	assert_int_equal(number(&target.rows[0].parameters[11]), 1);
	assert_int_equal(rows_of("SmlIngress.admission.ranks"), 3);
	assert_int_equal(rows_of("SmlIngress.admission.members"), 3);
	assert_int_equal(rows_of("SmlEgress.addressing.peers"), 6);
	sml_dataplane_p4.remove_job(&dataplane, 9);
	assert_string_equal(target.first_removed, JOBS);
	assert_int_equal(target.n_rows, 0);
	assert_int_equal(target.n_nodes[SML_P4_FIRST_GROUP + 9], 0);
}

TEST_WITH(a_job_that_never_started_leaves_nothing, open_world, close_world)
{
	assert_int_equal(add(9, 4), 0);
	sml_dataplane_p4.remove_job(&dataplane, 9);
	assert_int_equal(target.n_rows, 0);
}

TEST_WITH(each_rank_gets_its_own_copy_of_a_result, open_world, close_world)
{
	const struct sml_p4_row *row;

	start();
	assert_int_equal(target.n_nodes[SML_P4_FIRST_GROUP + 9], 3);
	for (uint8_t rank = 0; rank < 3; rank++) {
		const struct sml_p4_node *node = &target.nodes[SML_P4_FIRST_GROUP + 9][rank];

		assert_int_equal(node->replication, 1 + rank);
		assert_int_equal(node->port, 5 + rank);
	}
	row = peer_row(1, 1);
	assert_string_equal(row->action, "SmlEgress.addressing.to_ipv4");
	assert_int_equal(number(&row->parameters[0]), 0x020000000001);
	assert_int_equal(number(&row->parameters[1]), 1);
	assert_int_equal(number(&row->parameters[2]), 77);
	assert_int_equal(number(&row->parameters[3]), 0x0a000001);
	assert_int_equal(number(&row->parameters[4]), 0x0a000011);
	assert_int_equal(number(&row->parameters[5]), 28500);
	assert_int_equal(number(&row->parameters[6]), 701);
	assert_int_equal(number(&peer_row(2, 0)->parameters[1]), 0);
}

TEST_WITH(a_renewed_address_changes_one_entry_while_the_job_is_there, open_world, close_world)
{
	struct sml_p4_peer peer;
	struct sml_p4_job *job;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(800)};

	assert_int_equal(add(9, 4), 0);
	learn_addresses(9);
	job = sml_p4_job_of(&dataplane, 9);
	peer = job->peers[1][1];
	memcpy(&peer.path.to, &to, sizeof(to));
	/* Its entries come with the start. */
	sml_p4_job_renew(&dataplane, job, 1, 1, &peer);
	assert_int_equal(sml_dataplane_p4.start_job(&dataplane, 9), 0);
	assert_int_equal(number(&peer_row(1, 1)->parameters[6]), 701);
	sml_p4_job_renew(&dataplane, job, 1, 1, &peer);
	assert_int_equal(number(&peer_row(1, 1)->parameters[6]), 800);
	assert_int_equal(number(&peer_row(1, 0)->parameters[6]), 700);
	assert_int_equal(rows_of("SmlEgress.addressing.peers"), 6);
	/* A probe may come while the job ends. */
	sml_p4_job_remove(&dataplane, job);
	sml_p4_job_renew(&dataplane, job, 1, 1, &peer);
	assert_int_equal(target.n_rows, 0);
}

TEST_WITH(a_rank_in_ipv6_is_addressed_there, open_world, close_world)
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(900)};
	const struct sml_p4_row *row;

	assert_int_equal(sml_listen_address_parse("fd00::1", 28500, &dataplane.own), 0);
	assert_int_equal(add(9, 4), 0);
	learn_addresses(9);
	assert_int_equal(inet_pton(AF_INET6, "fd00::12", &to.sin6_addr), 1);
	sml_p4_job_of(&dataplane, 9)->peers[2][1].path.to = to;
	assert_int_equal(sml_dataplane_p4.start_job(&dataplane, 9), 0);
	row = peer_row(2, 1);
	assert_string_equal(row->action, "SmlEgress.addressing.to_ipv6");
	assert_int_equal(row->parameters[3].n, 16);
	assert_memory_equal(row->parameters[3].bytes, &dataplane.own.address.v6.sin6_addr, 16);
	assert_memory_equal(row->parameters[4].bytes, &to.sin6_addr, 16);
	assert_int_equal(number(&row->parameters[6]), 900);
}

TEST_WITH(a_rank_whose_probes_do_not_pass_the_p4_switch_is_named, open_world, close_world)
{
	struct sml_p4_job *job;

	assert_int_equal(add(9, 4), 0);
	job = sml_p4_job_of(&dataplane, 9);
	assert_non_null(strstr(sml_dataplane_p4.misses_address(&dataplane, 9, 1), "not every one"));
	learn_addresses(9);
	assert_null(sml_dataplane_p4.misses_address(&dataplane, 9, 1));
	job->peers[1][1].port++;
	assert_non_null(
		strstr(sml_dataplane_p4.misses_address(&dataplane, 9, 1), "more than one port"));
	job->peers[1][1].stamped = false;
	assert_non_null(
		strstr(sml_dataplane_p4.misses_address(&dataplane, 9, 1), "do not pass through"));
	assert_null(sml_dataplane_p4.misses_address(&dataplane, 9, 2));
}

TEST_WITH(jobs_do_not_share_buffers, open_world, close_world)
{
	assert_int_equal(add(1, 6), 0);
	assert_int_equal(add(2, 4), 0);
	assert_int_equal(add(3, 6), 0);
	assert_int_equal(first_buffer(1), 0);
	assert_int_equal(first_buffer(2), 12);
	assert_int_equal(first_buffer(3), 20);
	assert_int_equal(add(4, 2), -ENOSPC);
	assert_null(sml_p4_job_of(&dataplane, 4));
	sml_dataplane_p4.remove_job(&dataplane, 2);
	assert_int_equal(add(4, 5), -ENOSPC);
	assert_int_equal(add(4, 3), 0);
	assert_int_equal(first_buffer(4), 12);
	sml_dataplane_p4.remove_job(&dataplane, 1);
	assert_int_equal(add(5, 6), 0);
	assert_int_equal(first_buffer(5), 0);
}

TEST_WITH(each_job_has_its_own_incarnation, open_world, close_world)
{
	dataplane.incarnation = UINT32_MAX - 1;
	assert_int_equal(add(1, 2), 0);
	assert_int_equal(add(2, 2), 0);
	assert_int_equal(sml_p4_job_of(&dataplane, 1)->incarnation, UINT32_MAX);
	/* Not 0, which buffers have before their first use. */
	assert_int_equal(sml_p4_job_of(&dataplane, 2)->incarnation, 1);
}

TEST_WITH(counters_begin_at_0_with_the_job, open_world, close_world)
{
	struct sml_job_counters counters;
	struct sml_dataplane_counters traffic = {0};

	target.packets = 1000;
	assert_int_equal(add(9, 4), 0);
	memset(&counters, 0, sizeof(counters));
	sml_dataplane_p4.job_counters(&dataplane, 9, &counters);
	assert_int_equal(counters.verdicts[SML_VERDICT_ABSORBED], 0);
	assert_int_equal(counters.contributions[2], 0);
	target.packets = 1005;
	sml_dataplane_p4.job_counters(&dataplane, 9, &counters);
	assert_int_equal(counters.verdicts[SML_VERDICT_RESEND], 5);
	assert_int_equal(counters.contributions[2], 5);
	assert_int_equal(counters.resends[0], 5);
	sml_p4_job_traffic(&dataplane, sml_p4_job_of(&dataplane, 9), &traffic);
	assert_int_equal(traffic.bad_checksums, 5);
	assert_int_equal(traffic.packets_received, 5 * (SML_P4_FATE_BAD_CHECKSUM + 1));
	assert_int_equal(traffic.bytes_received, 100 * traffic.packets_received);
	assert_int_equal(traffic.packets_sent, 5);
}

/* Slots 0 to 3: of an earlier job, even newer, even newer across the wrap, only odd. */
TEST_WITH(the_newest_use_of_a_slot_is_shown, open_world, close_world)
{
	static const uint64_t uses[8] = {8, 9, 12, 11, 0xfffffffe, 0xffffffff, 50, 1};
	struct sml_slot_progress states[4];

	assert_int_equal(add(9, 4), 0);
	memcpy(target.uses, uses, sizeof(uses));
	for (unsigned i = 2; i < 8; i++)
		target.incarnations[i] = sml_p4_job_of(&dataplane, 9)->incarnation;
	target.incarnations[6] = 0;
	target.uses[4] = 0; /* after 0xffffffff */
	target.seen[2] = 5;
	target.seen[4] = 7;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 4), 3);
	assert_int_equal(states[0].slot, 1);
	assert_int_equal(states[0].use, 12);
	assert_int_equal(states[0].missing, 2);
	assert_int_equal(states[1].slot, 2);
	assert_int_equal(states[1].use, 0);
	assert_int_equal(states[1].missing, 0);
	assert_int_equal(states[2].slot, 3);
	assert_int_equal(states[2].use, 1);
	assert_int_equal(states[2].missing, 7);
	dataplane.looks_again_ns = 0;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 2), 2);
}

/* The control thread would be away for long. */
TEST_WITH(slow_registers_are_read_in_parts_and_rarely, open_world, close_world)
{
	struct sml_slot_progress states[64];

	dataplane.limits.slots = 64;
	assert_int_equal(add(9, 64), 0);
	for (unsigned i = 0; i < 128; i++)
		target.incarnations[i] = sml_p4_job_of(&dataplane, 9)->incarnation;
	target.reading_ms = 200;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 64), 32);
	assert_int_equal(states[31].slot, 31);
	target.reading_ms = 0;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 64), 0);
	dataplane.looks_again_ns = 0;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 64), 64);
	assert_int_equal(states[63].slot, 63);
}

/* Ranks 0 to 2 are at ports 5 to 7, of pipe 1. */
TEST_WITH(the_registers_of_the_ranks_pipe_are_read, open_world, close_world)
{
	struct sml_slot_progress states[4];

	dataplane.operations = &with_pipes;
	assert_int_equal(add(9, 4), 0);
	learn_addresses(9);
	target.pipe = 1;
	target.incarnations[0] = sml_p4_job_of(&dataplane, 9)->incarnation;
	assert_int_equal(sml_dataplane_p4.slot_states(&dataplane, 9, states, 4), 1);
}

/* A target that takes them one by one. */
TEST_WITH(a_staged_program_has_an_entry_for_each_slot, open_world, close_world)
{
	dataplane.limits.staged = true;
	start();
	assert_int_equal(rows_of("SmlIngress.placement.slots"), 4);
	/* The job's own entry is the last one and the first one. */
	assert_string_equal(target.last_told, JOBS);
	sml_dataplane_p4.remove_job(&dataplane, 9);
	assert_string_equal(target.first_removed, JOBS);
	assert_int_equal(target.n_rows, 0);
}

TEST_WITH(ranks_in_two_pipes_are_refused, open_world, close_world)
{
	struct sml_p4_job *job;

	dataplane.operations = &with_pipes;
	assert_int_equal(add(9, 4), 0);
	learn_addresses(9);
	job = sml_p4_job_of(&dataplane, 9);
	assert_null(sml_dataplane_p4.misses_address(&dataplane, 9, 2));
	for (uint8_t shard = 0; shard < 2; shard++)
		job->peers[2][shard].port = 8;
	assert_non_null(
		strstr(sml_dataplane_p4.misses_address(&dataplane, 9, 2), "ports of one pipe"));
	/* It is the last one that is told so, whoever that is. */
	assert_non_null(
		strstr(sml_dataplane_p4.misses_address(&dataplane, 9, 0), "ports of one pipe"));
	job->peers[2][0].known = false;
	assert_null(sml_dataplane_p4.misses_address(&dataplane, 9, 0));
	/* BMv2 has no pipes. */
	job->peers[2][0].known = true;
	dataplane.operations = &operations;
	assert_null(sml_dataplane_p4.misses_address(&dataplane, 9, 2));
}

TEST_WITH(ranks_share_the_queue_of_the_target, open_world, close_world)
{
	assert_int_equal(sml_dataplane_p4.window(&dataplane, 300, 2), 32);
	assert_int_equal(sml_dataplane_p4.window(&dataplane, 300, 64), 4);
}

TEST_WITH(other_traffic_goes_to_the_hosts, open_world, close_world)
{
	assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts,
					    "02:00:00:00:00:01=1,02:00:00:00:00:aB=510,"
					    "02:00:00:00:00:03=1"),
			 0);
	assert_int_equal(sml_p4_hosts_set(&dataplane), 0);
	assert_int_equal(rows_of("SmlIngress.forwarding.hosts"), 3);
	assert_int_equal(number(&target.rows[1].keys[0]), 0x0200000000ab);
	assert_int_equal(number(&target.rows[1].parameters[0]), 510);
	/* A flooded frame goes to each port once. */
	assert_int_equal(target.n_nodes[SML_P4_FLOOD_GROUP], 2);
	assert_int_equal(target.nodes[SML_P4_FLOOD_GROUP][1].port, 510);
}

TEST_WITH(wrong_hosts_are_refused, open_world, close_world)
{
	static const char *const wrong[] = {"",
					    ",",
					    "02:00:00:00:00:01",
					    "02:00:00:00:00:01=",
					    "02:00:00:00:00=1",
					    "02:00:00:00:00:01=1 ",
					    "02:00:00:00:00:01=511",
					    "02:00:00:00:00:01=1,,",
					    "02:00:00:00:00:01=1;02:00:00:00:00:02=2"};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		open_world();
		assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts, wrong[i]), -EINVAL);
		assert_non_null(strstr(sml_error_last(), "02:00:00:00:00:01=1"));
	}
}

TEST_WITH(too_many_hosts_are_refused, open_world, close_world)
{
	char text[(SML_P4_HOSTS + 1) * sizeof("02:00:00:00:00:00=1")] = "";
	size_t length = 0;

	for (unsigned i = 0; i <= SML_P4_HOSTS; i++) {
		if (i == SML_P4_HOSTS)
			assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts, text), 0);
		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   "%s02:00:00:00:%02x:%02x=1", i > 0 ? "," : "", i >> 8,
					   i & 255);
	}
	assert_int_equal(sml_p4_hosts_parse(&dataplane.hosts, text), -EINVAL);
	assert_non_null(strstr(sml_error_last(), "more than 1024 hosts"));
}

TEST_WITH(a_host_given_twice_is_named, open_world, close_world)
{
	assert_int_equal(
		sml_p4_hosts_parse(&dataplane.hosts, "02:00:00:00:00:0a=1,02:00:00:00:00:0A=2"),
		-EINVAL);
	assert_string_equal(sml_error_last(), "--hosts: 02:00:00:00:00:0a is there twice");
}

/* ---- the thread ---- */

static unsigned checks(void)
{
	unsigned n;

	pthread_mutex_lock(&dataplane.target_mutex);
	n = target.checks;
	pthread_mutex_unlock(&dataplane.target_mutex);
	return n;
}

/* Where the dataplane's thread receives. */
static int connect_to_thread(void)
{
	struct sockaddr_in to;
	socklen_t length = sizeof(to);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(getsockname(dataplane.daemon.fd, (struct sockaddr *)&to, &length), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, length), 0);
	return fd;
}

/* Others take the target from a daemon that does not check for seconds. */
TEST_WITH(the_target_is_checked_while_packets_keep_coming, open_world, close_world)
{
	uint64_t end_ns = sml_now_ns() + 60 * SML_NS_PER_SEC;
	int fd;

	dataplane.daemon.config = (struct sml_dataplane_config){.address = "127.0.0.1"};
	assert_int_equal(sml_daemon_listen(&dataplane.daemon, SML_P4_INBOX_BYTES, false), 0);
	fd = connect_to_thread();
	assert_int_equal(sml_daemon_start(&dataplane.daemon, &sml_p4_thread_service), 0);
	while (checks() < 3 && sml_now_ns() < end_ns) {
		assert_int_equal(send(fd, "?", 1, 0), 1);
		poll(NULL, 0, 5);
	}
	sml_daemon_stop(&dataplane.daemon);
	assert_true(checks() >= 3);
	close(fd);
}

/* So ranks that want int8 are refused as they join the staged form (test_job_join.c). */
TEST_WITH(only_the_staged_form_has_no_narrow_lanes_to_round, open_world, close_world)
{
	assert_true(sml_dataplane_p4.rounds);
	assert_false(sml_dataplane_p4.only_int32(&dataplane));
	dataplane.limits.staged = true;
	assert_true(sml_dataplane_p4.only_int32(&dataplane));
}

TEST(a_p4_switch_takes_no_packets_without_lanes)
{
	assert_false(sml_dataplane_p4.omits);
}

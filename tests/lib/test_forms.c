/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The forms of a job: separate switches, a stripe in each rank, shared memory, and an embedded
 * switch. All forms give the same bits, and counters tell where packets went.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/test.h"

/* ---- separate switches ---- */

TEST(two_jobs_on_one_switch_do_not_disturb_each_other)
{
	char address[64];

	serve_at(0, address);
	run_jobs((struct job[]){{.n_ranks = 2,
				 .name = "a",
				 .switch_address = address,
				 .body = calls_of_some_kinds},
				{.n_ranks = 3,
				 .name = "b",
				 .switch_address = address,
				 .faults = "drop=20000",
				 .body = calls_of_some_kinds}},
		 2);
}

#define FAULTS "drop=2000,duplicate=5000,reorder=5000"

/* Of all results: every type, operation, width and count. */
static uint32_t hash_of(struct job job)
{
	uint32_t hash = 0;

	job.n_ranks = 3;
	job.body = calls_of_every_kind;
	job.hash = &hash;
	run_job(&job);
	return hash;
}

TEST(results_have_the_same_bits_in_every_form)
{
	char addresses[2][64], third[64], two[130], three[195];
	const char *one = addresses[0];
	const struct job forms[] = {
		/* The switch of rank 0's process. */
		{.switch_address = NULL},
		{.switch_address = NULL, .threads = 3},
		{.switch_address = two},
		{.switch_address = three, .threads = 2},
		{.switch_address = three, .faults = FAULTS},
		/* A stripe in every rank. */
		{.switch_address = "embedded"},
		{.switch_address = "embedded", .threads = 2},
		{.switch_address = "embedded", .faults = FAULTS},
		/* Shared memory. */
		{.host_group = true},
		{.host_group = true, .threads = 2},
		/* As one child of a switch, beside the ranks that are alone. */
		{.switch_address = one, .host_group = true},
		{.switch_address = one, .host_group = true, .alone = 1 << 0, .threads = 2},
		{.switch_address = one, .host_group = true, .alone = 1 << 1, .faults = FAULTS},
	};
	uint32_t usual;

	serve_two(addresses, two);
	serve_at(0, third);
	snprintf(three, sizeof(three), "%s,%s", two, third);
	usual = hash_of((struct job){.switch_address = one});
	for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		assert_int_equal(hash_of(forms[i]), usual);
}

static void look_at_embedded_stripe(struct rank *rank)
{
	struct sml_counters c = {.size = sizeof(c)};
	struct sml_info info = SML_INFO_INIT;
	char start[32];
	const char *name;

	calls_of_some_kinds(rank);
	counters_after(rank, 24, &c);
	CHECK(rank, sml_get_info(rank->context, &info) == 0);
	CHECK(rank, strcmp(info.path_text, "a part of the switch in each of 3 ranks") == 0);
	CHECK(rank, info.path == SML_PATH_RANKS && info.stripes == 3);
	for (int i = 0; i < 3; i++) {
		CHECK(rank, sml_get_counters(rank->context, i, &c, &name) == 0);
		snprintf(start, sizeof(start), "rank %d at 127.0.0.1:", i);
		CHECK(rank, strncmp(name, start, strlen(start)) == 0);
		CHECK(rank, c.bytes_sent > 50000 && c.bytes_received > 50000);
		/* Work of a rank for itself causes no traffic and needs no timer. */
		if (i == rank->rank)
			CHECK(rank, c.retransmits_timeout + c.retransmits_fast + c.stalls == 0);
	}
}

TEST(every_rank_has_a_stripe_of_its_own)
{
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = "embedded", .body = look_at_embedded_stripe});
}

static void look_at_stripes(struct rank *rank)
{
	struct sml_counters all, one = {.size = sizeof(one)};
	const char *name, *names = rank->job->argument;
	struct sml_info info = SML_INFO_INIT;
	char expected[160];
	uint64_t sent = 0;

	calls_of_some_kinds(rank);
	counters_after(rank, 24, &all);
	snprintf(expected, sizeof(expected), "2 switches, the first at %s", names);
	CHECK(rank, sml_get_info(rank->context, &info) == 0);
	CHECK(rank, strcmp(info.path_text, expected) == 0);
	CHECK(rank, info.path == SML_PATH_SWITCH && info.stripes == 2);
	for (int i = 0; i < 2; i++) {
		CHECK(rank, sml_get_counters(rank->context, i, &one, &name) == 0);
		CHECK(rank, strcmp(name, names + 64 * i) == 0);
		CHECK(rank, one.bytes_sent > 100000 && one.rtt_min_ns > 0);
		sent += one.packets_sent;
	}
	CHECK(rank, all.packets_sent == sent);
	CHECK(rank, sml_get_counters(rank->context, 2, &one, NULL) == -EINVAL);
	CHECK(rank, sml_get_counters(rank->context, -2, &one, NULL) == -EINVAL);
}

TEST(stripes_have_counters_and_names)
{
	char addresses[2][64], list[130];

	serve_two(addresses, list);
	run_job(&(struct job){.n_ranks = 2,
			      .switch_address = list,
			      .body = look_at_stripes,
			      .argument = addresses});
}

static void open_again_at_once(struct rank *rank)
{
	struct sml_config config;

	configure(&config, rank->job, rank->rank);
	for (int i = 0; i < 20; i++) {
		CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
		CHECK(rank, sml_close(rank->context) == 0);
		if (sml_open(&rank->context, &config) < 0) {
			complain(rank, "open %d: %s", i, sml_error_text(NULL));
			return;
		}
	}
}

/* The port may still belong to the switch of the previous job. */
TEST(jobs_can_follow_each_other_on_one_port)
{
	for (int shared = 0; shared < 2; shared++)
		run_job(&(struct job){
			.n_ranks = 3, .host_group = shared, .body = open_again_at_once});
}

/* ---- rest and counters ---- */

static void sleep_idle(struct rank *rank)
{
	struct timespec before, after;
	double used;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	usleep(300000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	used = (double)(after.tv_sec - before.tv_sec) +
	       (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
	if (used > 0.1)
		complain(rank, "%g s of processor time in 0.3 s of idleness", used);
}

TEST(an_idle_job_takes_no_processor_time)
{
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = sleep_idle});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = sleep_idle});
}

/* The MASTER_ADDR of torchrun is this name, not an address. */
TEST(the_embedded_switch_can_be_on_localhost)
{
	run_job(&(struct job){
		.n_ranks = 2, .master_address = "localhost", .body = calls_of_some_kinds});
}

static void count_calls(struct rank *rank)
{
	struct sml_counters counters;

	calls_of_some_kinds(rank);
	counters_after(rank, 24, &counters);
	CHECK(rank, counters.packets_sent >= 24 && counters.packets_received >= 24);
	CHECK(rank, counters.bytes_sent > 500000);
	CHECK(rank, counters.window > 0);
	/* An operation that rank 0 does only for itself takes no time. */
	CHECK(rank, rank->rank == 0 || counters.rtt_min_ns > 0);
}

#define ZEROS 100000

/* The bytes that a sum sends, and whether they count: no rank has sent a packet again. */
static void count_bytes(struct rank *rank, enum sml_wire wire, float *data, uint64_t *bytes,
			bool *counts)
{
	struct sml_counters before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	struct sml_options options = SML_OPTIONS_INIT;
	int64_t again;

	*counts = true; /* if a call fails: more calls would, too */
	options.wire = wire;
	CHECK(rank, sml_get_counters(rank->context, -1, &before, NULL) == 0);
	CHECK(rank, sml_allreduce(rank->context, data, data, ZEROS, SML_FLOAT32, SML_SUM, &options,
				  NULL) == 0);
	CHECK(rank, sml_get_counters(rank->context, -1, &after, NULL) == 0);
	again = (int64_t)(after.retransmits_timeout + after.retransmits_fast -
			  before.retransmits_timeout - before.retransmits_fast);
	CHECK(rank,
	      sml_allreduce(rank->context, &again, &again, 1, SML_INT64, SML_MAX, NULL, NULL) == 0);
	*bytes = after.bytes_sent - before.bytes_sent;
	*counts = again == 0;
}

/* ---- zeros ---- */

typedef float number_of(int rank, unsigned i);

static float dense(int rank, unsigned i)
{
	return (float)rank + 1 + (float)(i % 7);
}

static float half_zero(int rank, unsigned i)
{
	return i < ZEROS / 2 ? 0 : dense(rank, i);
}

static float all_zero(int rank, unsigned i)
{
	(void)rank;
	(void)i;
	return 0;
}

/* The gradient of a table of 1000 rows of 100: each rank has looked up 20 rows of its own. */
static float some_rows(int rank, unsigned i)
{
	return i / 100 % 50 == 7u * (unsigned)rank ? dense(rank, i) : 0;
}

static uint64_t bytes_of_sum(struct rank *rank, enum sml_wire wire, number_of *of)
{
	static _Thread_local float data[ZEROS];
	uint64_t bytes = 0;
	bool counts = false;

	while (!counts) {
		for (unsigned i = 0; i < ZEROS; i++)
			data[i] = of(rank->rank, i);
		count_bytes(rank, wire, data, &bytes, &counts);
		for (unsigned i = 0; i < ZEROS; i++) {
			float sum = 0;

			for (int r = 0; r < rank->n; r++)
				sum += of(r, i);
			/* int8 has 7 bits, of which a switch rounds two away. */
			if (fabsf(data[i] - sum) > (wire == SML_WIRE_INT8 ? sum / 20 : sum / 1000))
				complain(rank, "element %u is %g, not %g", i, (double)data[i],
					 (double)sum);
		}
	}
	return bytes;
}

static void sum_zeros(struct rank *rank)
{
	static const enum sml_wire wires[] = {SML_WIRE_INT32, SML_WIRE_INT16, SML_WIRE_INT8};

	for (unsigned w = 0; w < sizeof(wires) / sizeof(wires[0]); w++) {
		uint64_t whole = bytes_of_sum(rank, wires[w], dense);
		uint64_t half = bytes_of_sum(rank, wires[w], half_zero);
		uint64_t rows = bytes_of_sum(rank, wires[w], some_rows);
		uint64_t none = bytes_of_sum(rank, wires[w], all_zero);

		/* Only a fiftieth of the elements, but packets have 3.5 rows, 7 or 13. */
		if (none > whole / 4 || half > whole * 2 / 3 || rows > whole * 2 / 3)
			complain(rank, "wire %d: %llu bytes, %llu, %llu and %llu with zeros",
				 wires[w], (unsigned long long)whole, (unsigned long long)half,
				 (unsigned long long)rows, (unsigned long long)none);
		printf("rank %d, wire %d: %llu bytes; half zero %llu; some rows %llu; all zero "
		       "%llu\n",
		       rank->rank, wires[w], (unsigned long long)whole, (unsigned long long)half,
		       (unsigned long long)rows, (unsigned long long)none);
	}
}

/* At a switch, at leaves, and in stripes of the ranks, where results count, too; also of hosts. */
TEST(elements_that_are_zero_take_no_bytes)
{
	char address[64], left[64], right[64];
	const char *const racks[] = {left, right, left};

	serve_at(0, address);
	serve_leaf(address, left);
	serve_leaf(address, right);
	setenv("SWITCHML_MTU", "1500", 1);
	run_job(&(struct job){.n_ranks = 3, .switch_address = address, .body = sum_zeros});
	run_job(&(struct job){.n_ranks = 3, .switch_addresses = racks, .body = sum_zeros});
	run_job(&(struct job){.n_ranks = 3, .body = sum_zeros});
	run_job(&(struct job){
		.n_ranks = 3, .host_group = true, .alone = 1 << 2, .body = sum_zeros});
	unsetenv("SWITCHML_MTU");
}

/* Where leaves or hosts round sums, that would not be fed back, so they must not. */
TEST(what_is_rounded_away_is_fed_back_in_every_form)
{
	char address[64], left[64], right[64];
	const char *const racks[] = {left, right, left};
	void (*body)(struct rank *) = calls_with_residuals;

	serve_at(0, address);
	serve_leaf(address, left);
	serve_leaf(address, right);
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = address, .faults = FAULTS, .body = body});
	run_job(&(struct job){.n_ranks = 3, .switch_addresses = racks, .body = body});
	run_job(&(struct job){.n_ranks = 3, .switch_address = "embedded", .body = body});
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .body = body});
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .alone = 1 << 2, .body = body});
	run_job(&(struct job){.n_ranks = 3,
			      .switch_address = address,
			      .host_group = true,
			      .alone = 1 << 0,
			      .threads = 2,
			      .body = body});
}

TEST(counters_count)
{
	run_job(&(struct job){.n_ranks = 2, .body = count_calls});
}

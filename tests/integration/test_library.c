/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library, over loopback, with its embedded switch: every collective, type,
 * operation and width, compared with sums that this test computes in a simple way.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "support/elements.h"
#include "support/ranks.h"

#define MOST 70001u

/* ---- one all-reduce, checked ---- */

struct call {
	size_t count;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	bool in_place;
};

static void check_result(struct rank *rank, const struct call *call, unsigned salt,
			 const void *recv)
{
	double allowed = element_tolerance(rank->n, call->type, call->op, call->wire);

	for (size_t i = 0; i < call->count * sml_type_size(call->type); i++)
		rank->hash = rank->hash * 31 + ((const unsigned char *)recv)[i];
	for (size_t i = 0; i < call->count; i++) {
		double want = element_expected(rank->n, call->type, call->op, i, salt);
		double got = element_get(recv, call->type, i);

		if (!(fabs(got - want) <= allowed)) {
			complain(rank,
				 "count %zu type %d op %d wire %d %s: element %zu is %g, not %g",
				 call->count, (int)call->type, (int)call->op, (int)call->wire,
				 call->in_place ? "in place" : "", i, got, want);
			return;
		}
	}
}

static void fill(struct rank *rank, const struct call *call, unsigned salt, void *send)
{
	for (size_t i = 0; i < call->count; i++)
		element_put(send, call->type, i, element_value(rank->rank, i, salt));
}

static void allreduce_checked(struct rank *rank, const struct call *call, unsigned salt)
{
	const struct sml_options options = {sizeof(options), call->wire, 0};
	size_t bytes = call->count * sml_type_size(call->type);
	void *send = malloc(bytes + 1), *recv = call->in_place ? send : malloc(bytes + 1);
	int error;

	fill(rank, call, salt, send);
	((char *)recv)[bytes] = 42;
	error = sml_allreduce(rank->context, send, recv, call->count, call->type, call->op,
			      &options);
	if (error)
		complain(rank, "all-reduce: %s", sml_error_text(rank->context));
	else
		check_result(rank, call, salt, recv);
	if (((char *)recv)[bytes] != 42)
		complain(rank, "wrote behind the end");
	free(send);
	if (recv != send)
		free(recv);
}

static void every_combination(struct rank *rank)
{
	static const size_t counts[] = {0,    1,    2,	  3,	31,   255, 736,
					1000, 2208, 2209, 4417, 9001, MOST};
	unsigned salt = 0;

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
		for (enum sml_type type = SML_FLOAT32; type <= SML_INT32; type++)
			for (enum sml_op op = SML_SUM; op <= SML_MIN; op++)
				for (enum sml_wire wire = SML_WIRE_INT32; wire <= SML_WIRE_INT16;
				     wire++) {
					struct call call = {counts[c], type, op, wire, salt & 1};

					/* The largest number once for each type is enough. */
					if (counts[c] == MOST && (op != SML_SUM || salt & 1))
						salt++;
					else
						allreduce_checked(rank, &call, salt++);
				}
}

static void every_type_operation_width_and_count_is_right(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 3, .body = every_combination});
}

static void several_shards_are_as_right_as_one(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .threads = 3, .body = every_combination});
}

static void a_job_of_one_rank_gets_what_it_sent(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 1, .body = every_combination});
}

/* ---- a bad network ---- */

static void some_calls(struct rank *rank)
{
	static const size_t counts[] = {1, 100, 5000, 30000};

	for (unsigned i = 0; i < 24; i++) {
		struct call call = {counts[i % 4], i & 4 ? SML_FLOAT32 : SML_INT32, SML_SUM,
				    i & 8 ? SML_WIRE_INT16 : SML_WIRE_INT32, i & 1};

		allreduce_checked(rank, &call, i);
	}
}

static void lost_doubled_and_reordered_packets_change_nothing(void **state)
{
	static const char *const faults[] = {"drop=100000", "duplicate=200000", "reorder=200000",
					     "drop=100000,duplicate=50000,reorder=100000,seed=7"};

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		run_job(&(struct job){.n_ranks = 3,
				      .threads = 1 + (int)i % 2,
				      .faults = faults[i],
				      .body = some_calls});
}

static void spinning_threads_are_as_right_as_sleeping_ones(void **state)
{
	(void)state;
	setenv("SWITCHML_SPIN", "1", 1);
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = some_calls});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = some_calls});
	unsetenv("SWITCHML_SPIN");
}

/* ---- many requests at once ---- */

#define IN_FLIGHT 1500 /* more than a worker can hold */

static void many_requests(struct rank *rank)
{
	struct sml_request *requests[IN_FLIGHT];
	int32_t *buffers[IN_FLIGHT];
	int done;

	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		struct call call = {i % 97 == 0 ? 4000 : i % 50, SML_INT32, SML_SUM, 0, true};

		buffers[i] = malloc(4 * call.count + 1);
		fill(rank, &call, i, buffers[i]);
		CHECK(rank, sml_allreduce_async(rank->context, buffers[i], buffers[i], call.count,
						SML_INT32, SML_SUM, NULL, &requests[i]) == 0);
	}
	/* Wait for the second half in reverse order, and test the first half. */
	for (unsigned i = IN_FLIGHT; i-- > IN_FLIGHT / 2;)
		CHECK(rank, sml_wait(requests[i]) == 0);
	for (unsigned i = 0; i < IN_FLIGHT / 2; i++) {
		do
			CHECK(rank, sml_test(requests[i], &done) == 0);
		while (!done);
	}
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		struct call call = {i % 97 == 0 ? 4000 : i % 50, SML_INT32, SML_SUM, 0, true};

		check_result(rank, &call, i, buffers[i]);
		free(buffers[i]);
	}
}

static void many_requests_can_be_in_flight(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = many_requests});
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = many_requests});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = many_requests});
}

/* ---- the other collectives ---- */

static void broadcast_all(struct rank *rank, size_t count, enum sml_type type)
{
	size_t bytes = count * sml_type_size(type);
	unsigned char *data = malloc(bytes + 1);

	for (int root = 0; root < rank->n; root++) {
		for (size_t i = 0; i < bytes; i++)
			data[i] = (unsigned char)element_value(rank->rank, i, 5);
		CHECK(rank, sml_broadcast(rank->context, data, count, type, root) == 0);
		for (size_t i = 0; i < bytes; i++)
			CHECK(rank, data[i] == (unsigned char)element_value(root, i, 5));
	}
	free(data);
}

static void gather_all(struct rank *rank, size_t count, enum sml_type type, bool in_place)
{
	size_t bytes = count * sml_type_size(type);
	unsigned char *all = malloc(bytes * (size_t)rank->n + 1);
	unsigned char *own = in_place ? all + bytes * (size_t)rank->rank : malloc(bytes + 1);

	for (size_t i = 0; i < bytes; i++)
		own[i] = (unsigned char)element_value(rank->rank, i, 6);
	CHECK(rank, sml_allgather(rank->context, own, all, count, type) == 0);
	for (int r = 0; r < rank->n; r++)
		for (size_t i = 0; i < bytes; i++)
			CHECK(rank,
			      all[bytes * (size_t)r + i] == (unsigned char)element_value(r, i, 6));
	if (!in_place)
		free(own);
	free(all);
}

static void scatter(struct rank *rank, size_t count, enum sml_type type, enum sml_op op)
{
	size_t each = sml_type_size(type), all = count * (size_t)rank->n;
	unsigned char *send = malloc(all * each + 1), *recv = malloc(count * each + 1);
	double allowed = element_tolerance(rank->n, type, op, SML_WIRE_INT32);

	for (size_t i = 0; i < all; i++)
		element_put(send, type, i, element_value(rank->rank, i, 7));
	CHECK(rank, sml_reduce_scatter(rank->context, send, recv, count, type, op, NULL) == 0);
	for (size_t i = 0; i < count; i++) {
		double want =
			element_expected(rank->n, type, op, count * (size_t)rank->rank + i, 7);

		CHECK(rank, fabs(element_get(recv, type, i) - want) <= allowed);
	}
	free(send);
	free(recv);
}

/* As an all-reduce at root, and nothing elsewhere. Every second time, the others have no recv. */
static void reduce_to(struct rank *rank, size_t count, enum sml_type type, enum sml_op op, int root)
{
	size_t bytes = count * sml_type_size(type);
	unsigned char *send = malloc(bytes + 1), *recv = malloc(bytes + 1),
		      *all = malloc(bytes + 1);
	bool in_place = count & 1, is_root = rank->rank == root;

	/* Normal numbers of every type. */
	for (size_t i = 0; i < bytes; i++)
		send[i] = (unsigned char)element_value(rank->rank, i, 8) & 0x3f;
	CHECK(rank, sml_allreduce(rank->context, send, all, count, type, op, NULL) == 0);
	memset(recv, 0xa5, bytes + 1);
	if (in_place && is_root)
		memcpy(recv, send, bytes);
	CHECK(rank,
	      sml_reduce(rank->context, in_place && is_root ? recv : send,
			 in_place && !is_root ? NULL : recv, count, type, op, root, NULL) == 0);
	CHECK(rank, !is_root || memcmp(recv, all, bytes) == 0);
	for (size_t i = is_root ? bytes : 0; i <= bytes; i++)
		CHECK(rank, recv[i] == 0xa5);
	free(send);
	free(recv);
	free(all);
}

static void reduce_all_types(struct rank *rank, size_t count)
{
	for (enum sml_type type = SML_FLOAT32; type <= SML_BOOL; type++)
		for (enum sml_op op = SML_SUM; op <= SML_MIN; op++)
			if (type != SML_BYTE && (type != SML_BOOL || op != SML_AVG))
				reduce_to(rank, count, type, op, (int)type % rank->n);
}

static void other_collectives(struct rank *rank)
{
	static const size_t counts[] = {0, 1, 3, 100, 2207, 10001, 50000};

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		broadcast_all(rank, counts[c], c & 1 ? SML_BYTE : SML_FLOAT16);
		gather_all(rank, counts[c], c & 1 ? SML_FLOAT32 : SML_BYTE, c & 2);
		scatter(rank, counts[c], SML_FLOAT32, SML_SUM);
		scatter(rank, counts[c], SML_INT32, SML_AVG);
		scatter(rank, counts[c], SML_FLOAT16, SML_MAX);
		reduce_to(rank, counts[c], SML_FLOAT32, SML_SUM, (int)c % rank->n);
		CHECK(rank, sml_barrier(rank->context) == 0);
	}
	reduce_all_types(rank, 5);
	reduce_all_types(rank, 10002);
}

static void broadcast_gather_scatter_reduce_and_barrier_are_right(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 3, .threads = 2, .body = other_collectives});
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .body = other_collectives});
}

static uint32_t entered;

static void enter_barrier(struct rank *rank)
{
	usleep((useconds_t)rank->rank * 20000);
	__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
	CHECK(rank, sml_barrier(rank->context) == 0);
	CHECK(rank, __atomic_load_n(&entered, __ATOMIC_SEQ_CST) == (uint32_t)rank->n);
}

static void nobody_leaves_a_barrier_before_all_have_entered(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++) {
		entered = 0;
		run_job(&(struct job){.n_ranks = 4, .host_group = shared, .body = enter_barrier});
	}
}

/* ---- separate switches ---- */

static void two_jobs_on_one_switch_do_not_disturb_each_other(void **state)
{
	char address[64];
	struct sml_switch *opened = serve_at(0, address);

	(void)state;
	run_jobs(
		(struct job[]){
			{.n_ranks = 2, .name = "a", .switch_address = address, .body = some_calls},
			{.n_ranks = 3,
			 .name = "b",
			 .switch_address = address,
			 .faults = "drop=20000",
			 .body = some_calls}},
		2);
	sml_switch_close(opened);
}

#define MOST_SWITCHES 3

/* All results of every_combination(), over this many switches. */
static uint32_t hash_over_switches(unsigned n, const char *faults, int threads)
{
	struct sml_switch *opened[MOST_SWITCHES];
	char address[64], list[64 * MOST_SWITCHES + MOST_SWITCHES] = "";
	uint32_t hash = 0;

	for (unsigned i = 0; i < n; i++) {
		opened[i] = serve_at(0, address);
		if (i > 0)
			strcat(list, ",");
		strcat(list, address);
	}
	run_job(&(struct job){.n_ranks = 3,
			      .switch_address = list,
			      .faults = faults,
			      .threads = threads,
			      .timeout_ms = 60000,
			      .body = every_combination,
			      .hash = &hash});
	for (unsigned i = 0; i < n; i++)
		sml_switch_close(opened[i]);
	return hash;
}

/* The same with a stripe in every rank. */
static uint32_t hash_embedded(const char *faults, int threads)
{
	uint32_t hash = 0;

	run_job(&(struct job){.n_ranks = 3,
			      .switch_address = "embedded",
			      .faults = faults,
			      .threads = threads,
			      .timeout_ms = 60000,
			      .body = every_combination,
			      .hash = &hash});
	return hash;
}

/* Through shared memory. */
static uint32_t hash_shared(int threads)
{
	uint32_t hash = 0;

	run_job(&(struct job){.n_ranks = 3,
			      .host_group = true,
			      .threads = threads,
			      .timeout_ms = 60000,
			      .body = every_combination,
			      .hash = &hash});
	return hash;
}

/* As one child of a switch, beside the ranks that are alone. */
static uint32_t hash_shared_under_switch(int alone, const char *faults, int threads)
{
	char address[64];
	struct sml_switch *opened = serve_at(0, address);
	uint32_t hash = 0;

	run_job(&(struct job){.n_ranks = 3,
			      .switch_address = address,
			      .host_group = true,
			      .alone = alone,
			      .faults = faults,
			      .threads = threads,
			      .timeout_ms = 60000,
			      .body = every_combination,
			      .hash = &hash});
	sml_switch_close(opened);
	return hash;
}

#define FAULTS "drop=2000,duplicate=5000,reorder=5000"

/* Every type, operation, width and count: see every_combination(). */
static void results_have_the_same_bits_in_every_form(void **state)
{
	uint32_t one = hash_over_switches(1, NULL, 1);

	(void)state;
	assert_int_equal(hash_over_switches(2, NULL, 1), one);
	assert_int_equal(hash_over_switches(3, NULL, 2), one);
	assert_int_equal(hash_over_switches(3, FAULTS, 1), one);
	assert_int_equal(hash_embedded(NULL, 1), one);
	assert_int_equal(hash_embedded(NULL, 2), one);
	assert_int_equal(hash_embedded(FAULTS, 1), one);
	assert_int_equal(hash_shared(1), one);
	assert_int_equal(hash_shared(2), one);
	assert_int_equal(hash_shared_under_switch(0, NULL, 1), one);
	assert_int_equal(hash_shared_under_switch(1 << 0, NULL, 2), one);
	assert_int_equal(hash_shared_under_switch(1 << 1, FAULTS, 1), one);
}

/*
 * A caller that tests just then sees the end of a tensor before the thread that completed it
 * has counted it.
 */
static void get_counters(struct rank *rank, uint64_t tensors, struct sml_counters *counters)
{
	uint64_t began = now_ms();

	*counters = (struct sml_counters){.size = sizeof(*counters)};
	do
		CHECK(rank, sml_get_counters(rank->context, counters) == 0);
	while (counters->tensors < tensors && now_ms() - began < 60000);
	CHECK(rank, counters->tensors == tensors);
}

static void look_at_own_stripe(struct rank *rank)
{
	struct sml_counters c = {.size = sizeof(c)};
	char start[32];
	const char *name;

	some_calls(rank);
	get_counters(rank, 24, &c);
	CHECK(rank, sml_stripe_count(rank->context) == 3);
	for (int i = 0; i < 3; i++) {
		CHECK(rank, sml_get_stripe_counters(rank->context, i, &c, &name) == 0);
		snprintf(start, sizeof(start), "rank %d at 127.0.0.1:", i);
		CHECK(rank, strncmp(name, start, strlen(start)) == 0);
		CHECK(rank, c.bytes_sent > 50000 && c.bytes_received > 50000);
		/* Work of a rank for itself causes no traffic and needs no timer. */
		if (i == rank->rank)
			CHECK(rank, c.retransmits_timeout + c.retransmits_fast + c.stalls == 0);
	}
}

static void every_rank_has_a_stripe_of_its_own(void **state)
{
	(void)state;
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = "embedded", .body = look_at_own_stripe});
}

static void look_at_stripes(struct rank *rank)
{
	struct sml_counters all, one = {.size = sizeof(one)};
	const char *name, *names = rank->job->argument;
	uint64_t sent = 0;

	some_calls(rank);
	get_counters(rank, 24, &all);
	CHECK(rank, sml_stripe_count(rank->context) == 2);
	for (int i = 0; i < 2; i++) {
		CHECK(rank, sml_get_stripe_counters(rank->context, i, &one, &name) == 0);
		CHECK(rank, strcmp(name, names + 64 * i) == 0);
		CHECK(rank, one.bytes_sent > 100000 && one.rtt_min_ns > 0);
		sent += one.packets_sent;
	}
	CHECK(rank, all.packets_sent == sent);
	CHECK(rank, sml_get_stripe_counters(rank->context, 2, &one, NULL) == -EINVAL);
	CHECK(rank, sml_get_stripe_counters(rank->context, -1, &one, NULL) == -EINVAL);
}

static void stripes_have_counters_and_names(void **state)
{
	char addresses[2][64], list[130];
	struct sml_switch *a = serve_at(0, addresses[0]), *b = serve_at(0, addresses[1]);

	(void)state;
	snprintf(list, sizeof(list), "%s,%s", addresses[0], addresses[1]);
	run_job(&(struct job){.n_ranks = 2,
			      .switch_address = list,
			      .body = look_at_stripes,
			      .argument = addresses});
	sml_switch_close(a);
	sml_switch_close(b);
}

static void open_again_at_once(struct rank *rank)
{
	struct sml_config config;

	configure(&config, rank->job, rank->rank);
	for (int i = 0; i < 20; i++) {
		CHECK(rank, sml_barrier(rank->context) == 0);
		CHECK(rank, sml_close(rank->context) == 0);
		if (sml_open(&rank->context, &config) < 0) {
			complain(rank, "open %d: %s", i, sml_error_text(NULL));
			return;
		}
	}
}

/* The port may still belong to the switch of the previous job. */
static void jobs_can_follow_each_other_on_one_port(void **state)
{
	(void)state;
	for (int shared = 0; shared < 2; shared++)
		run_job(&(struct job){
			.n_ranks = 3, .host_group = shared, .body = open_again_at_once});
}

/* ---- other behavior ---- */

static void sleep_idle(struct rank *rank)
{
	struct timespec before, after;
	double used;

	CHECK(rank, sml_barrier(rank->context) == 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	usleep(300000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	used = (double)(after.tv_sec - before.tv_sec) +
	       (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
	if (used > 0.1)
		complain(rank, "%g s of processor time in 0.3 s of idleness", used);
}

static void an_idle_job_takes_no_processor_time(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = sleep_idle});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = sleep_idle});
}

/* The MASTER_ADDR of torchrun is this name, not an address. */
static void the_embedded_switch_can_be_on_localhost(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .master_address = "localhost", .body = some_calls});
}

static void count_calls(struct rank *rank)
{
	struct sml_counters counters;

	some_calls(rank);
	get_counters(rank, 24, &counters);
	CHECK(rank, counters.packets_sent >= 24 && counters.packets_received >= 24);
	CHECK(rank, counters.bytes_sent > 500000);
	CHECK(rank, counters.window > 0);
	/* An operation that rank 0 does only for itself takes no time. */
	CHECK(rank, rank->rank == 0 || counters.rtt_min_ns > 0);
}

static void counters_count(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 2, .body = count_calls});
}

/* ---- shared memory ---- */

static void expect_packets(struct rank *rank)
{
	struct sml_counters counters;
	bool some = rank->job->argument != NULL;

	some_calls(rank);
	get_counters(rank, 24, &counters);
	CHECK(rank, (counters.packets_sent > 0) == some);
	CHECK(rank, (counters.bytes_received > 0) == some);
	CHECK(rank, counters.retransmits_timeout + counters.stalls == 0 || some);
}

static void ranks_that_share_memory_send_no_packets(void **state)
{
	(void)state;
	for (int n_ranks = 2; n_ranks <= 8; n_ranks += 3)
		run_job(&(struct job){
			.n_ranks = n_ranks, .host_group = true, .body = expect_packets});
	run_job(&(struct job){.n_ranks = 2, .argument = "some", .body = expect_packets});
	/* Injected faults are of packets. */
	run_job(&(struct job){.n_ranks = 2,
			      .host_group = true,
			      .faults = "drop=1",
			      .argument = "some",
			      .body = expect_packets});
}

/* Behind a switch, the lowest of the ranks that share memory sends for them. */
static void expect_packets_of_leaders(struct rank *rank)
{
	const struct job *job = rank->job;
	struct sml_counters counters;
	bool leads = job->alone >> rank->rank & 1;
	int first = 0;

	while (job->alone >> first & 1)
		first++;
	leads |= rank->rank == first;
	some_calls(rank);
	get_counters(rank, 24, &counters);
	CHECK(rank, (counters.packets_sent > 0) == leads);
	CHECK(rank, (counters.bytes_received > 0) == leads);
}

static void behind_a_switch_one_rank_of_a_host_sends(void **state)
{
	char address[64];
	struct sml_switch *opened = serve_at(0, address);
	struct job job = {
		.switch_address = address, .host_group = true, .body = expect_packets_of_leaders};

	(void)state;
	for (job.n_ranks = 2; job.n_ranks <= 5; job.n_ranks++)
		for (job.alone = 0; job.alone < 1 << (job.n_ranks - 2); job.alone++) {
			job.by_default = !job.by_default;
			run_job(&job);
		}
	/* Only ranks that ask for it share memory. */
	job.n_ranks = 3;
	job.alone = 7;
	job.by_default = true;
	run_job(&job);
	sml_switch_close(opened);
}

/* One rank is told not to: then no rank does, and nobody waits for it. */
static void refuse_to_share(struct rank *rank)
{
	struct sml_config config;
	int error;

	configure(&config, rank->job, rank->rank);
	config.host_group = rank->rank != 1;
	CHECK(rank, sml_close(rank->context) == 0);
	error = sml_open(&rank->context, &config);
	if (error)
		complain(rank, "open: %s", sml_error_text(NULL));
	else
		expect_packets(rank);
}

static void ranks_of_one_host_may_be_of_both_kinds(void **state)
{
	(void)state;
	run_job(&(struct job){
		.n_ranks = 3, .host_group = true, .argument = "some", .body = refuse_to_share});
}

static void *call_from_a_thread(void *self)
{
	struct rank *rank = self;
	struct sml_request *requests[20];
	float data[20][300];

	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 300; k++)
			data[i][k] = (float)k;
		if (sml_allreduce_async(rank->context, data[i], data[i], 300, SML_FLOAT32, SML_SUM,
					NULL, &requests[i]) < 0)
			return self;
	}
	for (int i = 0; i < 20; i++)
		if (sml_wait(requests[i]) < 0 || data[i][299] != 299.0f * (float)rank->n)
			return self;
	return NULL;
}

/* All threads make equal calls, so that their order does not matter. */
static void call_from_threads(struct rank *rank)
{
	pthread_t threads[4];
	void *wrong;

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, call_from_a_thread, rank);
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], &wrong);
			CHECK(rank, wrong == NULL);
		}
	}
}

static void threads_of_ranks_that_share_memory_may_call_at_once(void **state)
{
	(void)state;
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .body = call_from_threads});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_operation_width_and_count_is_right),
		cmocka_unit_test(several_shards_are_as_right_as_one),
		cmocka_unit_test(a_job_of_one_rank_gets_what_it_sent),
		cmocka_unit_test(lost_doubled_and_reordered_packets_change_nothing),
		cmocka_unit_test(spinning_threads_are_as_right_as_sleeping_ones),
		cmocka_unit_test(many_requests_can_be_in_flight),
		cmocka_unit_test(broadcast_gather_scatter_reduce_and_barrier_are_right),
		cmocka_unit_test(nobody_leaves_a_barrier_before_all_have_entered),
		cmocka_unit_test(two_jobs_on_one_switch_do_not_disturb_each_other),
		cmocka_unit_test(results_have_the_same_bits_in_every_form),
		cmocka_unit_test(every_rank_has_a_stripe_of_its_own),
		cmocka_unit_test(stripes_have_counters_and_names),
		cmocka_unit_test(jobs_can_follow_each_other_on_one_port),
		cmocka_unit_test(the_embedded_switch_can_be_on_localhost),
		cmocka_unit_test(an_idle_job_takes_no_processor_time),
		cmocka_unit_test(counters_count),
		cmocka_unit_test(ranks_that_share_memory_send_no_packets),
		cmocka_unit_test(behind_a_switch_one_rank_of_a_host_sends),
		cmocka_unit_test(ranks_of_one_host_may_be_of_both_kinds),
		cmocka_unit_test(threads_of_ranks_that_share_memory_may_call_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

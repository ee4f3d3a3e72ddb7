/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole library, over loopback, with its embedded switch: every collective and operation,
 * compared with sums that this test computes in a simple way. All-reduces of every type and width
 * are of one rank here, of several in test_forms.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/calls.h"
#include "support/elements.h"
#include "support/test.h"

/* ---- all-reduces ---- */

/* test_forms.c has the same of several ranks. */
TEST(a_job_of_one_rank_gets_what_it_sent)
{
	run_job(&(struct job){.n_ranks = 1, .body = calls_of_every_kind});
}

/* ---- a bad network ---- */

TEST(lost_duplicated_and_reordered_packets_change_nothing)
{
	static const char *const faults[] = {"drop=100000", "duplicate=200000", "reorder=200000",
					     "drop=100000,duplicate=50000,reorder=100000,seed=7"};

	for (unsigned i = 0; i < 4; i++)
		run_job(&(struct job){.n_ranks = 3,
				      .threads = 1 + (int)i % 2,
				      .faults = faults[i],
				      .body = calls_of_some_kinds});
}

TEST(spinning_threads_are_as_right_as_sleeping_ones)
{
	setenv("SWITCHML_SPIN", "1", 1);
	run_job(&(struct job){.n_ranks = 2, .threads = 2, .body = calls_of_some_kinds});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = calls_of_some_kinds});
	unsetenv("SWITCHML_SPIN");
}

/* ---- many requests at once ---- */

#define IN_FLIGHT 1500 /* more than a worker can hold */

static void many_requests(struct rank *rank)
{
	struct sml_request *requests[IN_FLIGHT];
	int32_t *buffers[IN_FLIGHT];
	int error;

	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		struct call call = {i % 97 == 0 ? 4000 : i % 50, SML_INT32, SML_SUM, 0, true};

		buffers[i] = malloc(4 * call.count + 1);
		call_fill(rank, &call, i, buffers[i]);
		CHECK(rank, sml_allreduce(rank->context, buffers[i], buffers[i], call.count,
					  SML_INT32, SML_SUM, NULL, &requests[i]) == 0);
	}
	/* Wait for the second half in reverse order, and test the first half. */
	for (unsigned i = IN_FLIGHT; i-- > IN_FLIGHT / 2;)
		CHECK(rank, sml_wait(&requests[i], 1, -1, NULL) == 0);
	while ((error = sml_wait(requests, IN_FLIGHT, 0, NULL)) == -EAGAIN)
		;
	CHECK(rank, error == 0);
	for (unsigned i = 0; i < IN_FLIGHT; i++) {
		struct call call = {i % 97 == 0 ? 4000 : i % 50, SML_INT32, SML_SUM, 0, true};

		call_check(rank, &call, i, buffers[i]);
		free(buffers[i]);
	}
}

TEST(many_requests_can_be_in_flight)
{
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
		CHECK(rank, sml_broadcast(rank->context, data, count, type, root, NULL, NULL) == 0);
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
	CHECK(rank, sml_allgather(rank->context, own, all, count, type, NULL, NULL) == 0);
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
	CHECK(rank,
	      sml_reduce_scatter(rank->context, send, recv, count, type, op, NULL, NULL) == 0);
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
	CHECK(rank, sml_allreduce(rank->context, send, all, count, type, op, NULL, NULL) == 0);
	memset(recv, 0xa5, bytes + 1);
	if (in_place && is_root)
		memcpy(recv, send, bytes);
	CHECK(rank, sml_reduce(rank->context, in_place && is_root ? recv : send,
			       in_place && !is_root ? NULL : recv, count, type, op, root, NULL,
			       NULL) == 0);
	CHECK(rank, !is_root || memcmp(recv, all, bytes) == 0);
	for (size_t i = is_root ? bytes : 0; i <= bytes; i++)
		CHECK(rank, recv[i] == 0xa5);
	free(send);
	free(recv);
	free(all);
}

static void reduce_all_types(struct rank *rank, size_t count)
{
	for (enum sml_type type = SML_FLOAT32; type < SML_TYPES; type++)
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
		CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	}
	reduce_all_types(rank, 5);
	reduce_all_types(rank, 10002);
}

TEST(broadcast_gather_scatter_reduce_and_barrier_are_right)
{
	run_job(&(struct job){.n_ranks = 3, .threads = 2, .body = other_collectives});
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .body = other_collectives});
}

static void call_the_last(struct rank *rank)
{
	float data[3] = {1, 2, 3};

	CHECK(rank,
	      sml_reduce(rank->context, data, data, 3, SML_FLOAT32, SML_MAX, 0, NULL, NULL) == 0);
}

TEST(a_trace_names_the_last_collective_of_the_enum)
{
	char record[128], path[64], text[20000] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/sml-trace-%d", (int)getpid());
	snprintf(record, sizeof(record), "trace:%s.%%r", path);
	run_job(&(struct job){.n_ranks = 1,
			      .switch_address = "embedded",
			      .record = record,
			      .body = call_the_last});
	strcat(path, ".0");
	file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	unlink(path);
	assert_non_null(strstr(text, "\"name\":\"reduce 0\""));
}

static uint32_t entered;

static void enter_barrier(struct rank *rank)
{
	usleep((useconds_t)rank->rank * 20000);
	__atomic_add_fetch(&entered, 1, __ATOMIC_SEQ_CST);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	CHECK(rank, __atomic_load_n(&entered, __ATOMIC_SEQ_CST) == (uint32_t)rank->n);
}

TEST(nobody_leaves_a_barrier_before_all_have_entered)
{
	for (int shared = 0; shared < 2; shared++) {
		entered = 0;
		run_job(&(struct job){.n_ranks = 4, .host_group = shared, .body = enter_barrier});
	}
}

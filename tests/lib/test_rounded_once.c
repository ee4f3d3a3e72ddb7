/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random floats of mixed magnitudes: by default, each sum and each mean is the exact one, rounded
 * once, and an average of equal arrays changes nothing; under loss, and when a switch dies. Where
 * switches add only integers, that is so on the exact wire; by default there, if the magnitudes are
 * not too different. The reference adds integers of 128 bits: an element is a mantissa times a
 * power of two, and all elements of a type are multiples of the smallest one.
 *
 * SML_TEST_SEED=N draws others, and SML_ELEMENTS=N as many of them.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "core/element.h"
#include "support/ranks.h"
#include "support/test.h"

#define LOSS "drop=10000,duplicate=10000,reorder=10000"

/* Elements are mantissa * 2^(lowest + 0 to span - 1). 64 of them have a sum of at most 127 bits. */
static const struct kind {
	enum sml_type type;
	int bits, span, lowest, bytes;
	bool is_bounded; /* lowest is also the last place of all that are smaller; 2^16 is too large
			  */
} kinds[] = {
	{SML_FLOAT32, 24, 96, -60, 4, false},
	{SML_BFLOAT16, 8, 112, -60, 2, false},
	{SML_FLOAT16, 11, 30, -24, 2, true},
};

static const struct sml_options exact = {.size = sizeof(exact), .wire = SML_WIRE_EXACT};
static const struct sml_options *asked; /* by all calls of a test */
static bool adds_integers;		/* the switch of all calls that ask for no wire */

/* There, a sum of many ranks has all bits if no element is below 2^-39 of its largest neighbor. */
#define INTEGERS_SPAN 39

static uint64_t number(const char *name, uint64_t usual)
{
	const char *text = getenv(name);
	uint64_t found = text ? strtoull(text, NULL, 0) : usual;

	printf("%s=%" PRIu64 "\n", name, found);
	return found;
}

static uint64_t seed;
static size_t all_elements; /* of all ranks and jobs */

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15 + b * 0xd1b54a32d192ed03 + seed;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* A rank's element, in units of the smallest one. */
static __int128 units_of(const struct kind *kind, int rank, size_t i)
{
	uint64_t x = mix((uint64_t)rank * 8 + kind->type, i);
	int span = adds_integers && kind->span > INTEGERS_SPAN ? INTEGERS_SPAN : kind->span;
	__int128 units = (__int128)(x >> 40 >> (24 - kind->bits)) << (int)(x & 0xffff) % span;

	return x & 0x10000 ? -units : units;
}

static double value_of(const struct kind *kind, __int128 units)
{
	return ldexp((double)units, kind->lowest); /* exact: of an element */
}

/* units / n, rounded to nearest, ties to even. */
static double rounded(const struct kind *kind, __int128 units, unsigned n)
{
	unsigned __int128 left = units < 0 ? -(unsigned __int128)units : (unsigned __int128)units;
	unsigned __int128 quotient, rest;
	int exponent = kind->lowest, drop = 0;
	double value;

	/* So many bits that the remainder only breaks ties. */
	for (; left >> 120 == 0 && exponent > kind->lowest - 64; exponent--)
		left <<= 1;
	quotient = left / n;
	rest = left % n;
	while (quotient >> drop >> kind->bits != 0)
		drop++;
	if (kind->is_bounded && drop < kind->lowest - exponent)
		drop = kind->lowest - exponent;
	if (drop > 0) {
		unsigned __int128 half = (unsigned __int128)1 << (drop - 1);
		unsigned __int128 low = quotient & (2 * half - 1);

		quotient >>= drop;
		quotient += low > half || (low == half && (rest != 0 || (quotient & 1)));
	}
	value = ldexp((double)quotient, exponent + drop);
	if (kind->is_bounded && value >= 0x1p16)
		value = INFINITY;
	return units < 0 ? -value : value;
}

/* What the elements of a call are, in every rank. */
struct vector {
	const struct kind *kind;
	enum sml_op op;
	size_t count, first;
	void *data;
};

static void fill(struct vector *vector, int rank)
{
	vector->data = malloc(vector->count * (size_t)vector->kind->bytes);
	for (size_t i = 0; i < vector->count; i++)
		sml_element_store(
			vector->kind->type, vector->data, (uint32_t)i,
			sml_bits_of((float)value_of(
				vector->kind, units_of(vector->kind, rank, vector->first + i))));
}

/* Each rank checks a part, and all have the same bits (run_job()). */
static void check(struct rank *rank, struct vector *vector)
{
	const struct kind *kind = vector->kind;
	const size_t bytes = (size_t)kind->bytes;
	uint32_t expected;

	for (size_t i = 0; i < vector->count * bytes; i++)
		rank->hash = rank->hash * 31 + ((const uint8_t *)vector->data)[i];
	for (size_t i = (size_t)rank->rank; i < vector->count; i += (size_t)rank->n) {
		__int128 sum = 0;

		for (int r = 0; r < rank->n; r++)
			sum += units_of(kind, r, vector->first + i);
		sml_element_store(
			kind->type, &expected, 0,
			sml_bits_of((float)rounded(kind, sum,
						   vector->op == SML_AVG ? (unsigned)rank->n : 1)));
		if (memcmp((const uint8_t *)vector->data + i * bytes, &expected, bytes) != 0) {
			complain(rank, "type %d, op %d, %d ranks: element %zu is not rounded once",
				 (int)kind->type, (int)vector->op, rank->n, vector->first + i);
			break;
		}
	}
	free(vector->data);
}

static struct vector vector_of(const struct rank *rank, unsigned call)
{
	const size_t *elements = rank->job->argument;

	return (struct vector){.kind = &kinds[call / 2 % 3],
			       .op = call % 2 ? SML_AVG : SML_SUM,
			       .count = *elements / (6 * (size_t)rank->n),
			       .first = call / 6 * *elements};
}

static void sum_random(struct rank *rank)
{
	for (unsigned call = 0; call < 6; call++) {
		struct vector vector = vector_of(rank, call);

		fill(&vector, rank->rank);
		CHECK(rank, sml_allreduce(rank->context, vector.data, vector.data, vector.count,
					  vector.kind->type, vector.op, asked, NULL) == 0);
		check(rank, &vector);
	}
}

TEST(sums_and_means_are_the_exact_ones_rounded_once)
{
	static const int worlds[] = {2, 3, 7, 16, 33, 64};
	size_t elements = all_elements / 18;
	char address[64];

	serve_at(0, address);
	for (unsigned w = 0; w < sizeof(worlds) / sizeof(*worlds); w++) {
		struct job job = {.n_ranks = worlds[w], .body = sum_random, .argument = &elements};

		job.switch_address = address;
		job.faults = LOSS;
		run_job(&job);
		job.switch_address = NULL;
		job.faults = NULL;
		job.host_group = true;
		run_job(&job);
		job.host_group = false;
		job.switch_address = "embedded";
		job.faults = worlds[w] < 16 ? LOSS : NULL;
		run_job(&job);
	}
}

struct death {
	size_t elements;
	pid_t pid;
	int restarts_at;	      /* its port; 0: the ranks have another switch */
	struct sml_switch *restarted; /* by rank 0 */
};

static int end_switch(const struct death *death)
{
	siginfo_t ended;

	return kill(death->pid, SIGKILL) == 0
		       ? waitid(P_PID, (id_t)death->pid, &ended, WEXITED | WNOWAIT)
		       : -1;
}

static bool is_gone(const struct death *death)
{
	siginfo_t ended = {0};

	return waitid(P_PID, (id_t)death->pid, &ended, WEXITED | WNOWAIT | WNOHANG) == 0 &&
	       ended.si_pid == death->pid;
}

/* The switch dies while calls of every type are in progress. */
static void sum_and_lose_the_switch(struct rank *rank)
{
	struct death *death = rank->job->argument;
	struct sml_request *requests[6];
	struct vector vectors[6];
	char address[64];

	sum_random(rank);
	for (unsigned call = 0; call < 6; call++) {
		struct vector *vector = &vectors[call];

		*vector = vector_of(rank, 6 + call);
		fill(vector, rank->rank);
		if (call == 5 && rank->rank == 0) {
			CHECK(rank, end_switch(death) == 0);
			if (death->restarts_at)
				death->restarted = serve_at(death->restarts_at, address);
		}
		CHECK(rank,
		      sml_allreduce(rank->context, vector->data, vector->data, vector->count,
				    vector->kind->type, vector->op, asked, &requests[call]) == 0);
	}
	for (unsigned call = 0; call < 6; call++) {
		CHECK(rank, sml_wait(&requests[call], 1, -1, NULL) == 0);
		check(rank, &vectors[call]);
	}
}

/* Others' sockets do not take it while the switch is away. */
static int port_to_restart;

static struct sml_switch *serve_to_restart(char address[64])
{
	return serve_at(port_to_restart, address);
}

typedef struct sml_switch *serving(char address[64]);

/* next: NULL if the first one restarts. */
static void move(serving *first, serving *next, void (*body)(struct rank *rank))
{
	static const int worlds[] = {1, 2, 3, 16, 64};

	for (unsigned w = 0; w < sizeof(worlds) / sizeof(*worlds); w++) {
		char addresses[2][64] = {""}, list[130];
		struct death death = {.elements = all_elements * 6 / 100,
				      .pid = serve_in_child(first, addresses[0])};
		struct sml_switch *second = next ? next(addresses[1]) : NULL;

		if (second == NULL)
			death.restarts_at = port_to_restart;
		snprintf(list, sizeof(list), "%s%s%s", addresses[0], second ? "|" : "",
			 addresses[1]);
		run_job(&(struct job){.n_ranks = worlds[w],
				      .switch_address = list,
				      .faults = LOSS,
				      .body = body,
				      .argument = &death});
		assert_int_equal(waitpid(death.pid, NULL, 0), death.pid);
		stop_serving(second ? second : death.restarted);
	}
}

TEST(no_sum_changes_when_the_switch_dies)
{
	move(serve_udp, serve_udp, sum_and_lose_the_switch);
}

TEST(no_sum_changes_when_the_switch_restarts)
{
	port_to_restart = free_port();
	move(serve_to_restart, NULL, sum_and_lose_the_switch);
}

/* ---- where switches add only integers ---- */

static void lose_the_switch_and_sum(struct rank *rank)
{
	const struct death *death = rank->job->argument;

	if (rank->rank == 0)
		CHECK(rank, end_switch(death) == 0);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0); /* at the next switch */
	sum_random(rank);
}

TEST(sums_are_rounded_once_where_switches_add_only_integers)
{
	asked = &exact;
	move(serve_integers, serve_integers, sum_and_lose_the_switch);
	asked = NULL;
	adds_integers = true;
	move(serve_integers, serve_integers, sum_and_lose_the_switch);
	move(serve_udp, serve_integers, lose_the_switch_and_sum);
	adds_integers = false;
}

/* ---- where leaves round parts of the sums ---- */

/* To a tree, if all ranks may; else to the last switch, if there is one. */
static void move_into_a_tree(void (*body)(struct rank *rank), const char *last)
{
	char first[64], root[64], leaf[64], lists[2][200];
	struct death death = {.elements = all_elements / 100,
			      .pid = serve_in_child(serve_udp, first)};
	const char *const racks[] = {lists[0], lists[1], lists[1]};

	serve_at(0, root);
	serve_leaf(root, leaf);
	snprintf(lists[0], sizeof(lists[0]), "%s|%s%s", first, root, last);
	snprintf(lists[1], sizeof(lists[1]), "%s|%s%s", first, leaf, last);
	run_job(&(struct job){
		.n_ranks = 3, .switch_addresses = racks, .body = body, .argument = &death});
	assert_int_equal(waitpid(death.pid, NULL, 0), death.pid);
}

TEST(sums_are_rounded_once_after_a_move_into_a_tree_if_that_is_asked)
{
	asked = &exact;
	move_into_a_tree(lose_the_switch_and_sum, "");
	asked = NULL;
}

static void sum_and_stay(struct rank *rank)
{
	const struct death *death = rank->job->argument;
	int error;

	sum_random(rank);
	CHECK(rank, sml_set_timeout(rank->context, 2000) == 0);
	if (rank->rank == 0)
		CHECK(rank, end_switch(death) == 0);
	error = sml_barrier(rank->context, NULL, NULL);
	/* The call's timeout, the search's, or another rank's, which aborts the job: the first. */
	CHECK(rank, error == SML_ERROR_TIMEOUT || error == SML_ERROR_SWITCH_DIED ||
			    error == SML_ERROR_ABORTED);
	CHECK_ERROR(rank, error, error, "no switch has taken over");
}

TEST(a_job_that_has_asked_for_exact_sums_moves_into_no_tree)
{
	asked = &exact;
	move_into_a_tree(sum_and_stay, "");
	asked = NULL;
}

/* Only rank 0 has asked when the switch dies: the others try the tree. */
static void ask_first_and_sum(struct rank *rank)
{
	const struct death *death = rank->job->argument;
	struct vector vector = vector_of(rank, 0);
	struct sml_request *request = NULL;

	fill(&vector, rank->rank);
	if (rank->rank == 0) {
		CHECK(rank, sml_allreduce(rank->context, vector.data, vector.data, vector.count,
					  vector.kind->type, vector.op, asked, &request) == 0);
		CHECK(rank, end_switch(death) == 0);
	} else {
		while (!is_gone(death))
			usleep(1000);
		CHECK(rank, sml_allreduce(rank->context, vector.data, vector.data, vector.count,
					  vector.kind->type, vector.op, asked, &request) == 0);
	}
	CHECK(rank, sml_wait(&request, 1, -1, NULL) == 0);
	check(rank, &vector);
	sum_random(rank);
}

TEST(ranks_that_have_only_tried_a_tree_sum_as_the_others)
{
	char last[65] = "|";

	serve_at(0, last + 1);
	asked = &exact;
	move_into_a_tree(ask_first_and_sum, last);
	asked = NULL;
}

/* ---- equal arrays ---- */

/* The same on all ranks, and so small that no part of the sum overflows. */
static uint32_t equal_bits(const struct kind *kind, size_t i)
{
	uint32_t bits = (uint32_t)mix(kind->type, i);

	if (adds_integers && kind->type != SML_FLOAT16) {
		bits = (bits & ~(255u << 23)) | (100 + bits % INTEGERS_SPAN) << 23;
		return kind->bytes == 4 ? bits : bits >> 16;
	}
	return kind->bytes == 4 ? bits & ~(1u << 30) : (bits & ~(1u << 14)) & 0xffff;
}

static void average(struct rank *rank, const struct kind *kind, size_t count)
{
	const int64_t most = rank->job->argument ? 1 : 0; /* units in the last place */
	uint32_t *data = malloc(4 * count);

	for (size_t i = 0; i < count; i++) {
		uint32_t bits = equal_bits(kind, i);

		memcpy((uint8_t *)data + i * (size_t)kind->bytes, &bits, (size_t)kind->bytes);
	}
	CHECK(rank, sml_allreduce(rank->context, data, data, count, kind->type, SML_AVG, asked,
				  NULL) == 0);
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = 0;

		memcpy(&bits, (uint8_t *)data + i * (size_t)kind->bytes, (size_t)kind->bytes);
		CHECK(rank, llabs((int64_t)bits - equal_bits(kind, i)) <= most);
	}
	free(data);
}

static void average_all(struct rank *rank)
{
	static const size_t counts[] = {1, 10, 100, 1000, 10000, 100000, 1000000};

	for (unsigned k = 0; k < 3; k++)
		for (unsigned c = 0; c < sizeof(counts) / sizeof(*counts); c++)
			average(rank, &kinds[k], counts[c]);
}

TEST(averages_of_equal_arrays_of_any_length_change_nothing)
{
	char address[64];

	serve_at(0, address);
	run_job(&(struct job){.n_ranks = 3, .switch_address = address, .body = average_all});
	run_job(&(struct job){.n_ranks = 5, .switch_address = "embedded", .body = average_all});
	run_job(&(struct job){.n_ranks = 6, .host_group = true, .body = average_all});
	adds_integers = true;
	serve_integers(address);
	run_job(&(struct job){.n_ranks = 3, .switch_address = address, .body = average_all});
	run_job(&(struct job){.n_ranks = 5,
			      .switch_address = address,
			      .host_group = true,
			      .alone = 3 << 3, /* and a host of three */
			      .body = average_all});
	adds_integers = false;
}

static void run_above_hosts_and_leaves(void (*body)(struct rank *rank), void *argument)
{
	char root[64], left[64], right[64];
	const char *const racks[] = {left, left, left, right, root};

	serve_at(0, root);
	serve_leaf(root, left);
	serve_leaf(root, right);
	run_job(&(struct job){
		.n_ranks = 5, .switch_addresses = racks, .body = body, .argument = argument});
	run_job(&(struct job){.n_ranks = 5,
			      .switch_address = root,
			      .host_group = true,
			      .alone = 3 << 3, /* and a host of three */
			      .body = body,
			      .argument = argument});
}

TEST(above_hosts_and_leaves_they_change_by_one_unit_in_the_last_place)
{
	bool one_unit = true;

	run_above_hosts_and_leaves(average_all, &one_unit);
}

TEST(above_hosts_and_leaves_what_asks_for_exact_sums_is_rounded_once)
{
	size_t elements = all_elements / 18;

	asked = &exact;
	run_above_hosts_and_leaves(average_all, NULL);
	run_above_hosts_and_leaves(sum_random, &elements);
	asked = NULL;
}

int main(int argc, char **argv)
{
	seed = number("SML_TEST_SEED", 1);
	all_elements = number("SML_ELEMENTS", 10000000);
	if (argc > 1)
		test_select(argv[1]);
	return test_run();
}

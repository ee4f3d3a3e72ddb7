/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exact wire through the library: small elements beside large ones, in every type,
 * collective and form of job. Also contexts with this wire.
 */
#include <stdlib.h>
#include <string.h>

#include "support/ranks.h"
#include "support/test.h"

static const struct sml_options exact = {.size = sizeof(exact), .wire = SML_WIRE_EXACT};

/* Small numbers, but every third number of the first and the last rank is large. */
static double element(const struct rank *rank, size_t i, double large)
{
	bool first = rank->rank == 0, last = rank->rank == rank->n - 1;

	return i % 3 || !(first || last) ? (double)(i % 7 + 1) : first ? large : -large;
}

/* The large numbers cancel, and the other ranks' small numbers remain. */
static double sum_of(const struct rank *rank, size_t i)
{
	return (double)(i % 7 + 1) * (i % 3 ? rank->n : rank->n - 2);
}

static void reduce_doubles(struct rank *rank, size_t count, const struct sml_options *options)
{
	double *data = calloc(count + 1, sizeof(*data));

	for (size_t i = 0; i < count; i++)
		data[i] = element(rank, i, 0x1p1000);
	CHECK(rank, sml_allreduce(rank->context, data, data, count, SML_FLOAT64, SML_SUM, options,
				  NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(rank, data[i] == sum_of(rank, i));
	free(data);
}

static void reduce_floats(struct rank *rank, size_t count, const struct sml_options *options)
{
	float *data = calloc(count + 1, sizeof(*data));

	for (size_t i = 0; i < count; i++)
		data[i] = (float)element(rank, i, 0x1p120);
	CHECK(rank, sml_allreduce(rank->context, data, data, count, SML_FLOAT32, SML_SUM, options,
				  NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(rank, (double)data[i] == sum_of(rank, i));
	free(data);
}

/* Each rank's part of the sums. */
static void scatter_floats(struct rank *rank, size_t count)
{
	size_t all = count * (size_t)rank->n;
	float *send = malloc(4 * all + 4), *recv = malloc(4 * count + 4);

	for (size_t i = 0; i < all; i++)
		send[i] = (float)element(rank, i, 0x1p120);
	CHECK(rank, sml_reduce_scatter(rank->context, send, recv, count, SML_FLOAT32, SML_SUM,
				       &exact, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(rank, (double)recv[i] == sum_of(rank, count * (size_t)rank->rank + i));
	free(send);
	free(recv);
}

static void reduce_exactly(struct rank *rank)
{
	static const size_t counts[] = {0, 1, 5, 44, 300, 1000};

	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		reduce_doubles(rank, counts[c], &exact);
		reduce_floats(rank, counts[c], &exact);
		scatter_floats(rank, counts[c] / 3);
	}
	reduce_doubles(rank, 20001, &exact);
	reduce_floats(rank, 50000, &exact);
	scatter_floats(rank, 7001);
}

TEST(small_elements_are_not_lost_beside_large_ones)
{
	run_job(&(struct job){.n_ranks = 3, .body = reduce_exactly});
	run_job(&(struct job){.n_ranks = 5, .threads = 2, .body = reduce_exactly});
	run_job(&(struct job){.n_ranks = 4, .host_group = true, .body = reduce_exactly});
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = "embedded", .threads = 2, .body = reduce_exactly});
	run_job(&(struct job){.n_ranks = 3,
			      .faults = "drop=50000,duplicate=50000,reorder=50000",
			      .body = reduce_exactly});
}

/* Any finite bits, the same on all ranks. */
static void average_equal(struct rank *rank, enum sml_type type, size_t count)
{
	const size_t bytes = type == SML_FLOAT32 ? 4 : 2;
	const unsigned field = type == SML_FLOAT16 ? 0x7c00 : 0x7f80; /* of the upper half */
	uint8_t *data = malloc(count * bytes), *same = malloc(count * bytes);

	for (size_t i = 0; i < count; i++) {
		uint32_t bits = (uint32_t)(i * 0x9e3779b97f4a7c15u >> 29);

		if ((bits >> 16 & field) == field)
			bits &= ~(1u << 26);
		bits = type == SML_FLOAT32 ? bits : bits >> 16;
		memcpy(data + i * bytes, &bits, bytes);
	}
	memcpy(same, data, count * bytes);
	CHECK(rank,
	      sml_allreduce(rank->context, data, data, count, type, SML_AVG, NULL, NULL) == 0);
	CHECK(rank, memcmp(data, same, count * bytes) == 0);
	free(data);
	free(same);
}

static void average_equals(struct rank *rank)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16};
	static const size_t counts[] = {1, 2, 3, 357, 1000, 70001};

	for (size_t t = 0; t < 3; t++)
		for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
			average_equal(rank, types[t], counts[c]);
}

TEST(averages_of_equal_elements_change_no_bit_by_default)
{
	for (int n = 1; n <= 7; n += 2) {
		run_job(&(struct job){.n_ranks = n, .body = average_equals});
		run_job(&(struct job){.n_ranks = n, .host_group = true, .body = average_equals});
		run_job(&(struct job){
			.n_ranks = n, .switch_address = "embedded", .body = average_equals});
	}
	run_job(&(struct job){.n_ranks = 3,
			      .faults = "drop=20000,duplicate=20000,reorder=20000",
			      .body = average_equals});
}

/* As many ranks as have a sum whose rounding shows, and large elements whose sum is no number. */
TEST(a_switch_with_one_child_leaves_the_division_to_it)
{
	char root_address[64], leaf_address[64];

	serve_at(0, root_address);
	serve_leaf(root_address, leaf_address);
	for (int n = 1; n <= 7; n += 2)
		for (int host_group = 0; host_group < 2; host_group++) {
			run_job(&(struct job){.n_ranks = n,
					      .switch_address = root_address,
					      .host_group = host_group,
					      .body = average_equals});
			run_job(&(struct job){.n_ranks = n,
					      .switch_address = leaf_address,
					      .host_group = host_group,
					      .body = average_equals});
		}
}

/* ---- above hosts and leaves: the large elements are in two parts ---- */

static void reduce_in_parts(void (*body)(struct rank *rank))
{
	char root[64], left[64], right[64];
	const char *const racks[] = {left, left, right, root, right};
	const char *const hosts[] = {NULL, root, left};

	serve_at(0, root);
	serve_leaf(root, left);
	serve_leaf(root, right);
	run_job(&(struct job){.n_ranks = 5, .switch_addresses = racks, .body = body});
	/* A host of three and two ranks, and all of them behind one leaf. */
	for (unsigned i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		run_job(&(struct job){.n_ranks = 5,
				      .switch_address = hosts[i],
				      .host_group = true,
				      .alone = 3 << 3,
				      .body = body});
}

TEST(what_asks_for_exact_sums_is_not_rounded_in_parts)
{
	reduce_in_parts(reduce_exactly);
}

/* ---- as the context's wire ---- */

static void reduce_any_length(struct rank *rank)
{
	reduce_floats(rank, 80000, NULL);
	reduce_doubles(rank, 20001, NULL);
}

TEST(a_context_of_the_exact_wire_takes_any_length)
{
	setenv("SWITCHML_WIRE", "exact", 1);
	run_job(&(struct job){.n_ranks = 4, .body = reduce_any_length});
	reduce_in_parts(reduce_any_length);
	unsetenv("SWITCHML_WIRE");
}

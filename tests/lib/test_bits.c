/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible sums of floats: the bits depend neither on the number of slots or threads, nor on
 * which rank has which part, nor on the form of the job or the size of its packets, nor on loss.
 * Only on narrow wires, and on the exact one, they depend on a tree's switches and on hosts, which
 * round partial sums.
 * The numbers are of such different sizes that rounding shows in every sum. Also int64 and uint8,
 * which have codings of their own.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/control.pb-c.h"
#include "support/ranks.h"
#include "support/test.h"

#define RANKS 5
#define MOST  9001u /* doubles */
#define LOSS  "drop=10000,duplicate=10000,reorder=10000"

/*
 * In the last third, each part has numbers only here and there, as gradients of embeddings: its
 * other lanes do not travel, except through memory that ranks share.
 */
static bool is_sparse(unsigned part, size_t i)
{
	return i >= MOST / 3 * 2 && (i / 600 + part) % RANKS > 1;
}

/* A number that depends on nothing but these. */
static uint64_t mix(uint64_t part, uint64_t i)
{
	uint64_t x = part * 0x9e3779b97f4a7c15 + i * 0xd1b54a32d192ed03 + 1;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Zero, or of either sign, 53 random bits, and up to 2^80 times as large as the next. */
static double double_of(unsigned part, size_t i)
{
	uint64_t x = mix(part, i);

	if (part < RANKS && is_sparse(part, i))
		return 0;
	return ldexp((double)((int64_t)x >> 11), (int)(mix(part + 100, i) % 80) - 40);
}

/* What all jobs of this test have in common, and each changes. */
struct way {
	unsigned shift; /* rank r has part (r + shift) mod RANKS */
	bool several;	/* many calls at once */
	bool all_wide;	/* nothing on wires where partial sums are rounded */
};

static void hash_bytes(struct rank *rank, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rank->hash = rank->hash * 31 + ((const unsigned char *)bytes)[i];
}

static unsigned part_of(const struct rank *rank)
{
	const struct way *way = rank->job->argument;

	return ((unsigned)rank->rank + way->shift) % RANKS;
}

/* One call, or three overlapping calls of the same vector's thirds. */
static void sum_doubles(struct rank *rank, double *data, size_t count, enum sml_op op)
{
	const struct way *way = rank->job->argument;
	size_t each = way->several ? (count + 2) / 3 : count;
	struct sml_request *requests[3];
	unsigned n = 0;

	for (size_t first = 0; first < count; first += each, n++)
		CHECK(rank, sml_allreduce(rank->context, data + first, data + first,
					  count - first < each ? count - first : each, SML_FLOAT64,
					  op, NULL, &requests[n]) == 0);
	while (n > 0)
		CHECK(rank, sml_wait(&requests[--n], 1, -1, NULL) == 0);
}

/* Types that share exponents, on wires of 32, 16 and 8 bits, and as they are. */
static void sum_floats(struct rank *rank, void *data, size_t count)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_BFLOAT16, SML_FLOAT16, SML_FLOAT64};
	static const size_t bytes[] = {4, 2, 2, 8};
	static const enum sml_wire wires[] = {SML_WIRE_INT32, SML_WIRE_INT16, SML_WIRE_INT8,
					      SML_WIRE_EXACT};
	const struct way *way = rank->job->argument;

	for (unsigned t = 0; t < 4; t++)
		for (unsigned w = 0; w < (way->all_wide		    ? 1
					  : types[t] == SML_FLOAT64 ? 2
								    : 4);
		     w++) {
			struct sml_options options = SML_OPTIONS_INIT;

			options.wire = wires[w];
			for (size_t i = 0; i < count; i++) {
				double number = double_of(part_of(rank), i) / 0x1p53;
				float value = (float)number;
				uint32_t whole;
				uint16_t half = (uint16_t)(mix(part_of(rank), i) & 0xbbff);

				memcpy(&whole, &value, 4);
				if (is_sparse(part_of(rank), i))
					half = 0;
				if (types[t] == SML_BFLOAT16)
					half = (uint16_t)(whole >> 16);
				memcpy((char *)data + i * bytes[t],
				       bytes[t] == 8   ? (void *)&number
				       : bytes[t] == 4 ? (void *)&value
						       : (void *)&half,
				       bytes[t]);
			}
			CHECK(rank, sml_allreduce(rank->context, data, data, count, types[t],
						  SML_AVG, &options, NULL) == 0);
			hash_bytes(rank, data, count * bytes[t]);
		}
}

static void sum_everything(struct rank *rank)
{
	static const size_t counts[] = {1, 21, 300, 1053, MOST};
	double *data = malloc(MOST * sizeof(*data));
	int64_t *numbers = (int64_t *)data;
	uint8_t *bytes = (uint8_t *)data;

	for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		for (enum sml_op op = SML_SUM; op <= SML_AVG; op++) {
			for (size_t i = 0; i < counts[c]; i++)
				data[i] = double_of(part_of(rank), i);
			sum_doubles(rank, data, counts[c], op);
			hash_bytes(rank, data, counts[c] * sizeof(*data));
		}
		for (size_t i = 0; i < counts[c]; i++)
			numbers[i] =
				is_sparse(part_of(rank), i) ? 0 : (int64_t)mix(part_of(rank), i);
		CHECK(rank, sml_allreduce(rank->context, numbers, numbers, counts[c], SML_INT64,
					  SML_SUM, NULL, NULL) == 0);
		hash_bytes(rank, numbers, counts[c] * sizeof(*numbers));
		for (size_t i = 0; i < counts[c]; i++)
			bytes[i] = (uint8_t)mix(part_of(rank), i);
		CHECK(rank, sml_allreduce(rank->context, bytes, bytes, counts[c], SML_UINT8,
					  SML_SUM, NULL, NULL) == 0);
		hash_bytes(rank, bytes, counts[c]);
		sum_floats(rank, data, counts[c]);
	}
	free(data);
}

/* The bits of all results of a job like this one. */
static uint32_t bits(struct job job, struct way way)
{
	uint32_t hash = 0;

	job.n_ranks = RANKS;
	job.body = sum_everything;
	job.argument = &way;
	job.hash = &hash;
	run_job(&job);
	return hash;
}

/* ---- the tests ---- */

static char one[64];

/* Without that, the other tests would prove nothing. */
TEST(these_sums_depend_on_the_order_of_additions)
{
	size_t differ = 0;

	for (size_t i = 0; i < MOST; i++) {
		volatile double up = 0, down = 0;

		for (unsigned part = 0; part < RANKS; part++) {
			up += double_of(part, i);
			down += double_of(RANKS - 1 - part, i);
		}
		differ += up != down;
	}
	assert_true(differ > MOST / 10);
}

TEST(bits_depend_neither_on_slots_nor_threads_nor_order)
{
	const struct way plain = {0, false, false};
	uint32_t usual;

	serve_at(0, one);
	usual = bits((struct job){.switch_address = one}, plain);
	for (int slots = 8; slots <= 512; slots *= 8)
		assert_int_equal(bits((struct job){.switch_address = one, .slots = slots}, plain),
				 usual);
	assert_int_equal(bits((struct job){.switch_address = one, .threads = 3}, plain), usual);
	for (unsigned shift = 1; shift < RANKS; shift++)
		assert_int_equal(bits((struct job){.switch_address = one},
				      (struct way){shift, false, false}),
				 usual);
	assert_int_equal(bits((struct job){.switch_address = one, .faults = LOSS}, plain), usual);
}

TEST(bits_do_not_depend_on_the_form)
{
	char two[64], three[64], left[64], right[64], list[256];
	const char *const racks[RANKS] = {left, right, one, left, right};
	/* One host at one of the switches only: so at none. */
	char by_left[130], by_root[130];
	const char *const uneven[RANKS] = {by_left, by_root, by_left, by_root, by_root};

	serve_at(0, one);
	serve_at(0, two);
	serve_at(0, three);
	serve_leaf(one, left);
	serve_leaf(one, right);
	snprintf(list, sizeof(list), "%s,%s,%s", one, two, three);
	snprintf(by_left, sizeof(by_left), "%s,%s", left, two);
	snprintf(by_root, sizeof(by_root), "%s,%s", one, two);
	for (unsigned several = 0; several < 2; several++) {
		const struct way way = {several, several, false}, wide = {several, several, true};
		uint32_t usual = bits((struct job){.switch_address = one}, way);
		uint32_t usual_wide = bits((struct job){.switch_address = one}, wide);
		/* From the fifth on, sums are rounded on the way to where they meet. */
		struct job forms[] = {
			{.switch_address = list},
			{.switch_address = "embedded"},
			{.host_group = false},
			{.host_group = true},
			{.switch_addresses = racks},
			/* As if on two hosts, and on three. */
			{.host_group = true, .alone = 1 << 4},
			{.host_group = true, .alone = 1 << 0 | 1 << 3},
			{.switch_address = one, .host_group = true},
			{.switch_address = list, .host_group = true},
			{.switch_addresses = racks, .host_group = true},
			{.switch_addresses = uneven, .host_group = true},
		};

		for (unsigned f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
			uint32_t same = f < 4 ? usual : bits(forms[f], way);

			assert_int_equal(bits(forms[f], wide), usual_wide);
			assert_int_equal(bits(forms[f], way), same);
			if (!forms[f].switch_address && !forms[f].switch_addresses &&
			    forms[f].host_group && !forms[f].alone)
				continue; /* no packets that faults could lose */
			forms[f].faults = LOSS;
			assert_int_equal(bits(forms[f], way), same);
		}
	}
}

/* Of 64 to 2208 lanes; the last one is the loopback device's. */
TEST(bits_do_not_depend_on_the_size_of_packets)
{
	static const char *const mtus[] = {"324", "400", "1000", "2500", "4000", "9000", "65535"};
	const struct way plain = {0, false, false};
	uint32_t usual;

	serve_at(0, one);
	usual = bits((struct job){.switch_address = one}, plain);
	for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		setenv("SWITCHML_MTU", mtus[i], 1);
		assert_int_equal(bits((struct job){.switch_address = one}, plain), usual);
		assert_int_equal(bits((struct job){.switch_address = "embedded"}, plain), usual);
		assert_int_equal(bits((struct job){.host_group = true}, plain), usual);
		assert_int_equal(bits((struct job){.switch_address = one, .faults = LOSS}, plain),
				 usual);
	}
	setenv("SWITCHML_MTU", "1500", 1);
}

int main(void)
{
	setenv("SWITCHML_MTU", "1500", 1);
	return test_run();
}

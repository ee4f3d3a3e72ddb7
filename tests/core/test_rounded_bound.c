/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bound of docs/internals/numbers.md for sums that switches round: it holds, and it is tight.
 * Elements become lanes, go through the slots of a switch, of leaves, or of hosts of several ranks,
 * and become elements again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/coding.h"
#include "core/pool.h"
#include "lib/host/slots.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define BLOCK	   SML_ROUNDED_BLOCK
#define LANES_MOST (SML_ROUNDED_BLOCK / 2 + 1) /* of int16: a block, and a lane with its shift */
#define MOST	   40u			       /* ranks of a group */
#define MOST_ABOVE 4u			       /* groups */

static const uint32_t widths[] = {16, 8};

enum place { SWITCH, LEAF, HOST };

struct packet {
	struct sml_header header;
	uint32_t lanes[LANES_MOST];
};

/* A group is added up at its place, and a switch adds up the groups, unless there is only one. */
struct job {
	uint32_t width; /* of a lane, in bits */
	enum place place;
	unsigned n_groups, n_ranks[MOST_ABOVE];
	float elements[MOST_ABOVE][MOST][BLOCK];
};

struct sum {
	uint32_t lanes[LANES_MOST];
	double rounded; /* the most that switches on the way can have rounded away, in units */
};

static uint8_t lane_kind_of(uint32_t width)
{
	return width == 8 ? SML_LANE_INT8_ROUNDED : SML_LANE_INT16_ROUNDED;
}

static void add_at_switch(uint32_t width, bool is_leaf, unsigned n, const struct sum *parts,
			  struct sum *sum)
{
	const uint32_t lanes = sml_rounded_lanes(width, 1);
	const struct sml_pool_rules rules = {
		.data_slots = 1,
		.lanes = (uint16_t)lanes,
		.n_ranks = (uint8_t)n,
		.n_shards = 1,
		.is_leaf = is_leaf,
		.rounds = true,
	};
	void *memory = malloc(sml_pool_memory_bytes(&rules));
	struct sml_pool_answer answer;
	enum sml_verdict verdict = SML_VERDICT_MALFORMED;
	struct sml_pool pool;

	assert_non_null(memory);
	sml_pool_init(&pool, &rules, memory);
	for (unsigned rank = 0; rank < n; rank++) {
		struct packet packet = {.header = {.magic_be = sml_be16(SML_WIRE_MAGIC),
						   .version = SML_WIRE_VERSION,
						   .rank = (uint8_t)rank,
						   .lane_kind = lane_kind_of(width),
						   .lanes_be = sml_be16((uint16_t)lanes)}};

		memcpy(packet.lanes, parts[rank].lanes, 4 * lanes);
		verdict = sml_pool_receive(&pool, &packet, SML_HEADER_BYTES + 4 * lanes, &answer);
	}
	assert_int_equal(verdict, is_leaf ? SML_VERDICT_FULL : SML_VERDICT_COMPLETED);
	memcpy(sum->lanes, ((const struct packet *)answer.packet)->lanes, 4 * lanes);
	free(memory);
}

static void add_on_host(uint32_t width, unsigned n, const struct sum *parts, struct sum *sum)
{
	const uint16_t lanes = (uint16_t)sml_rounded_lanes(width, 1);
	const struct sml_host_terms terms = {
		.lanes = lanes, .data_slots = 1, .n_ranks = (uint8_t)n, .goes_up = true};
	const struct sml_contribution in = {
		.lanes = lanes, .op = SML_LANE_SUM, .lane_kind = lane_kind_of(width)};
	size_t bytes = sml_host_bytes(&terms);
	void *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	struct sml_host host = {0};
	uint8_t differs;

	assert_non_null(memory);
	memset(memory, 0, bytes);
	sml_host_lay_out(&host.memory, &terms, memory);
	host.sleepers = host.memory.head;
	for (unsigned rank = 0; rank < n; rank++) {
		host.rank = (uint8_t)rank;
		memcpy(sml_host_row(&host, 0, 0), parts[rank].lanes, 4u * lanes);
		assert_int_equal(sml_host_arrive(&host, &in, 1), rank);
	}
	assert_true(sml_host_add(&host, &in, false, &differs));
	memcpy(sum->lanes, sml_host_result_row(&host, 0, 0), 4u * lanes);
	free(memory);
}

/* The sum of some parts, and what the bound says of it. A single rank's part is passed on. */
static void add_up(uint32_t width, enum place place, unsigned n, const struct sum *parts,
		   struct sum *sum)
{
	double rounded = 0;
	uint8_t shift;

	for (unsigned i = 0; i < n; i++)
		rounded += parts[i].rounded;
	if (place == HOST)
		add_on_host(width, n, parts, sum);
	else
		add_at_switch(width, place == LEAF, n, parts, sum);
	memcpy(&shift, &sum->lanes[sml_rounded_lanes(width, 1) - 1], 1);
	sum->rounded = rounded + (n > 1 ? ldexp(1, shift) - 1 : 0);
}

static unsigned ranks_of(const struct job *job)
{
	unsigned n = 0;

	for (unsigned g = 0; g < job->n_groups; g++)
		n += job->n_ranks[g];
	return n;
}

/* All ranks' exponent of the block. */
static int16_t exponent_of(const struct job *job, const struct sml_code *code)
{
	int16_t exponent = SML_EXPONENT_ZERO, own;

	for (unsigned g = 0; g < job->n_groups; g++)
		for (unsigned r = 0; r < job->n_ranks[g]; r++) {
			sml_code_exponents(code, job->elements[g][r], NULL, BLOCK, &own);
			exponent = own > exponent ? own : exponent;
		}
	return exponent;
}

/* The largest error of the job's 64 elements, as a share of the bound. */
static double share_of_bound(const struct job *job, enum sml_op op)
{
	unsigned n = ranks_of(job), divisor = op == SML_AVG ? n : 1;
	enum sml_wire wire = job->width == 8 ? SML_WIRE_INT8 : SML_WIRE_INT16;
	struct sml_code code =
		sml_code_with_rounding(sml_code_of(SML_FLOAT32, op, wire, (uint16_t)n), 0);
	int bits = (int)job->width - 1;
	int16_t exponent = exponent_of(job, &code);
	struct sum groups[MOST_ABOVE], total;
	float result[BLOCK];
	double most = 0;

	assert_true(code.rounded);
	for (unsigned g = 0; g < job->n_groups; g++) {
		struct sum parts[MOST] = {0};

		for (unsigned r = 0; r < job->n_ranks[g]; r++)
			sml_code_encode(&code, &exponent, 0, job->elements[g][r], NULL, BLOCK,
					parts[r].lanes);
		add_up(job->width, job->place, job->n_ranks[g], parts, &groups[g]);
	}
	if (job->place == SWITCH)
		total = groups[0];
	else
		add_up(job->width, SWITCH, job->n_groups, groups, &total);
	sml_code_decode(&code, &exponent, 0, total.lanes, BLOCK, result);
	for (unsigned i = 0; i < BLOCK; i++) {
		double exact = 0, bound = ldexp(n + total.rounded, exponent - bits) / divisor;

		for (unsigned g = 0; g < job->n_groups; g++)
			for (unsigned r = 0; r < job->n_ranks[g]; r++)
				exact += (double)job->elements[g][r][i];
		/* A float32 has all bits of a sum; those of an average are rounded once more. */
		bound += divisor > 1 ? fabs((double)result[i]) * 0x1p-24 : 0;
		most = fmax(most, fabs((double)result[i] - exact / divisor) / bound);
	}
	return most;
}

/* ---- the worst case ---- */

/* In units of a block whose largest element is just below 2^15, or below 2^7 with int8. */
#define BEFORE_TIE (0.5f - 0x1p-6f) /* is rounded away */

static float limit_of(uint32_t width)
{
	return (float)(1u << (width - 1));
}

/* Becomes one less than the limit. */
static float just_below(uint32_t width)
{
	return limit_of(width) - 0x1p-9f;
}

/*
 * 2^h ranks lose a unit each, because their elements do not fit. With int16, the sum is
 * 2^(15 + h) - 1, which is rounded to 2^(15 + h) - 2^h, because 2^(15 + h) does not fit.
 */
static void fill_worst(struct job *job, unsigned group, unsigned h)
{
	unsigned last = 1u << h;

	job->n_ranks[group] = last + 1;
	for (unsigned r = 0; r < last; r++)
		job->elements[group][r][0] = just_below(job->width);
	job->elements[group][last][0] = (float)(last - 1) + BEFORE_TIE;
}

static double worst_share(uint32_t width, enum place place, unsigned h, enum sml_op op)
{
	static struct job job;

	memset(&job, 0, sizeof(job));
	job.width = width;
	job.place = place;
	job.n_groups = place == SWITCH ? 1 : 3;
	fill_worst(&job, 0, h);
	if (place != SWITCH) {
		/* The switch above has twice as large a sum, again one below what does not fit. */
		fill_worst(&job, 1, h);
		job.n_ranks[2] = 1;
		job.elements[2][0][0] = (float)((2u << h) - 1) + BEFORE_TIE;
	}
	return share_of_bound(&job, op);
}

/* Prints and checks all places and operations with this width and groups of 2^h + 1 ranks. */
static void expect_tight(uint32_t width, unsigned h)
{
	static const char *const names[] = {"a switch", "a tree", "hosts of several"};

	for (enum place place = SWITCH; place <= HOST; place++)
		for (unsigned op = SML_SUM; op <= SML_AVG; op += SML_AVG - SML_SUM) {
			double share = worst_share(width, place, h, (enum sml_op)op);

			printf("int%u, %s, groups of %u, %s: %.1f%% of the bound\n", width,
			       names[place], (1u << h) + 1, op == SML_SUM ? "sum" : "average",
			       100 * share);
			assert_true(share <= 1);
			assert_true(share > 0.9);
		}
}

TEST(the_bound_is_reached_at_a_switch_in_a_tree_and_above_hosts_of_several)
{
	for (unsigned w = 0; w < sizeof(widths) / sizeof(widths[0]); w++)
		for (unsigned h = 3; h <= 5; h++)
			expect_tight(widths[w], h);
}

/* n u / 2 + 2^s u / 2, if no number is close to a limit: every rank has a tie, and so the sum. */
TEST(half_the_bound_is_reached_far_from_the_limits)
{
	static const float even[] = {20000, 80}; /* as far below the limit of its width */

	for (unsigned w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
		static struct job job;

		job = (struct job){
			.width = widths[w], .place = SWITCH, .n_groups = 1, .n_ranks = {32}};
		for (unsigned r = 0; r < 32; r++)
			job.elements[0][r][0] = even[w] + 0.5f;
		job.elements[0][31][0] += 16;
		/* 32 x even + 16 becomes even x 2^5. The bound of share_of_bound() is 32 + 31. */
		assert_true(share_of_bound(&job, SML_SUM) == 32.0 / 63);
	}
}

/* ---- everything else ---- */

static float random_element(uint32_t width, unsigned kind)
{
	float limit = limit_of(width);

	if (kind == 0)
		return (float)((double)limit * random_unit());
	if (kind == 1)
		return random_below(2) ? just_below(width) : -limit + (float)random_below(3) / 2;
	if (kind == 2)
		return (float)random_below((uint32_t)limit - 1) + 0.5f;
	return (float)ldexp(random_unit(), (int)random_below(40) - 20);
}

TEST(the_bound_holds)
{
	static struct job job;
	double most = 0;

	for (unsigned turn = 0; turn < 6000; turn++) {
		job.width = widths[turn / 6 % 2];
		job.place = (enum place)(turn % 3);
		job.n_groups = job.place == SWITCH ? 1 : 1 + random_below(MOST_ABOVE);
		for (unsigned g = 0; g < job.n_groups; g++) {
			unsigned kind = random_below(5);

			job.n_ranks[g] = 1 + random_below(random_below(4) ? 9 : MOST);
			for (unsigned r = 0; r < job.n_ranks[g]; r++)
				for (unsigned i = 0; i < BLOCK; i++)
					job.elements[g][r][i] = random_element(
						job.width, kind == 4 ? random_below(4) : kind);
		}
		most = fmax(most, share_of_bound(&job, turn % 2 ? SML_SUM : SML_AVG));
	}
	printf("the worst of 6,000 drawn jobs: %.1f%% of the bound\n", 100 * most);
	assert_true(most <= 1);
}

TESTS_BETWEEN(seed_is_set, NULL)

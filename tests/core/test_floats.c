/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes of floats at a switch, and where rows share memory: each result is the exact sum, or the
 * exact mean, rounded once, whatever the order of the ranks. The reference is sml_gather_reduce(),
 * which test_gather.c compares with MPFR, for a tenth of the elements, and MPFR for the others.
 */
#include <fenv.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include <mpfr.h>

#include "core/exact.h"
#include "core/gather.h"
#include "core/worker.h"
#include "support/mpfr_reference.h"
#include "support/quantize_random.h"
#include "support/test.h"

#define LANES  70u /* two portions and a part of one, of either size of elements */
#define MOST   (2 * LANES)
#define ROUNDS 440

static const struct {
	enum sml_type type;
	uint8_t lane_kind;
} kinds[] = {{SML_FLOAT32, SML_LANE_FLOAT32},
	     {SML_FLOAT16, SML_LANE_FLOAT16},
	     {SML_BFLOAT16, SML_LANE_BFLOAT16}};

struct packet {
	struct sml_header header;
	uint32_t lanes[LANES];
};

static struct packet packets[MAX_RANKS];
static uint8_t elements[MAX_RANKS][4 * LANES];
static struct sml_pool pool;
static void *memory;

static void open_pool(unsigned n)
{
	const struct sml_pool_rules rules = {.data_slots = 1,
					     .lanes = LANES,
					     .n_ranks = (uint8_t)n,
					     .n_shards = 1,
					     .omits = true,
					     .floats = true,
					     .divisor = (uint16_t)n};

	memory = malloc(sml_pool_memory_bytes(&rules));
	assert_non_null(memory);
	sml_pool_init(&pool, &rules, memory);
	memset(pool.words, 0x5a, 2 * pool.words_stride);
}

static uint32_t count_of(size_t k)
{
	return LANES * 4 / (uint32_t)ref_bytes(kinds[k].type);
}

/* What numbers, infinities and NaN become. */
static void draw(size_t k, unsigned n, unsigned round)
{
	uint32_t count = count_of(k);
	enum sml_type type = kinds[k].type;

	for (unsigned rank = 0; rank < n; rank++)
		fill_random(type, (enum kind)(round % KINDS), elements[rank], count);
	for (uint32_t i = 0; i < count; i++) {
		unsigned a = random_below(n), b = random_below(n);
		double value = ref_load(type, elements[a], i);

		if (round % 3 == 0 && a != b)
			ref_store(type, elements[b], i,
				  random_below(2) ? -value : ldexp(value, -(int)random_below(100)));
		if (round % 10 == 9 && random_below(16) == 0)
			ref_store(type, elements[a], i, random_below(2) ? INFINITY : -INFINITY);
		if (round % 20 == 19 && random_below(16) == 0)
			ref_store(type, elements[b], i, (double)NAN);
	}
}

static void write_packets(size_t k, unsigned n, uint8_t op)
{
	for (unsigned rank = 0; rank < n; rank++) {
		packets[rank].header = (struct sml_header){.magic_be = sml_be16(SML_WIRE_MAGIC),
							   .version = SML_WIRE_VERSION,
							   .rank = (uint8_t)rank,
							   .op = op,
							   .lane_kind = kinds[k].lane_kind,
							   .lanes_be = sml_be16(LANES)};
		sml_gather_encode(kinds[k].type, elements[rank], count_of(k), packets[rank].lanes);
	}
}

/* Are all lanes +0? Then they may be left out. */
static bool is_zero(const struct packet *packet)
{
	for (uint32_t i = 0; i < LANES; i++)
		if (packet->lanes[i] != 0)
			return false;
	return true;
}

/* All ranks, from `first` on, in one of two directions. Returns the result's lanes. */
static const uint32_t *add_up(unsigned n, unsigned first, bool backward, uint32_t use)
{
	struct sml_pool_answer answer = {0};

	for (unsigned i = 0; i < n; i++) {
		struct packet packet = packets[(first + (backward ? n - i : i)) % n];
		uint32_t length = sizeof(packet);

		packet.header.use_be = sml_be32(use);
		if (is_zero(&packet)) {
			packet.header.lane_kind |= SML_LANES_OMITTED;
			length = SML_HEADER_BYTES;
		}
		(void)sml_pool_receive(&pool, &packet, length, &answer);
	}
	assert_non_null(answer.packet);
	return sml_worker_lanes(answer.packet);
}

static void expect(size_t k, unsigned n, unsigned divisor, uint32_t *lanes)
{
	static uint32_t parts[MAX_RANKS * LANES];
	uint8_t result[4 * LANES];

	for (unsigned rank = 0; rank < n; rank++)
		memcpy(parts + rank * LANES, packets[rank].lanes, 4 * LANES);
	sml_gather_reduce(kinds[k].type, parts, count_of(k), n, divisor, result);
	sml_gather_encode(kinds[k].type, result, count_of(k), lanes);
}

static void check_with_mpfr(size_t k, unsigned n, unsigned divisor, const uint32_t *lanes)
{
	uint8_t result[4 * LANES];
	mpfr_t sum;

	mpfr_init2(sum, 400);
	sml_gather_encode(kinds[k].type, lanes, count_of(k), result); /* swaps back */
	for (uint32_t i = 0; i < count_of(k); i++) {
		double got = ref_load(kinds[k].type, result, i), expected;

		mpfr_set_zero(sum, 1);
		for (unsigned rank = 0; rank < n; rank++)
			mpfr_add_d(sum, sum, ref_load(kinds[k].type, elements[rank], i), MPFR_RNDN);
		expected = mpfr_number_p(sum) ? rounded_once(kinds[k].type, sum, divisor)
					      : mpfr_get_d(sum, MPFR_RNDN);
		if (got != expected && !(isnan(got) && isnan(expected)))
			fail_msg("kind %zu, %u ranks, element %u: %a, not %a", k, n, i, got,
				 expected);
	}
	mpfr_clear(sum);
}

/* Some 1.4 million elements. */
TEST(sums_and_means_are_exact_and_rounded_once)
{
	static const unsigned ranks[] = {1, 2, 3, 4, 5, 8, 17, 33, 64};
	uint32_t expected[LANES], row[LANES];

	FOR_EACH(k, kinds)
	FOR_EACH(r, ranks)
	{
		unsigned n = ranks[r];

		open_pool(n);
		for (unsigned round = 0; round < ROUNDS; round++) {
			bool average = round / KINDS % 2;
			unsigned divisor = average ? n : 1;
			const uint32_t *lanes;

			draw(k, n, round);
			write_packets(k, n, average ? SML_LANE_AVG : SML_LANE_SUM);
			expect(k, n, divisor, expected);
			lanes = add_up(n, random_below(n), random_below(2), round);
			assert_memory_equal(lanes, expected, sizeof(expected));
			sml_exact_reduce(kinds[k].lane_kind, divisor, packets[0].lanes,
					 sizeof(packets[0]), n, LANES, row);
			assert_memory_equal(row, expected, sizeof(expected));
			if (round % 4 == 0)
				check_with_mpfr(k, n, divisor, lanes);
		}
		free(memory);
	}
}

/* Every half: alone, half-way to the next one, and a little above or below that. */
TEST(every_half_is_rounded_as_the_reference_does)
{
	static uint16_t rows[3][0x10000], parts[3][0x10000], expected[0x10000], result[0x10000];
	static const double little[] = {0, 1, -1};

	for (size_t k = 1; k < 3; k++)
		FOR_EACH(l, little)
	for (unsigned n = 1; n <= 3; n++) {
		for (uint32_t i = 0; i < 0x10000; i++) {
			double half, way;

			rows[0][i] = (uint16_t)i;
			half = ref_load(kinds[k].type, rows[0], i);
			way = isfinite(half) && half != 0
				      ? ldexp(1, ilogb(half) - formats[kinds[k].type].bits)
				      : 0;
			ref_store(kinds[k].type, rows[1], i, copysign(way, half));
			ref_store(kinds[k].type, rows[2], i,
				  ldexp(little[l], formats[kinds[k].type].lowest - 1));
		}
		for (unsigned row = 0; row < 3; row++)
			sml_gather_encode(kinds[k].type, rows[row], 0x10000, parts[row]);
		for (unsigned divisor = 1; divisor <= 3; divisor++) {
			sml_gather_reduce(kinds[k].type, parts, 0x10000, n, divisor, result);
			sml_gather_encode(kinds[k].type, result, 0x10000, expected);
			sml_exact_reduce(kinds[k].lane_kind, divisor, parts, sizeof(parts[0]), n,
					 0x8000, result);
			assert_memory_equal(result, expected, sizeof(expected));
		}
	}
}

/* Each of all orders of four ranks. */
TEST(the_order_of_ranks_does_not_matter)
{
	static const unsigned orders[][4] = {
		{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1},
		{1, 0, 2, 3}, {1, 0, 3, 2}, {1, 2, 0, 3}, {1, 2, 3, 0}, {1, 3, 0, 2}, {1, 3, 2, 0},
		{2, 0, 1, 3}, {2, 0, 3, 1}, {2, 1, 0, 3}, {2, 1, 3, 0}, {2, 3, 0, 1}, {2, 3, 1, 0},
		{3, 0, 1, 2}, {3, 0, 2, 1}, {3, 1, 0, 2}, {3, 1, 2, 0}, {3, 2, 0, 1}, {3, 2, 1, 0}};
	uint32_t expected[LANES], use = 0;

	open_pool(4);
	FOR_EACH(k, kinds)
	for (unsigned round = 0; round < 40; round++) {
		draw(k, 4, round);
		/* A rank of zeros leaves its lanes out; others have zeros of both signs. */
		if (round % 4 == 3)
			memset(elements[round / 4 % 4], 0, sizeof(elements[0]));
		write_packets(k, 4, SML_LANE_AVG);
		expect(k, 4, 4, expected);
		FOR_EACH(o, orders)
		{
			struct packet before[4];

			memcpy(before, packets, sizeof(before));
			for (unsigned i = 0; i < 4; i++) {
				packets[i] = before[orders[o][i]];
				packets[i].header.rank = (uint8_t)i;
			}
			assert_memory_equal(add_up(4, 0, false, use++), expected, sizeof(expected));
			memcpy(packets, before, sizeof(before));
		}
	}
	free(memory);
}

/* Equal arrays have their own mean. */
TEST(means_of_equal_elements_are_these_elements)
{
	uint32_t use = 0;

	for (unsigned n = 1; n <= MAX_RANKS; n++) {
		open_pool(n);
		use = 0;
		FOR_EACH(k, kinds)
		for (unsigned kind = 0; kind < KINDS; kind++) {
			fill_random(kinds[k].type, (enum kind)kind, elements[0], count_of(k));
			for (unsigned rank = 1; rank < n; rank++)
				memcpy(elements[rank], elements[0], sizeof(elements[0]));
			write_packets(k, n, SML_LANE_AVG);
			assert_memory_equal(add_up(n, 0, false, use++), packets[0].lanes,
					    4 * LANES);
		}
		free(memory);
	}
}

/* Zeros that do not travel are positive. */
TEST(only_negative_zeros_make_a_negative_zero)
{
	for (unsigned zero = 0; zero < 8; zero++) {
		uint32_t sign = zero ? 0 : 0x80000000u;
		const uint32_t *lanes;

		for (unsigned first = 0; first < 3; first++) {
			open_pool(3);
			for (unsigned rank = 0; rank < 3; rank++)
				for (uint32_t i = 0; i < LANES; i++)
					ref_store(SML_FLOAT32, elements[rank], i,
						  zero >> rank & 1 ? 0.0 : -0.0);
			write_packets(0, 3, SML_LANE_SUM);
			lanes = add_up(3, first, false, 0);
			for (uint32_t i = 0; i < LANES; i++)
				assert_int_equal(sml_be32(lanes[i]), sign);
			free(memory);
		}
	}
}

/* A thread has the floating-point modes of its creator, and the modes of ranks may differ. */
TEST(modes_of_the_machine_do_not_matter)
{
	static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
	uint32_t expected[LANES], use = 0;

	open_pool(5);
	FOR_EACH(k, kinds)
	for (unsigned round = 0; round < 60; round++) {
		draw(k, 5, round);
		write_packets(k, 5, SML_LANE_AVG);
		expect(k, 5, 5, expected);
		FOR_EACH(m, modes)
		{
			assert_int_equal(fesetround(modes[m]), 0);
			memcpy(packets[5].lanes, add_up(5, 0, false, use++), sizeof(expected));
			assert_int_equal(fegetround(), modes[m]);
			fesetround(FE_TONEAREST);
			assert_memory_equal(packets[5].lanes, expected, sizeof(expected));
		}
#ifdef __SSE2__
		_mm_setcsr(_mm_getcsr() | 0x8040); /* subnormals count as zeros */
		memcpy(packets[5].lanes, add_up(5, 0, false, use++), sizeof(expected));
		_mm_setcsr(_mm_getcsr() & ~0x8040u);
		assert_memory_equal(packets[5].lanes, expected, sizeof(expected));
#endif
	}
	free(memory);
}

TESTS_BETWEEN(seed_is_set, NULL)

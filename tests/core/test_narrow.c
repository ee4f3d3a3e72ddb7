/* SPDX-License-Identifier: BSD-3-Clause */
/* The promises of docs/internals/numbers.md about uint8, int8, int16 and bool. */
#include "core/quantize.h"
#include "support/quantize_random.h"
#include "support/test.h"

static const enum sml_type narrow_types[] = {SML_UINT8, SML_INT8, SML_INT16, SML_BOOL};

static int32_t narrow_load(enum sml_type type, const void *elements, size_t i)
{
	if (type == SML_INT16)
		return ((const int16_t *)elements)[i];
	if (type == SML_INT8)
		return ((const int8_t *)elements)[i];
	return type == SML_BOOL ? ((const uint8_t *)elements)[i] != 0
				: ((const uint8_t *)elements)[i];
}

static int32_t narrow_wrap(enum sml_type type, int32_t value)
{
	if (type == SML_INT16)
		return (int16_t)value;
	if (type == SML_INT8)
		return (int8_t)value;
	return type == SML_BOOL ? value != 0 : (uint8_t)value;
}

TEST(narrow_integers_wrap_at_their_own_width)
{
	static int16_t elements[MAX_RANKS][COUNT], back[COUNT];
	static uint32_t lanes[COUNT], sums[COUNT], pairs[COUNT], pair_sums[COUNT], most[COUNT];

	for (unsigned round = 0; round < 400; round++) {
		enum sml_type type = narrow_types[round % 4];
		unsigned n = rank_counts[round / 4 % 7];
		bool minimum = round & 64;

		memset(sums, 0, sizeof(sums));
		memset(pair_sums, 0, sizeof(pair_sums));
		for (unsigned r = 0; r < n; r++) {
			for (size_t i = 0; i < COUNT; i++)
				elements[r][i] = (int16_t)random_bits();
			sml_narrow_encode(type, elements[r], COUNT, false, lanes);
			ref_add_lanes(sums, lanes, COUNT);
			sml_narrow_encode_pairs(type, elements[r], COUNT, pairs);
			for (size_t i = 0; i < COUNT; i++)
				ref_put_lane(pair_sums, i, 16,
					     ref_get_lane(pair_sums, i, 16) +
						     ref_get_lane(pairs, i, 16));
			sml_narrow_encode(type, elements[r], COUNT, minimum, lanes);
			if (r == 0)
				memcpy(most, lanes, sizeof(most));
			ref_max_lanes(most, lanes, COUNT);
		}
		for (unsigned way = 0; way < 5; way++) {
			if (way == 0)
				sml_narrow_decode(type, sums, COUNT, false, 1, back);
			else if (way == 1)
				sml_narrow_decode_pairs(type, pair_sums, COUNT, 1, back);
			else if (way == 2)
				sml_narrow_decode(type, sums, COUNT, false, n, back);
			else if (way == 3 && type != SML_INT16 && type != SML_BOOL)
				sml_narrow_decode_pairs(type, pair_sums, COUNT, n, back);
			else if (way == 4)
				sml_narrow_decode(type, most, COUNT, minimum, 1, back);
			else
				continue;
			for (size_t i = 0; i < COUNT; i++) {
				int32_t sum = 0, best = narrow_load(type, elements[0], i);

				for (unsigned r = 0; r < n; r++) {
					int32_t value = narrow_load(type, elements[r], i);

					sum += value;
					if (minimum ? value < best : value > best)
						best = value;
				}
				if (way == 2 || way == 3)
					sum /= (int32_t)n;
				assert_int_equal(narrow_load(type, back, i),
						 way == 4 ? best : narrow_wrap(type, sum));
			}
		}
	}
}

TESTS_BETWEEN(seed_is_set, NULL)

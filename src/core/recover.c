/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes from decoded elements: see recover.h. A lane is decoded by products with positive factors,
 * by quotients and by roundings, and each of these keeps the order of numbers. So a larger lane
 * never becomes a smaller element, and bisection finds a lane for each element, whatever was
 * rounded, overflowed or became subnormal. A block without numbers decodes any lane to the same
 * element.
 *
 * That is not so for sums of narrow integers, which are taken modulo 2^8 or 2^16, nor for codings
 * with several lanes for an element.
 */
#include "core/recover.h"

#include "core/element.h"
#include "core/rounding.h"

/* Elements at once: a multiple of 4, so that each piece begins at a whole lane. */
#define PIECE 64

/* An element's place in the order of its type. -0 comes before +0, because its bits differ. */
static int64_t order_of(enum sml_type type, const void *elements, uint32_t i)
{
	size_t bytes = sml_element_bytes(type);
	unsigned sign = 8 * (unsigned)bytes - 1;
	uint64_t value = bytes == 8   ? ((const sml_any_u64 *)elements)[i]
			 : bytes == 4 ? ((const sml_any_u32 *)elements)[i]
				      : ((const sml_any_u16 *)elements)[i];
	int64_t rest = (int64_t)(value & ~((uint64_t)1 << sign));

	if (type == SML_INT32)
		return (int32_t)value;
	return value >> sign ? -1 - rest : rest;
}

static void put_lane(unsigned width, void *lanes, uint32_t i, int32_t value)
{
	if (width < 32)
		sml_narrow_store(width, lanes, i, (uint32_t)value);
	else
		((sml_any_u32 *)lanes)[i] = sml_be32((uint32_t)value);
}

/* The smallest lanes whose elements are not below these, if there are any. */
static bool recover_piece(const struct sml_code *code, const void *shared, uint64_t first,
			  const void *elements, uint32_t count, void *lanes)
{
	int32_t low[PIECE], high[PIECE];
	uint64_t decoded[PIECE];
	unsigned bits = code->width;

	for (uint32_t i = 0; i < count; i++) {
		high[i] = INT32_MAX >> (32 - bits);
		low[i] = -high[i] - 1;
	}
	for (unsigned step = 0; step < bits; step++) {
		for (uint32_t i = 0; i < count; i++)
			put_lane(bits, lanes, i, (int32_t)(((int64_t)low[i] + high[i]) >> 1));
		sml_code_decode(code, shared, first, lanes, count, decoded);
		for (uint32_t i = 0; i < count; i++) {
			int32_t middle = (int32_t)(((int64_t)low[i] + high[i]) >> 1);

			if (low[i] == high[i])
				continue;
			if (order_of(code->type, decoded, i) < order_of(code->type, elements, i))
				low[i] = middle + 1;
			else
				high[i] = middle;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		put_lane(bits, lanes, i, low[i]);
	sml_code_decode(code, shared, first, lanes, count, decoded);
	for (uint32_t i = 0; i < count; i++)
		if (order_of(code->type, decoded, i) != order_of(code->type, elements, i))
			return false;
	return true;
}

/*
 * A block that was rounded. The smallest shift with which lanes can be found may be smaller than
 * the one that was received. lanes and shift: of the block.
 */
static bool recover_block(const struct sml_code *code, const void *shared, uint64_t first,
			  const void *elements, uint32_t count, uint8_t *lanes, uint8_t *shift)
{
	/* The lanes, and one more for the shift behind them. */
	uint32_t block[SML_ROUNDED_BLOCK * SML_ROUNDED_WIDTH / 32 + 1];
	size_t bytes = SML_ROUNDED_BLOCK * code->width / 8;
	uint8_t *own_shift = (uint8_t *)block + bytes;

	__builtin_memset(block, 0, sizeof(block));
	for (*own_shift = 0; *own_shift <= SML_ROUNDED_SHIFT_MAX; ++*own_shift) {
		if (!recover_piece(code, shared, first, elements, count, block))
			continue;
		__builtin_memcpy(lanes, block, bytes);
		*shift = *own_shift;
		return true;
	}
	return false;
}

static bool recover_rounded(const struct sml_code *code, const void *shared, uint64_t first,
			    const uint8_t *elements, uint32_t count, uint8_t *lanes)
{
	const uint32_t block = SML_ROUNDED_BLOCK, n = sml_rounded_blocks_of(count);
	size_t bytes = sml_element_bytes(code->type), to = code->width / 8;
	uint8_t *shifts = lanes + to * block * sml_code_packet_blocks(code, count);
	struct sml_code alone = *code;

	/* Each block is found as a packet of its own. */
	alone.packet_blocks = 0;
	for (uint32_t b = 0; b < n; b++) {
		uint32_t at = b * block, part = count - at < block ? count - at : block;

		if (!recover_block(&alone, shared, first + at, elements + at * bytes, part,
				   lanes + to * at, shifts + b))
			return false;
	}
	return true;
}

bool sml_code_recover(const struct sml_code *code, const void *shared, uint64_t first,
		      const void *elements, uint32_t count, void *lanes)
{
	size_t element_bytes = sml_element_bytes(code->type), lane_bytes = code->width / 8;
	const uint8_t *from = elements;
	uint8_t *to = lanes;

	sml_assert(sml_code_is_recoverable(code));
	if (code->coding == SML_CODE_BYTES) {
		__builtin_memcpy(lanes, elements, count);
		return true;
	}
	if (code->coding == SML_CODE_RAW) {
		sml_code_encode(code, shared, first, elements, NULL, count, lanes);
		return true;
	}
	if (code->rounded)
		return recover_rounded(code, shared, first, from, count, to);
	if (code->width == 16 && count % 2 != 0)
		put_lane(16, lanes, count, 0);
	for (uint32_t i = 0; i < count; i += PIECE) {
		uint32_t n = count - i < PIECE ? count - i : PIECE;

		if (!recover_piece(code, shared, first + i, from + i * element_bytes, n,
				   to + i * lane_bytes))
			return false;
	}
	return true;
}

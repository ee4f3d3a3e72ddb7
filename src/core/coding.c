/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements as lanes: see coding.h. */
#include "core/coding.h"

#include "core/exact.h"
#include "core/rounding.h"
#include "core/wide.h"

static bool is_narrow(enum sml_type type)
{
	return type == SML_UINT8 || type == SML_INT8 || type == SML_INT16 || type == SML_BOOL;
}

size_t sml_element_bytes(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT64:
	case SML_INT64:
		return 8;
	case SML_FLOAT32:
	case SML_INT32:
		return 4;
	case SML_FLOAT16:
	case SML_BFLOAT16:
	case SML_INT16:
		return 2;
	case SML_BYTE:
	case SML_UINT8:
	case SML_INT8:
	case SML_BOOL:
		return 1;
	}
	return 0;
}

/*
 * The sum of n narrow integers in 16 bits is correct modulo 2^16, which is enough for SUM.
 * An average needs the full sum.
 */
static bool fits_halves(enum sml_type type, enum sml_op op, unsigned n_ranks)
{
	return is_narrow(type) &&
	       (op == SML_SUM || (type != SML_INT16 && n_ranks * 255 <= INT16_MAX));
}

static enum sml_coding coding_of(enum sml_type type, enum sml_op op, enum sml_wire wire,
				 unsigned n_ranks)
{
	bool ordered = op == SML_MAX || op == SML_MIN;

	switch (type) {
	case SML_BYTE:
		return SML_CODE_BYTES;
	case SML_INT64:
		return ordered ? SML_CODE_PAIR : SML_CODE_LIMBS;
	case SML_FLOAT64:
		if (ordered)
			return SML_CODE_PAIR;
		return wire == SML_WIRE_INT64 ? SML_CODE_LIMBS : SML_CODE_FLOAT;
	case SML_FLOAT32:
	case SML_FLOAT16:
	case SML_BFLOAT16:
		if (ordered)
			return SML_CODE_ORDER;
		return wire == SML_WIRE_INT64 ? SML_CODE_LIMBS : SML_CODE_FLOAT;
	case SML_INT32:
	case SML_UINT8:
	case SML_INT8:
	case SML_INT16:
	case SML_BOOL:
		break;
	}
	if (ordered)
		return SML_CODE_ORDER;
	return fits_halves(type, op, n_ranks) ? SML_CODE_HALVES : SML_CODE_INTEGER;
}

static uint8_t width_of(enum sml_coding coding, enum sml_wire wire)
{
	if (coding == SML_CODE_FLOAT && wire == SML_WIRE_INT8)
		return 8;
	return coding == SML_CODE_HALVES || (coding == SML_CODE_FLOAT && wire == SML_WIRE_INT16)
		       ? 16
		       : 32;
}

struct sml_code sml_code_of(enum sml_type type, enum sml_op op, enum sml_wire wire,
			    uint16_t n_ranks)
{
	enum sml_coding coding = coding_of(type, op, wire, n_ranks);

	return (struct sml_code){
		.coding = coding,
		.type = type,
		.width = width_of(coding, wire),
		.exponents =
			coding == SML_CODE_FLOAT || (coding == SML_CODE_LIMBS && type != SML_INT64),
		.minimum = op == SML_MIN,
		.n_ranks = n_ranks,
		.divisor = op == SML_AVG ? n_ranks : 1,
	};
}

struct sml_code sml_code_without_halves(struct sml_code code)
{
	sml_assert(code.coding != SML_CODE_FLOAT || code.width == 32);
	if (code.coding == SML_CODE_HALVES)
		code.coding = SML_CODE_INTEGER;
	code.width = 32;
	return code;
}

struct sml_code sml_code_with_floats(struct sml_code code)
{
	if (code.coding == SML_CODE_FLOAT && code.type != SML_FLOAT64) {
		code.coding = SML_CODE_RAW;
		code.width = (uint8_t)(8 * sml_element_bytes(code.type));
		code.exponents = false;
	}
	return code;
}

struct sml_code sml_code_with_rounding(struct sml_code code, uint32_t full_lanes)
{
	if (code.coding == SML_CODE_FLOAT && code.width < 32) {
		code.rounded = true;
		code.packet_blocks = (uint16_t)sml_rounded_blocks(code.width, full_lanes);
	}
	return code;
}

uint32_t sml_code_packet_blocks(const struct sml_code *code, uint32_t count)
{
	return code->packet_blocks ? code->packet_blocks : sml_rounded_blocks_of(count);
}

uint32_t sml_code_elements(const struct sml_code *code, uint32_t lanes)
{
	if (code->coding == SML_CODE_BYTES)
		return 4 * lanes;
	if (code->coding == SML_CODE_LIMBS)
		return lanes / SML_LIMBS;
	if (code->rounded)
		return SML_ROUNDED_BLOCK * sml_rounded_blocks(code->width, lanes);
	return 32u / code->width * lanes;
}

uint32_t sml_code_lanes(const struct sml_code *code, uint32_t count)
{
	if (code->coding == SML_CODE_BYTES)
		return (count + 3) / 4;
	if (code->coding == SML_CODE_LIMBS)
		return SML_LIMBS * count;
	if (code->rounded)
		return sml_rounded_lanes(code->width, sml_code_packet_blocks(code, count));
	return (count + 32u / code->width - 1) / (32u / code->width);
}

_Static_assert(SML_ROUNDED_BLOCK == 1 << 6 && SML_BLOCK_OF_NARROW == 1 << 6,
	       "narrow blocks are those that are rounded");

void sml_code_exponents(const struct sml_code *code, const void *elements, const float *residual,
			uint64_t count, int16_t *exponents)
{
	uint32_t block = sml_code_block(code);

	if (code->type != SML_FLOAT64) {
		sml_exponents_of(code->type, elements, residual, count, block, exponents);
		return;
	}
	for (uint64_t at = 0; at < count; at += block)
		*exponents++ =
			(int16_t)sml_double_exponent_of((const uint8_t *)elements + 8 * at,
							count - at < block ? count - at : block);
}

/* The part of [first, first + count) that belongs to one block, from `at` on. */
struct part {
	uint32_t at, count;
	int32_t exponent;
};

/* Advance to the next part. Start with {0}. False: there is none. */
static bool next_part(const struct sml_code *code, const int16_t *exponents, uint64_t first,
		      uint32_t count, struct part *part)
{
	unsigned bits = sml_code_block_bits(code);
	uint32_t rest;

	part->at += part->count;
	if (part->at == count)
		return false;
	rest = (1u << bits) - ((uint32_t)(first + part->at) & ((1u << bits) - 1));
	part->count = count - part->at < rest ? count - part->at : rest;
	part->exponent = exponents[(first + part->at) >> bits];
	return true;
}

/*
 * Each of n ranks leaves log2 n bits of its lane for the sum, unless the switch rounds the sum.
 * Then each uses the whole lane, as if it were the only rank; and a sum that was rounded by s bits
 * is one of 2^s ranks.
 */
static uint16_t ranks_in_lane(const struct sml_code *code, unsigned shift)
{
	/* A switch that lies must not lead out of the range. */
	if (shift > SML_ROUNDED_SHIFT_MAX)
		shift = SML_ROUNDED_SHIFT_MAX;
	if (code->rounded)
		return (uint16_t)(1u << shift);
	sml_assert(code->width >= 16);
	return code->n_ranks;
}

/* ---- elements to lanes ---- */

/*
 * The blocks of [first, first + count). With a residual, what a rank rounds away is not lost, and
 * what the switch rounds away is. So lanes of 16 bits are multiples of 2^h, h = ceil(log2 n): the
 * switch rounds sums by at most h bits, and loses nothing. In 8 bits, there would be too little
 * left.
 */
static struct sml_blocks blocks_of(const struct sml_code *code, const int16_t *exponents,
				   const struct sml_feedback *feedback, uint64_t first)
{
	unsigned bits = sml_code_block_bits(code);
	bool coarse = feedback && code->rounded && code->width == 16;

	return (struct sml_blocks){
		.exponents = exponents + (first >> bits),
		.size = 1u << bits,
		.skip = (uint32_t)first & ((1u << bits) - 1),
		.feedback = feedback,
		.spare = coarse ? (uint8_t)sml_headroom_bits(code->n_ranks) : 0,
	};
}

static void encode_doubles(const struct sml_code *code, const int16_t *exponents, uint64_t first,
			   const uint8_t *elements, uint32_t count, uint8_t *lanes)
{
	bool wide = code->width == 32;
	size_t to = code->width / 8;
	struct part p = {0};

	while (next_part(code, exponents, first, count, &p))
		(wide ? sml_double_quantize_int32
		      : sml_double_quantize_int16)(elements + 8 * (size_t)p.at, p.count, p.exponent,
						   ranks_in_lane(code, 0), lanes + p.at * to);
}

static void encode_floats(const struct sml_code *code, const int16_t *exponents, uint64_t first,
			  const uint8_t *elements, const struct sml_feedback *feedback,
			  uint32_t count, uint8_t *lanes)
{
	const struct sml_blocks blocks = blocks_of(code, exponents, feedback, first);
	size_t used = (size_t)count * (code->width / 8);

	if (code->type == SML_FLOAT64)
		encode_doubles(code, exponents, first, elements, count, lanes);
	else
		sml_quantize(code->width, code->type, elements, count, &blocks,
			     ranks_in_lane(code, 0), lanes);
	/* The rest of the last block, blocks without elements, and the shifts of all. */
	if (code->rounded)
		__builtin_memset(lanes + used, 0, 4 * (size_t)sml_code_lanes(code, count) - used);
}

/* Floats of fewer bits travel as doubles. */
static void encode_limbs(const struct sml_code *code, const int16_t *exponents, uint64_t first,
			 const uint8_t *elements, uint32_t count, uint8_t *lanes)
{
	size_t bytes = sml_element_bytes(code->type);
	double doubles[SML_BLOCK_OF_NARROW];
	struct part p = {0};

	while (next_part(code, exponents, first, count, &p)) {
		const void *from = elements + bytes * p.at;

		if (code->type != SML_FLOAT64) {
			sml_exact_widen(code->type, from, p.count, doubles);
			from = doubles;
		}
		sml_double_to_limbs(from, p.count, p.exponent, code->n_ranks,
				    lanes + 4 * (size_t)p.at, count);
	}
}

static void encode_raw(const struct sml_code *code, const void *elements, uint32_t count,
		       void *lanes)
{
	if (code->width == 16)
		sml_narrow_encode_pairs(SML_INT16, elements, count, lanes);
	else
		sml_int32_encode(elements, count, lanes);
}

/* Not inlined: other calls need no such stack. */
static __attribute__((noinline)) void encode_raw_sums(const struct sml_code *code,
						      const void *elements,
						      const struct sml_feedback *feedback,
						      uint32_t count, void *lanes)
{
	uint32_t sums[SML_MAX_LANES];

	sml_assert((size_t)count * code->width <= 8 * sizeof(sums));
	sml_add_residual(code->type, elements, feedback, count, sums);
	encode_raw(code, sums, count, lanes);
}

void sml_code_encode(const struct sml_code *code, const void *shared, uint64_t first,
		     const void *elements, const struct sml_feedback *feedback, uint32_t count,
		     void *lanes)
{
	enum sml_type type = code->type;

	switch (code->coding) {
	case SML_CODE_FLOAT:
		encode_floats(code, shared, first, elements, feedback, count, lanes);
		break;
	case SML_CODE_LIMBS:
		if (type == SML_INT64)
			sml_int64_to_limbs(elements, count, code->n_ranks, lanes);
		else
			encode_limbs(code, shared, first, elements, count, lanes);
		break;
	case SML_CODE_ORDER:
		if (is_narrow(type))
			sml_narrow_encode(type, elements, count, code->minimum, lanes);
		else
			sml_order_encode(type, elements, count, code->minimum, lanes);
		break;
	case SML_CODE_PAIR:
		sml_pair_low(type, elements, count, code->minimum, (const int32_t *)shared + first,
			     lanes);
		break;
	case SML_CODE_INTEGER:
		if (is_narrow(type))
			sml_narrow_encode(type, elements, count, false, lanes);
		else
			sml_int32_encode(elements, count, lanes);
		break;
	case SML_CODE_HALVES:
		sml_narrow_encode_pairs(type, elements, count, lanes);
		break;
	case SML_CODE_RAW:
		if (feedback)
			encode_raw_sums(code, elements, feedback, count, lanes);
		else
			encode_raw(code, elements, count, lanes);
		break;
	case SML_CODE_BYTES:
		__builtin_memcpy(lanes, elements, count);
		break;
	}
}

/* ---- lanes to elements ---- */

static void decode_doubles(const struct sml_code *code, const int16_t *exponents,
			   const uint8_t *shifts, uint64_t first, const uint8_t *lanes,
			   uint32_t count, uint8_t *elements)
{
	bool wide = code->width == 32;
	size_t from = code->width / 8;
	struct part p = {0};

	while (next_part(code, exponents, first, count, &p)) {
		unsigned shift = shifts == NULL ? 0 : shifts[p.at / SML_ROUNDED_BLOCK];

		(wide ? sml_double_dequantize_int32 : sml_double_dequantize_int16)(
			lanes + p.at * from, p.count, p.exponent, ranks_in_lane(code, shift),
			code->divisor, elements + 8 * (size_t)p.at);
	}
}

static void decode_floats(const struct sml_code *code, const int16_t *exponents, uint64_t first,
			  const uint8_t *lanes, uint32_t count, uint8_t *elements)
{
	struct sml_blocks blocks = blocks_of(code, exponents, NULL, first);

	sml_assert(!code->rounded || blocks.skip == 0);
	if (code->rounded)
		blocks.shifts = lanes + (size_t)sml_code_packet_blocks(code, count) *
						SML_ROUNDED_BLOCK * (code->width / 8);
	if (code->type == SML_FLOAT64)
		decode_doubles(code, exponents, blocks.shifts, first, lanes, count, elements);
	else
		sml_dequantize(code->width, code->type, lanes, count, &blocks,
			       ranks_in_lane(code, 0), code->divisor, elements);
}

static void decode_limbs(const struct sml_code *code, const int16_t *exponents, uint64_t first,
			 const uint8_t *lanes, uint32_t count, uint8_t *elements)
{
	size_t bytes = sml_element_bytes(code->type);
	double doubles[SML_BLOCK_OF_NARROW];
	bool narrow = code->type != SML_FLOAT64;
	struct part p = {0};

	while (next_part(code, exponents, first, count, &p)) {
		uint8_t *to = elements + bytes * p.at;

		sml_double_from_limbs(lanes + 4 * (size_t)p.at, count, p.count, p.exponent,
				      code->n_ranks, code->divisor, narrow ? (void *)doubles : to);
		if (narrow)
			sml_exact_narrow(code->type, doubles, p.count, to);
	}
}

void sml_code_decode(const struct sml_code *code, const void *shared, uint64_t first,
		     const void *lanes, uint32_t count, void *elements)
{
	enum sml_type type = code->type;

	switch (code->coding) {
	case SML_CODE_FLOAT:
		decode_floats(code, shared, first, lanes, count, elements);
		break;
	case SML_CODE_LIMBS:
		if (type == SML_INT64)
			sml_int64_from_limbs(lanes, count, code->n_ranks, code->divisor, elements);
		else
			decode_limbs(code, shared, first, lanes, count, elements);
		break;
	case SML_CODE_ORDER:
		if (is_narrow(type))
			sml_narrow_decode(type, lanes, count, code->minimum, 1, elements);
		else
			sml_order_decode(type, lanes, count, code->minimum, elements);
		break;
	case SML_CODE_PAIR:
		sml_pair_decode(type, (const int32_t *)shared + first, lanes, count, code->minimum,
				elements);
		break;
	case SML_CODE_INTEGER:
		if (is_narrow(type))
			sml_narrow_decode(type, lanes, count, false, code->divisor, elements);
		else
			sml_int32_decode(lanes, count, code->divisor, elements);
		break;
	case SML_CODE_HALVES:
		sml_narrow_decode_pairs(type, lanes, count, code->divisor, elements);
		break;
	case SML_CODE_RAW: /* the switch has divided them */
		if (code->width == 16)
			sml_narrow_decode_pairs(SML_INT16, lanes, count, 1, elements);
		else
			sml_int32_decode(lanes, count, 1, elements);
		break;
	case SML_CODE_BYTES:
		__builtin_memcpy(elements, lanes, count);
		break;
	}
}

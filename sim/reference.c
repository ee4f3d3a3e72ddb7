/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's oracle: see reference.h. */
#include "sim/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/quantize.h"

static float draw_float(struct gen *gen, uint32_t range)
{
	int32_t mantissa = (int32_t)gen_below(gen, 2000001) - 1000000;
	int exponent = (int)gen_below(gen, range) - (int)range / 2;

	if (gen_chance(gen, 1, 4000))
		return gen_chance(gen, 1, 2) ? (float)INFINITY : (float)NAN;
	return ldexpf((float)mantissa, exponent - 20);
}

static uint16_t to_half(enum sml_type type, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	if (type == SML_BFLOAT16)
		return (uint16_t)(bits >> 16);
	/* Any float16 will do: sign, five bits of exponent, the first of the mantissa. */
	return (uint16_t)((bits >> 16 & 0x8000) | (bits >> 13 & 0x7fff));
}

void sim_input(const struct sim_world *world, uint32_t call, uint32_t rank, void *elements)
{
	const struct sim_call *c = &world->calls[call];
	size_t bytes = sml_element_bytes(c->type);
	struct gen gen;
	uint32_t range;

	gen_from_seed(&gen, world->seed * 1000003u + call * 1009u + rank + 1);
	range = gen_chance(&gen, 1, 8) ? 240 : 12;
	for (uint32_t i = 0; i < c->count; i++) {
		uint8_t *place = (uint8_t *)elements + i * bytes;
		uint32_t word = gen_below(&gen, UINT32_MAX);
		uint16_t half;
		float value;

		if (c->type == SML_FLOAT32) {
			value = draw_float(&gen, range);
			memcpy(place, &value, 4);
		} else if (bytes == 2) {
			half = to_half(c->type, draw_float(&gen, 12));
			memcpy(place, &half, 2);
		} else {
			memcpy(place, &word, bytes);
		}
	}
}

/* One chunk in block floating point, ranks one after another. */
static void reference_block(const struct sim_call *call, uint32_t count, unsigned n_ranks,
			    const void *const *elements, void *result)
{
	bool narrow = call->wire == SML_WIRE_INT16;
	uint32_t n_lanes = narrow ? (count + 1) / 2 : count;
	uint32_t lanes[2 * SML_MAX_LANES], sums[2 * SML_MAX_LANES] = {0};
	unsigned divisor = call->op == SML_AVG ? n_ranks : 1;
	int32_t exponent = SML_EXPONENT_ZERO;

	for (unsigned r = 0; r < n_ranks; r++) {
		int32_t own = sml_exponent_of(call->type, elements[r], count);

		exponent = own > exponent ? own : exponent;
	}
	for (unsigned r = 0; r < n_ranks; r++) {
		(narrow ? sml_quantize_int16 : sml_quantize_int32)(call->type, elements[r], count,
								   exponent, n_ranks, lanes);
		for (uint32_t i = 0; i < n_lanes; i++) {
			uint32_t a = sml_be32(sums[i]), b = sml_be32(lanes[i]);
			uint32_t sum = a + b;

			if (narrow)
				sum = (uint32_t)(uint16_t)((a >> 16) + (b >> 16)) << 16 |
				      (uint16_t)(a + b);
			sums[i] = sml_be32(sum);
		}
	}
	(narrow ? sml_dequantize_int16 : sml_dequantize_int32)(call->type, sums, count, exponent,
							       n_ranks, divisor, result);
}

static void reference_float_sum(const struct sim_call *call, const struct sml_tensor *tensor,
				unsigned n_ranks, void *const *inputs, uint8_t *result)
{
	size_t bytes = sml_element_bytes(call->type);
	const void *parts[SML_MAX_RANKS];

	if (tensor->form == SML_FORM_GATHER) {
		uint32_t lanes[SML_MAX_LANES];

		for (unsigned r = 0; r < n_ranks; r++)
			sml_gather_encode(call->type, inputs[r], call->count,
					  lanes + r * call->count);
		sml_gather_reduce(call->type, lanes, call->count, n_ranks,
				  call->op == SML_AVG ? n_ranks : 1, result);
		return;
	}
	for (uint32_t first = 0; first < call->count; first += tensor->elements_per_chunk) {
		uint32_t count = call->count - first;

		if (count > tensor->elements_per_chunk)
			count = tensor->elements_per_chunk;
		for (unsigned r = 0; r < n_ranks; r++)
			parts[r] = (const uint8_t *)inputs[r] + first * bytes;
		reference_block(call, count, n_ranks, parts, result + first * bytes);
	}
}

static float half_to_float(enum sml_type type, uint16_t half)
{
	uint32_t bits = (uint32_t)half << 16;
	float value;

	if (type == SML_FLOAT16) {
		int exponent = half >> 10 & 31, mantissa = half & 1023;

		if (exponent == 31)
			value = mantissa ? (float)NAN : (float)INFINITY;
		else if (exponent == 0)
			value = ldexpf((float)mantissa, -24);
		else
			value = ldexpf((float)(mantissa + 1024), exponent - 25);
		return half & 0x8000 ? -value : value;
	}
	memcpy(&value, &bits, 4);
	return value;
}

static float load_float(enum sml_type type, const uint8_t *place)
{
	uint16_t half;
	float value;

	if (type == SML_FLOAT32) {
		memcpy(&value, place, 4);
		return value;
	}
	memcpy(&half, place, 2);
	return half_to_float(type, half);
}

/* Is the element at b above the one at a (for MIN: below)? NaN is above all. */
static bool wins(const struct sim_call *call, const uint8_t *b, const uint8_t *a)
{
	int32_t x, y;
	float f, g;

	if (call->type == SML_INT32) {
		memcpy(&x, b, 4);
		memcpy(&y, a, 4);
		return call->op == SML_MAX ? x > y : x < y;
	}
	f = load_float(call->type, b);
	g = load_float(call->type, a);
	if (isnan(g) || isnan(f))
		return isnan(f) && !isnan(g);
	if (f == g) /* -0 is below +0 */
		return call->op == SML_MAX ? signbit(g) && !signbit(f) : signbit(f) && !signbit(g);
	return call->op == SML_MAX ? f > g : f < g;
}

static void reference_element(const struct sim_call *call, unsigned n_ranks, void *const *inputs,
			      size_t at, size_t bytes, uint8_t *result)
{
	uint32_t sum = 0, word;
	int32_t value;

	memcpy(result, (const uint8_t *)inputs[0] + at, bytes);
	if (call->op == SML_MAX || call->op == SML_MIN) {
		for (unsigned r = 1; r < n_ranks; r++)
			if (wins(call, (const uint8_t *)inputs[r] + at, result))
				memcpy(result, (const uint8_t *)inputs[r] + at, bytes);
		return;
	}
	for (unsigned r = 0; r < n_ranks; r++) {
		memcpy(&word, (const uint8_t *)inputs[r] + at, 4);
		sum += word;
	}
	value = (int32_t)sum;
	if (call->op == SML_AVG)
		value /= (int32_t)n_ranks;
	memcpy(result, &value, 4);
}

void sim_reference(const struct sim_world *world, const struct sim_call *call,
		   const struct sml_tensor *tensor, void *const *inputs, void *result)
{
	size_t bytes = sml_element_bytes(call->type);
	uint32_t part = call->count / world->n_ranks;

	if (call->count == 0)
		return;
	if (call->collective == SML_BROADCAST) {
		memcpy(result, inputs[call->root], call->count * bytes);
	} else if (call->collective == SML_ALLGATHER) {
		for (uint32_t r = 0; r < world->n_ranks; r++)
			memcpy((uint8_t *)result + r * part * bytes,
			       (const uint8_t *)inputs[r] + r * part * bytes, part * bytes);
	} else if (tensor->coding == SML_CODE_FLOAT) {
		reference_float_sum(call, tensor, world->n_ranks, inputs, result);
	} else {
		for (uint32_t i = 0; i < call->count; i++)
			reference_element(call, world->n_ranks, inputs, i * bytes, bytes,
					  (uint8_t *)result + i * bytes);
	}
}

bool sim_equal(enum sml_type type, const void *a, const void *b, size_t count)
{
	size_t bytes = sml_element_bytes(type);

	if (memcmp(a, b, count * bytes) == 0)
		return true;
	if (type == SML_INT32 || type == SML_BYTE)
		return false;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *x = (const uint8_t *)a + i * bytes,
			      *y = (const uint8_t *)b + i * bytes;

		if (memcmp(x, y, bytes) != 0 &&
		    !(isnan(load_float(type, x)) && isnan(load_float(type, y))))
			return false;
	}
	return true;
}

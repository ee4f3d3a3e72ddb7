/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator's oracle: see reference.h. */
#include "sim/reference.h"

#include <math.h>
#include <string.h>

#include "core/element.h"
#include "core/exact.h"
#include "core/gather.h"
#include "core/quantize.h"
#include "core/wide.h"
#include "sim/floats.h"

static float draw_float(struct gen *gen, uint32_t range)
{
	int32_t mantissa = (int32_t)gen_below(gen, 2000001) - 1000000;
	int exponent = (int)gen_below(gen, range) - (int)range / 2;

	if (gen_chance(gen, 1, 4000))
		return gen_chance(gen, 1, 2) ? (float)INFINITY : (float)NAN;
	return ldexpf((float)mantissa, exponent - 20);
}

/* A mantissa of 53 bits. */
static double draw_double(struct gen *gen, uint32_t range)
{
	double tail = (double)gen_below(gen, 1u << 22) * 0x1p-43;

	return (double)draw_float(gen, range) * (1 + tail);
}

static uint16_t to_half(enum sml_type type, float value)
{
	uint32_t bits;

	memcpy(&bits, &value, 4);
	if (type == SML_BFLOAT16)
		return (uint16_t)(bits >> 16);
	/* Any float16 is fine: sign, five bits of exponent, the first bit of the mantissa. */
	return (uint16_t)((bits >> 16 & 0x8000) | (bits >> 13 & 0x7fff));
}

/*
 * In every fourth call, all ranks have long runs of zeros: layers that are frozen. In another, each
 * rank has numbers elsewhere: rows of an embedding. No draw of its own: the other elements of a
 * seed stay as they were.
 */
static bool is_zero(const struct sim_call *call, uint32_t rank, uint32_t i)
{
	if (call->count % 4 == 3)
		return (i / 512 + rank) % 3 != 0;
	return call->count % 4 == 1 && i / 2048 % 2 == 0;
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

		if (c->type == SML_FLOAT64) {
			double wide = draw_double(&gen, range);

			memcpy(place, &wide, 8);
		} else if (bytes == 8) {
			uint64_t both = (uint64_t)word << 32 | gen_below(&gen, UINT32_MAX);

			memcpy(place, &both, 8);
		} else if (c->type == SML_FLOAT32) {
			value = draw_float(&gen, range);
			memcpy(place, &value, 4);
		} else if (c->type == SML_FLOAT16 || c->type == SML_BFLOAT16) {
			half = to_half(c->type, draw_float(&gen, 12));
			memcpy(place, &half, 2);
		} else {
			memcpy(place, &word, bytes);
		}
		if (is_zero(c, rank, i))
			memset(place, 0, bytes);
	}
}

static int32_t exponent_of(enum sml_type type, const void *elements, uint32_t count)
{
	return type == SML_FLOAT64 ? sml_double_exponent_of(elements, count)
				   : sml_exponent_of(type, elements, count);
}

/* One element of a block on the wire of float64, computed in 128-bit integers instead of limbs. */
static double double_sum(const struct sim_call *call, uint32_t i, unsigned n_ranks,
			 int32_t exponent, const void *const *elements)
{
	int32_t bits = sml_limb_bits(n_ranks);
	__extension__ __int128 sum = 0;

	if (exponent == SML_EXPONENT_ZERO || exponent == SML_EXPONENT_NONFINITE)
		return exponent == SML_EXPONENT_ZERO ? 0 : (double)NAN;
	for (unsigned r = 0; r < n_ranks; r++)
		sum += (int64_t)rint(ldexp(ref_load(call->type, elements[r], i), bits - exponent));
	return ldexp((double)sum / (call->op == SML_AVG ? n_ranks : 1), exponent - bits);
}

static void reference_double_block(const struct sim_call *call, uint32_t count, unsigned n_ranks,
				   int32_t exponent, const void *const *elements, uint8_t *result)
{
	size_t bytes = sml_element_bytes(call->type);

	for (uint32_t i = 0; i < count; i++) {
		double sum = double_sum(call, i, n_ranks, exponent, elements);

		if (call->type == SML_FLOAT64)
			memcpy(result + 8 * i, &sum, 8);
		else
			sml_exact_narrow(call->type, &sum, 1, result + bytes * i);
	}
}

/* Bits of a float's lane. */
static int width_of(enum sml_wire wire)
{
	return wire == SML_WIRE_INT8 ? 8 : wire == SML_WIRE_INT16 ? 16 : 32;
}

static void to_lanes(const struct sim_call *call, const void *elements, uint32_t count,
		     int32_t exponent, unsigned n_ranks, void *lanes)
{
	int width = width_of(call->wire);

	if (call->type == SML_FLOAT64)
		(width < 32 ? sml_double_quantize_int16
			    : sml_double_quantize_int32)(elements, count, exponent, n_ranks, lanes);
	else
		quantize(width, call->type, elements, count, exponent, n_ranks, lanes);
}

static void from_lanes(const struct sim_call *call, const void *lanes, uint32_t count,
		       int32_t exponent, unsigned n_ranks, void *result)
{
	unsigned divisor = call->op == SML_AVG ? n_ranks : 1;
	int width = width_of(call->wire);

	if (call->type == SML_FLOAT64)
		(width < 32 ? sml_double_dequantize_int16 : sml_double_dequantize_int32)(
			lanes, count, exponent, n_ranks, divisor, result);
	else
		dequantize(width, call->type, lanes, count, exponent, n_ranks, divisor, result);
}

static int32_t shared_exponent(const struct sim_call *call, uint32_t count, unsigned n_ranks,
			       const void *const *elements)
{
	int32_t exponent = SML_EXPONENT_ZERO;

	for (unsigned r = 0; r < n_ranks; r++) {
		int32_t own = exponent_of(call->type, elements[r], count);

		exponent = own > exponent ? own : exponent;
	}
	return exponent;
}

/* core/rounding.h's rule, with divisions in doubles. The sums become multiples of 2^result. */
static unsigned round_sums(int width, uint32_t count, double *sums)
{
	const double limit = ldexp(1, width - 1);
	int shift = 0;

	for (uint32_t i = 0; i < count; i++)
		while (sums[i] >= ldexp(limit, shift) || sums[i] < -ldexp(limit, shift))
			shift++;
	for (uint32_t i = 0; i < count; i++)
		sums[i] = ldexp(fmin(nearbyint(ldexp(sums[i], -shift)), limit - 1), shift);
	return (unsigned)shift;
}

/* One block whose sums each switch of the tree rounds. Leaves follow their parents there. */
static void reference_rounded_block(const struct sim_call *call, uint32_t count, unsigned n_ranks,
				    const struct sim_tree *tree, const void *const *elements,
				    void *result)
{
	uint16_t lanes[SML_ROUNDED_BLOCK + 1];
	double sums[SIM_MAX_NODES][SML_ROUNDED_BLOCK] = {0};
	unsigned shift, divisor = call->op == SML_AVG ? n_ranks : 1;
	int width = width_of(call->wire);
	int32_t exponent = shared_exponent(call, count, n_ranks, elements);

	for (unsigned r = 0; r < n_ranks; r++) {
		to_lanes(call, elements[r], count, exponent, 1, lanes);
		for (uint32_t i = 0; i < count; i++)
			sums[tree->node_of_rank[r]][i] +=
				sml_narrow_load((unsigned)width, lanes, i);
	}
	for (unsigned node = tree->n_nodes - 1u; node > 0; node--) {
		(void)round_sums(width, count, sums[node]);
		for (uint32_t i = 0; i < count; i++)
			sums[tree->parent[node]][i] += sums[node][i];
	}
	shift = round_sums(width, count, sums[0]);
	for (uint32_t i = 0; i < count; i++)
		sml_narrow_store((unsigned)width, lanes, i,
				 (uint32_t)(int32_t)ldexp(sums[0][i], -(int)shift));
	if (call->type == SML_FLOAT64)
		sml_double_dequantize_int16(lanes, count, exponent, 1u << shift, divisor, result);
	else
		dequantize(width, call->type, lanes, count, exponent, 1u << shift, divisor, result);
}

/* One block of block floating point; the ranks are added one after another. */
static void reference_block(const struct sim_call *call, uint32_t count, unsigned n_ranks,
			    const void *const *elements, void *result)
{
	bool narrow = call->wire == SML_WIRE_INT16;
	uint32_t n_lanes = narrow ? (count + 1) / 2 : count;
	uint32_t lanes[2 * SML_MAX_LANES], sums[2 * SML_MAX_LANES] = {0};
	int32_t exponent = shared_exponent(call, count, n_ranks, elements);

	if (call->wire == SML_WIRE_INT64) {
		reference_double_block(call, count, n_ranks, exponent, elements, result);
		return;
	}
	for (unsigned r = 0; r < n_ranks; r++) {
		to_lanes(call, elements[r], count, exponent, n_ranks, lanes);
		for (uint32_t i = 0; i < n_lanes; i++) {
			uint32_t a = sml_be32(sums[i]), b = sml_be32(lanes[i]);
			uint32_t sum = a + b;

			if (narrow)
				sum = (uint32_t)(uint16_t)((a >> 16) + (b >> 16)) << 16 |
				      (uint16_t)(a + b);
			sums[i] = sml_be32(sum);
		}
	}
	from_lanes(call, sums, count, exponent, n_ranks, result);
}

/* One element at a time, so that the result does not depend on how packets hold elements. */
static void reference_gather(const struct sim_call *call, unsigned n_ranks, void *const *inputs,
			     uint8_t *result)
{
	uint32_t lanes[2 * SML_MAX_WORLD], n = sml_gather_lanes(call->type, 1);
	uint32_t divisor = call->op == SML_AVG ? n_ranks : 1;
	size_t bytes = sml_element_bytes(call->type);

	for (size_t at = 0; at < call->count * bytes; at += bytes) {
		for (unsigned r = 0; r < n_ranks; r++)
			sml_gather_encode(call->type, (const uint8_t *)inputs[r] + at, 1,
					  lanes + r * n);
		sml_gather_reduce(call->type, lanes, 1, n_ranks, divisor, result + at);
	}
}

/*
 * One float, at a place in bytes. Each switch rounds its sum once. It also divides it where all
 * contributions first come together: a switch with one child passes on what it gets.
 */
static void reference_raw(const struct sim_call *call, unsigned n_ranks,
			  const struct sim_tree *tree, void *const *inputs, size_t at, void *result)
{
	uint32_t parts[SIM_MAX_NODES][SML_MAX_CHILDREN];
	unsigned n[SIM_MAX_NODES] = {0}, below[SIM_MAX_NODES] = {0};
	uint32_t sum;

	for (unsigned r = 0; r < n_ranks; r++) {
		unsigned node = tree->node_of_rank[r];

		below[node]++;
		sml_gather_encode(call->type, (const uint8_t *)inputs[r] + at, 1,
				  &parts[node][n[node]++]);
	}
	for (unsigned node = tree->n_nodes - 1u; node > 0; node--) {
		unsigned parent = tree->parent[node];
		bool divides = call->op == SML_AVG && below[node] == n_ranks && n[node] > 1;

		if (n[node] == 0)
			continue;
		below[parent] += below[node];
		sml_gather_reduce(call->type, parts[node], 1, n[node], divides ? n_ranks : 1, &sum);
		sml_gather_encode(call->type, &sum, 1, &parts[parent][n[parent]++]);
	}
	sml_gather_reduce(call->type, parts[0], 1, n[0],
			  call->op == SML_AVG && n[0] > 1 ? n_ranks : 1, result);
}

static void reference_raws(const struct sim_world *world, const struct sim_call *call,
			   const struct sim_tree *tree, void *const *inputs, size_t first,
			   size_t count, uint8_t *result)
{
	size_t bytes = sml_element_bytes(call->type);

	for (size_t i = first; i < first + count; i++)
		reference_raw(call, world->n_ranks, tree, inputs, i * bytes, result + i * bytes);
}

/* The elements of the call's block that begins at `first`. tree: not NULL if switches round it. */
static void reference_block_at(const struct sim_world *world, const struct sim_call *call,
			       const struct sim_tree *tree, uint32_t first, uint32_t block,
			       void *const *inputs, uint8_t *result)
{
	uint32_t count = call->count - first < block ? call->count - first : block;
	size_t at = first * sml_element_bytes(call->type);
	const void *parts[SML_MAX_WORLD];

	for (unsigned r = 0; r < world->n_ranks; r++)
		parts[r] = (const uint8_t *)inputs[r] + at;
	if (tree)
		reference_rounded_block(call, count, world->n_ranks, tree, parts, result + at);
	else
		reference_block(call, count, world->n_ranks, parts, result + at);
}

static void reference_float_sum(const struct sim_world *world, const struct sim_call *call,
				const struct sml_tensor *tensor, void *const *inputs,
				uint8_t *result)
{
	uint32_t block = sml_code_block(&tensor->code);
	struct sim_tree tree;

	if (tensor->form == SML_FORM_GATHER) {
		reference_gather(call, world->n_ranks, inputs, result);
		return;
	}
	if (tensor->code.rounded || tensor->code.coding == SML_CODE_RAW)
		sim_tree_draw(world, 0, 1, &tree);
	if (tensor->code.coding == SML_CODE_RAW) {
		reference_raws(world, call, &tree, inputs, 0, call->count, result);
		return;
	}
	for (uint32_t first = 0; first < call->count; first += block)
		reference_block_at(world, call, tensor->code.rounded ? &tree : NULL, first, block,
				   inputs, result);
}

static bool is_float(enum sml_type type)
{
	return type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16 ||
	       type == SML_FLOAT64;
}

static int64_t load_integer(enum sml_type type, const uint8_t *place)
{
	int64_t wide;
	int32_t word;
	int16_t half;

	switch (type) {
	case SML_INT64:
		memcpy(&wide, place, 8);
		return wide;
	case SML_INT16:
		memcpy(&half, place, 2);
		return half;
	case SML_UINT8:
		return *place;
	case SML_INT8:
		return (int8_t)*place;
	case SML_BOOL:
		return *place != 0;
	default:
		memcpy(&word, place, 4);
		return word;
	}
}

/* Modulo the type's own width. */
static void store_integer(enum sml_type type, int64_t value, uint8_t *place)
{
	if (type == SML_BOOL)
		value = value != 0;
	/* The lower bytes come first. */
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the simulator's oracle");
	memcpy(place, &value, sml_element_bytes(type));
}

/* Is the element at b above the one at a (for MIN: below)? NaN is above everything. */
static bool wins(const struct sim_call *call, const uint8_t *b, const uint8_t *a)
{
	double f, g;

	if (!is_float(call->type)) {
		int64_t x = load_integer(call->type, b), y = load_integer(call->type, a);

		return call->op == SML_MAX ? x > y : x < y;
	}
	f = ref_load(call->type, b, 0);
	g = ref_load(call->type, a, 0);
	if (isnan(g) || isnan(f))
		return isnan(f) && !isnan(g);
	if (f == g) /* -0 is below +0 */
		return call->op == SML_MAX ? signbit(g) && !signbit(f) : signbit(f) && !signbit(g);
	return call->op == SML_MAX ? f > g : f < g;
}

static void reference_element(const struct sim_call *call, unsigned n_ranks, void *const *inputs,
			      size_t at, size_t bytes, uint8_t *result)
{
	uint64_t sum = 0;
	int64_t value;

	memcpy(result, (const uint8_t *)inputs[0] + at, bytes);
	if (call->op == SML_MAX || call->op == SML_MIN) {
		for (unsigned r = 1; r < n_ranks; r++)
			if (wins(call, (const uint8_t *)inputs[r] + at, result))
				memcpy(result, (const uint8_t *)inputs[r] + at, bytes);
		if (call->type == SML_BOOL)
			*result = *result != 0;
		return;
	}
	for (unsigned r = 0; r < n_ranks; r++)
		sum += (uint64_t)load_integer(call->type, (const uint8_t *)inputs[r] + at);
	value = call->type == SML_INT32 ? (int64_t)(int32_t)sum : (int64_t)sum;
	if (call->op == SML_AVG)
		value /= (int64_t)n_ranks;
	store_integer(call->type, value, result);
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
	} else if (is_float(call->type) && call->op != SML_MAX && call->op != SML_MIN) {
		reference_float_sum(world, call, tensor, inputs, result);
	} else {
		for (uint32_t i = 0; i < call->count; i++)
			reference_element(call, world->n_ranks, inputs, i * bytes, bytes,
					  (uint8_t *)result + i * bytes);
	}
}

bool sim_is_of_tree(const struct sim_world *world, const struct sim_call *call,
		    const struct sim_tree *tree, void *const *inputs, const void *got, size_t first,
		    size_t count, void *result)
{
	size_t bytes = sml_element_bytes(call->type);

	if (call->wire == SML_WIRE_EXACT)
		reference_raws(world, call, tree, inputs, first, count, result);
	else
		reference_block_at(world, call, tree,
				   (uint32_t)(first / SML_ROUNDED_BLOCK) * SML_ROUNDED_BLOCK,
				   SML_ROUNDED_BLOCK, inputs, result);
	return sim_equal(call->type, (const uint8_t *)got + first * bytes,
			 (const uint8_t *)result + first * bytes, count);
}

bool sim_equal(enum sml_type type, const void *a, const void *b, size_t count)
{
	size_t bytes = sml_element_bytes(type);

	if (memcmp(a, b, count * bytes) == 0)
		return true;
	if (!is_float(type))
		return false;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *x = (const uint8_t *)a + i * bytes,
			      *y = (const uint8_t *)b + i * bytes;

		if (memcmp(x, y, bytes) != 0 &&
		    !(isnan(ref_load(type, x, 0)) && isnan(ref_load(type, y, 0))))
			return false;
	}
	return true;
}

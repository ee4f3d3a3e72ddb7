/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors as chunks: see tensor.h for the forms. */
#include "core/tensor.h"

#include "core/quantize.h"
#include "core/wide.h"

/* float32 that half a second-level cache or so holds. */
#define BLOCK_ELEMENTS (128u << 10)

#define ROUND_UP_8(n) (((n) + 7) & ~(size_t)7)

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

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
 * The sum of n narrow integers in 16 bits is right modulo 2^16, which is enough for SUM.
 * An average needs the sum itself.
 */
static bool fits_halves(const struct sml_tensor_spec *spec, unsigned n_ranks)
{
	return is_narrow(spec->type) &&
	       (spec->op == SML_SUM || (spec->type != SML_INT16 && n_ranks * 255 <= INT16_MAX));
}

static enum sml_coding coding_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	bool ordered = spec->op == SML_MAX || spec->op == SML_MIN;

	switch (spec->type) {
	case SML_BYTE:
		return SML_CODE_BYTES;
	case SML_INT64:
		return ordered ? SML_CODE_PAIR : SML_CODE_LIMBS;
	case SML_FLOAT64:
		if (ordered)
			return SML_CODE_PAIR;
		return spec->wire == SML_WIRE_INT64 ? SML_CODE_LIMBS : SML_CODE_FLOAT;
	case SML_FLOAT32:
	case SML_FLOAT16:
	case SML_BFLOAT16:
		return ordered ? SML_CODE_ORDER : SML_CODE_FLOAT;
	case SML_INT32:
	case SML_UINT8:
	case SML_INT8:
	case SML_INT16:
	case SML_BOOL:
		break;
	}
	if (ordered)
		return SML_CODE_ORDER;
	return fits_halves(spec, shape->n_ranks) ? SML_CODE_HALVES : SML_CODE_INTEGER;
}

static bool has_exponents(const struct sml_tensor_spec *spec, enum sml_coding coding)
{
	return coding == SML_CODE_FLOAT || (coding == SML_CODE_LIMBS && spec->type == SML_FLOAT64);
}

static bool packs_halves(const struct sml_tensor_spec *spec, enum sml_coding coding)
{
	return coding == SML_CODE_HALVES ||
	       (coding == SML_CODE_FLOAT && spec->wire == SML_WIRE_INT16);
}

static uint32_t elements_per_chunk(const struct sml_tensor_spec *spec,
				   const struct sml_shape *shape)
{
	enum sml_coding coding = coding_of(spec, shape);

	if (coding == SML_CODE_BYTES)
		return 4u * shape->lanes;
	if (coding == SML_CODE_LIMBS)
		return shape->lanes / SML_LIMBS;
	return packs_halves(spec, coding) ? 2u * shape->lanes : shape->lanes;
}

/* Lanes of an element whose bits are gathered as they are. */
static uint32_t gathered_lanes(enum sml_type type)
{
	return type == SML_FLOAT64 ? 2 : 1;
}

static enum sml_form form_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	enum sml_coding coding = coding_of(spec, shape);
	uint32_t gathered = shape->lanes / shape->n_ranks / gathered_lanes(spec->type);

	if (spec->count == 0)
		return SML_FORM_EMPTY;
	if (has_exponents(spec, coding))
		return spec->count <= gathered ? SML_FORM_GATHER : SML_FORM_EXPONENT;
	/* A pair's lower halves depend on the upper ones: it takes two packets at least. */
	return coding != SML_CODE_PAIR && spec->count <= elements_per_chunk(spec, shape)
		       ? SML_FORM_SMALL
		       : SML_FORM_PLAIN;
}

static uint32_t n_data_chunks(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	enum sml_form form = form_of(spec, shape);

	if (form != SML_FORM_EXPONENT && form != SML_FORM_PLAIN)
		return 0;
	return (uint32_t)div_up(spec->count, elements_per_chunk(spec, shape)) *
	       (coding_of(spec, shape) == SML_CODE_PAIR ? 2 : 1);
}

uint32_t sml_tensor_block_chunks(uint32_t lanes)
{
	uint32_t chunks = 8;

	if ((uint64_t)lanes * lanes <= BLOCK_ELEMENTS)
		return lanes;
	/* A power of two fills its packet: see sml_lanes_round(). */
	while (2 * chunks * lanes <= BLOCK_ELEMENTS)
		chunks *= 2;
	return chunks;
}

static uint32_t n_head_chunks(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	if (form_of(spec, shape) != SML_FORM_EXPONENT)
		return 1;
	return (uint32_t)div_up(n_data_chunks(spec, shape), sml_tensor_block_chunks(shape->lanes));
}

static uint32_t digest_of(const struct sml_tensor_spec *spec, uint32_t number)
{
	uint32_t hash = sml_hash_step(0, number);

	hash = sml_hash_step(hash, (uint32_t)spec->count);
	hash = sml_hash_step(hash, (uint32_t)(spec->count >> 32));
	hash = sml_hash_step(hash, (uint32_t)spec->collective << 24 | (uint32_t)spec->type << 16 |
					   (uint32_t)spec->op << 8 | (uint32_t)spec->wire);
	return sml_hash_step(hash, spec->root);
}

/* Exponents, or the upper halves of a pair's results. */
static size_t numbers_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	bool pair = coding_of(spec, shape) == SML_CODE_PAIR;

	return ROUND_UP_8(4 * (pair ? (size_t)spec->count : n_data_chunks(spec, shape)));
}

size_t sml_tensor_memory_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	size_t data = n_data_chunks(spec, shape);

	return numbers_bytes(spec, shape) + ROUND_UP_8(data) +
	       ROUND_UP_8(n_head_chunks(spec, shape));
}

void sml_tensor_init(struct sml_tensor *tensor, const struct sml_tensor_spec *spec,
		     const struct sml_shape *shape, struct sml_sequence *sequence, void *memory)
{
	uint32_t n_head = n_head_chunks(spec, shape);
	uint32_t n_data = n_data_chunks(spec, shape);
	uint8_t *bytes = memory;

	*tensor = (struct sml_tensor){
		.spec = *spec,
		.shape = *shape,
		.form = form_of(spec, shape),
		.coding = coding_of(spec, shape),
		.number = sequence->number,
		.digest = digest_of(spec, sequence->number),
		.elements_per_chunk = elements_per_chunk(spec, shape),
		.block_chunks = sml_tensor_block_chunks(shape->lanes),
		.window = {{(uint32_t)sequence->next[SML_HEAD], n_head},
			   {(uint32_t)sequence->next[SML_DATA], n_data}},
		.first = {sequence->next[SML_HEAD], sequence->next[SML_DATA]},
		.exponents = memory,
		.highs = memory,
		.left = n_head + n_data,
	};
	tensor->progress[SML_DATA] = bytes + numbers_bytes(spec, shape);
	tensor->progress[SML_HEAD] = tensor->progress[SML_DATA] + ROUND_UP_8(n_data);
	__builtin_memset(tensor->progress[SML_DATA], SML_CHUNK_NEW, n_data);
	__builtin_memset(tensor->progress[SML_HEAD], SML_CHUNK_NEW, n_head);
	sequence->number++;
	sequence->next[SML_HEAD] += n_head;
	sequence->next[SML_DATA] += n_data;
}

struct sml_window sml_tensor_stripe_window(const struct sml_tensor *tensor,
					   enum sml_stream_id stream, uint32_t stripe,
					   uint32_t n_stripes)
{
	/* How many of the stripe's chunks lie before the window's begin, and its end. */
	uint64_t begin = tensor->first[stream] + n_stripes - 1 - stripe;
	uint64_t end = begin + tensor->window[stream].count;

	return (struct sml_window){(uint32_t)(begin / n_stripes),
				   (uint32_t)(end / n_stripes - begin / n_stripes)};
}

bool sml_tensor_is_done(const struct sml_tensor *tensor)
{
	return __atomic_load_n(&tensor->left, __ATOMIC_ACQUIRE) == 0;
}

bool sml_tensor_chunk_is_done(const struct sml_tensor *tensor, enum sml_stream_id stream,
			      uint32_t index)
{
	return __atomic_load_n(&tensor->progress[stream][index], __ATOMIC_ACQUIRE) ==
	       SML_CHUNK_DONE;
}

bool sml_tensor_claim(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index)
{
	uint8_t expected = SML_CHUNK_NEW;

	return __atomic_compare_exchange_n(&tensor->progress[stream][index], &expected,
					   SML_CHUNK_CLAIMED, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

void sml_tensor_release(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index)
{
	if (!sml_tensor_chunk_is_done(tensor, stream, index))
		__atomic_store_n(&tensor->progress[stream][index], SML_CHUNK_NEW, __ATOMIC_RELEASE);
}

/* Of a pair: does the data chunk carry upper halves? */
static bool is_upper(const struct sml_tensor *tensor, uint32_t index)
{
	return index < tensor->window[SML_DATA].count / 2;
}

bool sml_tensor_chunk_is_ready(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index)
{
	if (stream == SML_HEAD)
		return true;
	if (tensor->coding == SML_CODE_PAIR)
		return is_upper(tensor, index) ||
		       sml_tensor_chunk_is_done(tensor, SML_DATA,
						index - tensor->window[SML_DATA].count / 2);
	if (tensor->form != SML_FORM_EXPONENT)
		return true;
	return sml_tensor_chunk_is_done(tensor, SML_HEAD, index / tensor->block_chunks);
}

/* Elements [first, + count) of a chunk that carries elements. */
static uint32_t chunk_elements(const struct sml_tensor *tensor, uint32_t index, uint64_t *first)
{
	uint64_t left;

	if (tensor->form == SML_FORM_GATHER) {
		*first = 0;
		return (uint32_t)tensor->spec.count;
	}
	if (tensor->coding == SML_CODE_PAIR && !is_upper(tensor, index))
		index -= tensor->window[SML_DATA].count / 2;
	*first = (uint64_t)index * tensor->elements_per_chunk;
	left = tensor->spec.count - *first;
	return left < tensor->elements_per_chunk ? (uint32_t)left : tensor->elements_per_chunk;
}

/* Data chunks [first, + count) whose exponents a head chunk carries. */
static uint32_t block_chunks(const struct sml_tensor *tensor, uint32_t head_index, uint32_t *first)
{
	uint32_t left;

	*first = head_index * tensor->block_chunks;
	left = tensor->window[SML_DATA].count - *first;
	return left < tensor->block_chunks ? left : tensor->block_chunks;
}

static uint32_t lanes_of_elements(const struct sml_tensor *tensor, uint32_t count)
{
	if (tensor->coding == SML_CODE_BYTES)
		return (count + 3) / 4;
	if (tensor->coding == SML_CODE_LIMBS)
		return SML_LIMBS * count;
	return packs_halves(&tensor->spec, tensor->coding) ? (count + 1) / 2 : count;
}

static uint32_t lanes_used(const struct sml_tensor *tensor, enum sml_stream_id stream,
			   uint32_t index)
{
	uint32_t first_chunk;
	uint64_t first;

	if (stream == SML_DATA || tensor->form == SML_FORM_SMALL)
		return lanes_of_elements(tensor, chunk_elements(tensor, index, &first));
	if (tensor->form == SML_FORM_EXPONENT)
		return block_chunks(tensor, index, &first_chunk);
	if (tensor->form == SML_FORM_GATHER)
		return (uint32_t)tensor->spec.count * tensor->shape.n_ranks *
		       gathered_lanes(tensor->spec.type);
	return 0;
}

void sml_tensor_describe_chunk(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index, struct sml_contribution *out)
{
	bool elements = stream == SML_DATA || tensor->form == SML_FORM_SMALL;
	bool exponents = stream == SML_HEAD && tensor->form == SML_FORM_EXPONENT;

	out->lanes =
		(uint16_t)sml_lanes_round(lanes_used(tensor, stream, index), tensor->shape.lanes);
	bool ordered = tensor->coding == SML_CODE_ORDER || tensor->coding == SML_CODE_PAIR;

	out->op = exponents || (elements && ordered) ? SML_LANE_MAX : SML_LANE_SUM;
	out->lane_kind = elements && packs_halves(&tensor->spec, tensor->coding)
				 ? SML_LANE_INT16_PAIR
				 : SML_LANE_INT32;
	out->digest = sml_hash_step(tensor->digest, index << 1 | (uint32_t)stream);
}

/* ---- filling ---- */

static void encode_floats(const struct sml_tensor *tensor, uint32_t index, const void *elements,
			  uint32_t count, uint8_t *lanes)
{
	bool narrow = packs_halves(&tensor->spec, tensor->coding);
	int32_t exponent = tensor->exponents[index];
	unsigned n_ranks = tensor->shape.n_ranks;

	if (tensor->spec.type == SML_FLOAT64)
		(narrow ? sml_double_quantize_int16
			: sml_double_quantize_int32)(elements, count, exponent, n_ranks, lanes);
	else
		(narrow ? sml_quantize_int16 : sml_quantize_int32)(tensor->spec.type, elements,
								   count, exponent, n_ranks, lanes);
}

static void encode(const struct sml_tensor *tensor, uint32_t index, uint64_t first,
		   const void *elements, uint32_t count, uint8_t *lanes)
{
	enum sml_type type = tensor->spec.type;
	bool minimum = tensor->spec.op == SML_MIN;

	switch (tensor->coding) {
	case SML_CODE_FLOAT:
		encode_floats(tensor, index, elements, count, lanes);
		break;
	case SML_CODE_LIMBS:
		if (type == SML_FLOAT64)
			sml_double_to_limbs(elements, count, tensor->exponents[index], lanes);
		else
			sml_int64_to_limbs(elements, count, lanes);
		break;
	case SML_CODE_ORDER:
		if (is_narrow(type))
			sml_narrow_encode(type, elements, count, minimum, lanes);
		else
			sml_order_encode(type, elements, count, minimum, lanes);
		break;
	case SML_CODE_PAIR:
		if (is_upper(tensor, index))
			sml_pair_high(type, elements, count, minimum, lanes);
		else
			sml_pair_low(type, elements, count, minimum, tensor->highs + first, lanes);
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
	case SML_CODE_BYTES:
		__builtin_memcpy(lanes, elements, count);
		break;
	}
}

/*
 * Elements of a chunk, where this rank may contribute only some of them: only
 * bytes are ever sent in part (broadcast, all-gather), so an element's place
 * among the lanes is its place among the bytes.
 */
static void fill_elements(struct sml_tensor *tensor, uint32_t index, uint32_t n_lanes,
			  uint8_t *lanes)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	uint64_t end = spec->send_first + spec->send_count;
	uint64_t first, from, to;
	uint32_t count = chunk_elements(tensor, index, &first);
	uint32_t used;

	from = first > spec->send_first ? first : spec->send_first;
	to = first + count < end ? first + count : end;
	if (from == first && to == first + count) {
		used = 4 * lanes_of_elements(tensor, count);
		if (tensor->coding == SML_CODE_BYTES)
			used = count;
		__builtin_memset(lanes + used, 0, 4 * n_lanes - used);
		encode(tensor, index, first,
		       (const uint8_t *)spec->send +
			       (first - spec->send_first) * sml_element_bytes(spec->type),
		       count, lanes);
		return;
	}
	__builtin_memset(lanes, 0, 4 * n_lanes);
	if (from >= to)
		return;
	sml_assert(tensor->coding == SML_CODE_BYTES);
	__builtin_memcpy(lanes + (from - first),
			 (const uint8_t *)spec->send + (from - spec->send_first), to - from);
}

/* Measure a block once: its elements come into the cache and are sent soon. */
static void measure_block(struct sml_tensor *tensor, uint32_t head_index)
{
	uint32_t first_chunk, n = block_chunks(tensor, head_index, &first_chunk);
	size_t bytes = sml_element_bytes(tensor->spec.type);

	for (uint32_t i = first_chunk; i < first_chunk + n; i++) {
		uint64_t first;
		uint32_t count = chunk_elements(tensor, i, &first);

		const uint8_t *elements = (const uint8_t *)tensor->spec.send + first * bytes;

		tensor->exponents[i] =
			tensor->spec.type == SML_FLOAT64
				? sml_double_exponent_of(elements, count)
				: sml_exponent_of(tensor->spec.type, elements, count);
	}
}

static void fill_exponents(struct sml_tensor *tensor, uint32_t index, uint32_t n_lanes,
			   uint8_t *lanes)
{
	uint32_t first, n = block_chunks(tensor, index, &first);

	uint8_t *progress = &tensor->progress[SML_HEAD][index];

	if (__atomic_load_n(progress, __ATOMIC_RELAXED) != SML_CHUNK_MEASURED) {
		measure_block(tensor, index);
		/* Atomic because other shards look whether it is DONE. */
		__atomic_store_n(progress, SML_CHUNK_MEASURED, __ATOMIC_RELAXED);
	}
	sml_int32_encode(tensor->exponents + first, n, lanes);
	/* Lanes beyond the last chunk are combined and looked at by nobody. */
	__builtin_memset(lanes + 4 * n, 0, 4 * (n_lanes - n));
}

static void fill_gather(struct sml_tensor *tensor, uint32_t n_lanes, uint8_t *lanes)
{
	uint32_t count = (uint32_t)tensor->spec.count;
	uint8_t *own = lanes + 4 * count * gathered_lanes(tensor->spec.type) * tensor->shape.rank;

	__builtin_memset(lanes, 0, 4 * n_lanes);
	if (tensor->spec.type == SML_FLOAT64)
		sml_double_gather_encode(tensor->spec.send, count, own);
	else
		sml_gather_encode(tensor->spec.type, tensor->spec.send, count, own);
}

void sml_tensor_fill(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     void *lanes)
{
	uint32_t n = sml_lanes_round(lanes_used(tensor, stream, index), tensor->shape.lanes);

	if (stream == SML_DATA || tensor->form == SML_FORM_SMALL)
		fill_elements(tensor, index, n, lanes);
	else if (tensor->form == SML_FORM_EXPONENT)
		fill_exponents(tensor, index, n, lanes);
	else if (tensor->form == SML_FORM_GATHER)
		fill_gather(tensor, n, lanes);
}

/* ---- taking ---- */

static void decode_floats(const struct sml_tensor *tensor, uint32_t index, const void *lanes,
			  uint32_t count, unsigned divisor, void *elements)
{
	bool narrow = packs_halves(&tensor->spec, tensor->coding);
	int32_t exponent = tensor->exponents[index];
	unsigned n_ranks = tensor->shape.n_ranks;

	if (tensor->spec.type == SML_FLOAT64)
		(narrow ? sml_double_dequantize_int16 : sml_double_dequantize_int32)(
			lanes, count, exponent, n_ranks, divisor, elements);
	else
		(narrow ? sml_dequantize_int16 : sml_dequantize_int32)(
			tensor->spec.type, lanes, count, exponent, n_ranks, divisor, elements);
}

static void gather(const struct sml_tensor *tensor, const void *lanes, uint32_t count,
		   unsigned divisor, void *elements)
{
	if (tensor->spec.type == SML_FLOAT64)
		sml_double_gather_reduce(lanes, count, tensor->shape.n_ranks, divisor, elements);
	else
		sml_gather_reduce(tensor->spec.type, lanes, count, tensor->shape.n_ranks, divisor,
				  elements);
}

static void decode(const struct sml_tensor *tensor, uint32_t index, uint64_t first,
		   const void *lanes, uint32_t count, void *elements)
{
	enum sml_type type = tensor->spec.type;
	bool minimum = tensor->spec.op == SML_MIN;
	unsigned divisor = tensor->spec.op == SML_AVG ? tensor->shape.n_ranks : 1;

	if (tensor->form == SML_FORM_GATHER) {
		gather(tensor, lanes, count, divisor, elements);
		return;
	}
	switch (tensor->coding) {
	case SML_CODE_FLOAT:
		decode_floats(tensor, index, lanes, count, divisor, elements);
		break;
	case SML_CODE_LIMBS:
		if (type == SML_FLOAT64)
			sml_double_from_limbs(lanes, count, tensor->exponents[index], divisor,
					      elements);
		else
			sml_int64_from_limbs(lanes, count, divisor, elements);
		break;
	case SML_CODE_ORDER:
		if (is_narrow(type))
			sml_narrow_decode(type, lanes, count, minimum, 1, elements);
		else
			sml_order_decode(type, lanes, count, minimum, elements);
		break;
	case SML_CODE_PAIR:
		sml_pair_decode(type, tensor->highs + first, lanes, count, minimum, elements);
		break;
	case SML_CODE_INTEGER:
		if (is_narrow(type))
			sml_narrow_decode(type, lanes, count, false, divisor, elements);
		else
			sml_int32_decode(lanes, count, divisor, elements);
		break;
	case SML_CODE_HALVES:
		sml_narrow_decode_pairs(type, lanes, count, divisor, elements);
		break;
	case SML_CODE_BYTES:
		__builtin_memcpy(elements, lanes, count);
		break;
	}
}

/* Elements of a chunk, of which this rank may want only some (reduce-scatter). */
static void take_elements(const struct sml_tensor *tensor, uint32_t index, const void *lanes)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	uint64_t end = spec->recv_first + spec->recv_count;
	size_t bytes = sml_element_bytes(spec->type);
	uint64_t first, from, to;
	uint32_t count = chunk_elements(tensor, index, &first);
	uint8_t *recv = spec->recv;

	/* All of them: this rank contributes lower halves of elements that it does not want. */
	if (tensor->coding == SML_CODE_PAIR && is_upper(tensor, index)) {
		sml_pair_keep_highs(lanes, count, tensor->highs + first);
		return;
	}
	from = first > spec->recv_first ? first : spec->recv_first;
	to = first + count < end ? first + count : end;
	if (from >= to)
		return;
	if (from == first && to == first + count) {
		decode(tensor, index, first, lanes, count,
		       recv + (first - spec->recv_first) * bytes);
	} else {
		/* float64 on the int16 wire: two elements of 8 bytes to a lane. */
		uint8_t whole[16 * SML_MAX_LANES] __attribute__((aligned(8)));

		decode(tensor, index, first, lanes, count, whole);
		__builtin_memcpy(recv + (from - spec->recv_first) * bytes,
				 whole + (from - first) * bytes, (to - from) * bytes);
	}
}

static void take_head(struct sml_tensor *tensor, uint32_t index, const void *lanes)
{
	uint32_t first, n;

	switch (tensor->form) {
	case SML_FORM_EXPONENT:
		n = block_chunks(tensor, index, &first);
		sml_int32_decode(lanes, n, 1, tensor->exponents + first);
		break;
	case SML_FORM_GATHER:
	case SML_FORM_SMALL:
		take_elements(tensor, index, lanes);
		break;
	case SML_FORM_EMPTY:
	case SML_FORM_PLAIN:
		break;
	}
}

bool sml_tensor_take(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     const void *lanes)
{
	if (sml_tensor_chunk_is_done(tensor, stream, index))
		return false;
	if (stream == SML_DATA)
		take_elements(tensor, index, lanes);
	else
		take_head(tensor, index, lanes);
	__atomic_store_n(&tensor->progress[stream][index], SML_CHUNK_DONE, __ATOMIC_RELEASE);
	return __atomic_sub_fetch(&tensor->left, 1, __ATOMIC_ACQ_REL) == 0;
}

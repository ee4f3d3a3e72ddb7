/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors as chunks: see tensor.h for the forms. */
#include "core/tensor.h"

#include "core/quantize.h"

/* float32 that half a second-level cache or so holds. */
#define BLOCK_ELEMENTS (128u << 10)

#define ROUND_UP_8(n) (((n) + 7) & ~(size_t)7)

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static bool is_float(enum sml_type type)
{
	return type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16;
}

size_t sml_element_bytes(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT32:
	case SML_INT32:
		return 4;
	case SML_FLOAT16:
	case SML_BFLOAT16:
		return 2;
	case SML_BYTE:
		return 1;
	}
	return 0;
}

static enum sml_coding coding_of(const struct sml_tensor_spec *spec)
{
	if (spec->type == SML_BYTE)
		return SML_CODE_BYTES;
	if (spec->op == SML_MAX || spec->op == SML_MIN)
		return SML_CODE_ORDER;
	return is_float(spec->type) ? SML_CODE_FLOAT : SML_CODE_INTEGER;
}

static bool packs_int16(const struct sml_tensor_spec *spec)
{
	return coding_of(spec) == SML_CODE_FLOAT && spec->wire == SML_WIRE_INT16;
}

static uint32_t elements_per_chunk(const struct sml_tensor_spec *spec, uint32_t lanes)
{
	if (spec->type == SML_BYTE)
		return 4 * lanes;
	return packs_int16(spec) ? 2 * lanes : lanes;
}

static enum sml_form form_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	enum sml_coding coding = coding_of(spec);

	if (spec->count == 0)
		return SML_FORM_EMPTY;
	if (coding == SML_CODE_FLOAT)
		return spec->count <= shape->lanes / shape->n_ranks ? SML_FORM_GATHER
								    : SML_FORM_EXPONENT;
	return spec->count <= elements_per_chunk(spec, shape->lanes) ? SML_FORM_SMALL
								     : SML_FORM_PLAIN;
}

static uint32_t n_data_chunks(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	enum sml_form form = form_of(spec, shape);

	if (form != SML_FORM_EXPONENT && form != SML_FORM_PLAIN)
		return 0;
	return (uint32_t)div_up(spec->count, elements_per_chunk(spec, shape->lanes));
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

size_t sml_tensor_memory_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	size_t data = n_data_chunks(spec, shape);

	return ROUND_UP_8(4 * data) + ROUND_UP_8(data) + ROUND_UP_8(n_head_chunks(spec, shape));
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
		.coding = coding_of(spec),
		.number = sequence->number,
		.digest = digest_of(spec, sequence->number),
		.elements_per_chunk = elements_per_chunk(spec, shape->lanes),
		.block_chunks = sml_tensor_block_chunks(shape->lanes),
		.window = {{(uint32_t)sequence->next[SML_HEAD], n_head},
			   {(uint32_t)sequence->next[SML_DATA], n_data}},
		.first = {sequence->next[SML_HEAD], sequence->next[SML_DATA]},
		.exponents = memory,
		.left = n_head + n_data,
	};
	tensor->progress[SML_DATA] = bytes + ROUND_UP_8(4 * (size_t)n_data);
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

bool sml_tensor_chunk_is_ready(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index)
{
	if (stream == SML_HEAD || tensor->form != SML_FORM_EXPONENT)
		return true;
	return sml_tensor_chunk_is_done(tensor, SML_HEAD, index / tensor->block_chunks);
}

/* Elements [first, + count) of a chunk that carries elements. */
static uint32_t chunk_elements(const struct sml_tensor *tensor, uint32_t index, uint64_t *first)
{
	uint64_t left;

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
	return packs_int16(&tensor->spec) ? (count + 1) / 2 : count;
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
		return (uint32_t)tensor->spec.count * tensor->shape.n_ranks;
	return 0;
}

void sml_tensor_describe_chunk(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index, struct sml_contribution *out)
{
	bool elements = stream == SML_DATA || tensor->form == SML_FORM_SMALL;
	bool exponents = stream == SML_HEAD && tensor->form == SML_FORM_EXPONENT;

	out->lanes =
		(uint16_t)sml_lanes_round(lanes_used(tensor, stream, index), tensor->shape.lanes);
	out->op = exponents || (elements && tensor->coding == SML_CODE_ORDER) ? SML_LANE_MAX
									      : SML_LANE_SUM;
	out->lane_kind = stream == SML_DATA && packs_int16(&tensor->spec) ? SML_LANE_INT16_PAIR
									  : SML_LANE_INT32;
	out->digest = sml_hash_step(tensor->digest, index << 1 | (uint32_t)stream);
}

/* ---- filling ---- */

static void encode(const struct sml_tensor *tensor, uint32_t index, const void *elements,
		   uint32_t count, uint8_t *lanes)
{
	enum sml_type type = tensor->spec.type;
	unsigned n_ranks = tensor->shape.n_ranks;

	switch (tensor->coding) {
	case SML_CODE_FLOAT:
		if (packs_int16(&tensor->spec))
			sml_quantize_int16(type, elements, count, tensor->exponents[index], n_ranks,
					   lanes);
		else
			sml_quantize_int32(type, elements, count, tensor->exponents[index], n_ranks,
					   lanes);
		break;
	case SML_CODE_ORDER:
		sml_order_encode(type, elements, count, tensor->spec.op == SML_MIN, lanes);
		break;
	case SML_CODE_INTEGER:
		sml_int32_encode(elements, count, lanes);
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
		encode(tensor, index,
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

		tensor->exponents[i] =
			sml_exponent_of(tensor->spec.type,
					(const uint8_t *)tensor->spec.send + first * bytes, count);
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

	__builtin_memset(lanes, 0, 4 * n_lanes);
	sml_gather_encode(tensor->spec.type, tensor->spec.send, count,
			  lanes + 4 * count * tensor->shape.rank);
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

static void decode(const struct sml_tensor *tensor, uint32_t index, const void *lanes,
		   uint32_t count, void *elements)
{
	enum sml_type type = tensor->spec.type;
	unsigned n_ranks = tensor->shape.n_ranks;
	unsigned divisor = tensor->spec.op == SML_AVG ? n_ranks : 1;

	switch (tensor->coding) {
	case SML_CODE_FLOAT:
		if (tensor->form == SML_FORM_GATHER)
			sml_gather_reduce(type, lanes, count, n_ranks, divisor, elements);
		else if (packs_int16(&tensor->spec))
			sml_dequantize_int16(type, lanes, count, tensor->exponents[index], n_ranks,
					     divisor, elements);
		else
			sml_dequantize_int32(type, lanes, count, tensor->exponents[index], n_ranks,
					     divisor, elements);
		break;
	case SML_CODE_ORDER:
		sml_order_decode(type, lanes, count, tensor->spec.op == SML_MIN, elements);
		break;
	case SML_CODE_INTEGER:
		sml_int32_decode(lanes, count, divisor, elements);
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

	from = first > spec->recv_first ? first : spec->recv_first;
	to = first + count < end ? first + count : end;
	if (from >= to)
		return;
	if (from == first && to == first + count) {
		decode(tensor, index, lanes, count, recv + (first - spec->recv_first) * bytes);
	} else {
		uint8_t whole[4 * 2 * SML_MAX_LANES] __attribute__((aligned(8)));

		decode(tensor, index, lanes, count, whole);
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

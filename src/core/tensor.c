/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors as chunks: see tensor.h for the forms. */
#include "core/tensor.h"

#include "core/gather.h"
#include "core/quantize.h"
#include "core/recover.h"
#include "core/wide.h"

/* What half a second-level cache or so holds. */
#define HEAD_BYTES (512u << 10)

/* Small float tensors: see most_gathered(). */
#define GATHERED_PACKETS 4
#define GATHERED_LANES	 352

#define ROUND_UP_8(n) (((n) + 7) & ~(size_t)7)

static uint64_t div_up(uint64_t a, uint64_t b)
{
	return (a + b - 1) / b;
}

static struct sml_code code_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	struct sml_code code = sml_code_of(spec->type, spec->op, spec->wire, shape->n_ranks);

	if (spec->wire == SML_WIRE_EXACT && sml_shape_adds(shape, spec->type))
		return sml_code_with_floats(code);
	if (shape->only_int32)
		return sml_code_without_halves(code);
	if (sml_shape_rounds(shape, spec->wire == SML_WIRE_INT8 ? 8 : 16))
		return sml_code_with_rounding(code, shape->only_full ? shape->lanes : 0);
	return code;
}

/* The elements of a packet that carries those of every rank. */
static uint32_t gathered_elements(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	return sml_gather_capacity(spec->type, shape->lanes, shape->n_ranks);
}

bool sml_tensor_may_be_exact(enum sml_type type, const struct sml_shape *shape)
{
	return sml_shape_adds(shape, type) ||
	       sml_gather_capacity(type, shape->lanes, shape->n_ranks) > 0;
}

/*
 * The largest number of elements that a tensor may have to be gathered: what fits into four packets
 * of 1500-byte frames, each of which carries the elements of all ranks. A tensor with exponents
 * needs one more round trip, which costs as much as these packets do (docs/internals/numbers.md).
 * Packets of other sizes carry the same tensors, so that the bits of a result do not depend on that
 * size.
 */
static uint64_t most_gathered(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	if (spec->wire == SML_WIRE_EXACT)
		return UINT64_MAX;
	if (gathered_elements(spec, shape) == 0)
		return 0;
	return (uint64_t)GATHERED_PACKETS *
	       sml_gather_capacity(spec->type, GATHERED_LANES, shape->n_ranks);
}

static enum sml_form form_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape,
			     const struct sml_code *code)
{
	if (spec->count == 0)
		return SML_FORM_EMPTY;
	if (code->exponents)
		return spec->count <= most_gathered(spec, shape) ? SML_FORM_GATHER
								 : SML_FORM_EXPONENT;
	/*
	 * The lower halves of a pair depend on the upper halves, so a pair needs at least two
	 * packets.
	 */
	return code->coding != SML_CODE_PAIR && spec->count <= sml_code_elements(code, shape->lanes)
		       ? SML_FORM_SMALL
		       : SML_FORM_PLAIN;
}

/*
 * The lanes of all packets with exponents but the last: as many as a packet that is full of
 * elements has. Packets of both streams leave in one batch, and the kernel is given a run of
 * packets that are equally long as one (UDP_SEGMENT).
 */
static uint32_t head_lanes(const struct sml_code *code, const struct sml_shape *shape)
{
	return code->rounded ? sml_code_lanes(code, sml_code_elements(code, shape->lanes))
			     : shape->lanes;
}

static uint32_t elements_per_head(const struct sml_code *code, const struct sml_shape *shape)
{
	uint32_t bytes = (uint32_t)sml_element_bytes(code->type), block = sml_code_block(code);
	uint32_t lanes = head_lanes(code, shape), fit = shape->only_int32 ? lanes : 2 * lanes;
	uint32_t cached = HEAD_BYTES / (bytes < 4 ? 4 : bytes) / block;

	return block * (fit < cached ? fit : cached);
}

/* How a call becomes chunks. It is worked out once, because small calls consist of little else. */
struct layout {
	struct sml_code code;
	enum sml_form form;
	uint32_t elements_per_chunk, elements_per_head; /* as in struct sml_tensor */
	uint32_t n_head, n_data;
	size_t numbers_bytes; /* of exponents, or of the upper halves of a pair's results */
};

static struct layout layout_of(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	struct sml_code code = code_of(spec, shape);
	bool pair = code.coding == SML_CODE_PAIR;
	struct layout to = {.code = code, .form = form_of(spec, shape, &code), .n_head = 1};

	to.elements_per_chunk = to.form == SML_FORM_GATHER ? gathered_elements(spec, shape)
							   : sml_code_elements(&code, shape->lanes);
	if (to.form == SML_FORM_GATHER)
		to.n_head = (uint32_t)div_up(spec->count, to.elements_per_chunk);
	if (to.form == SML_FORM_EXPONENT) {
		to.elements_per_head = elements_per_head(&code, shape);
		to.n_head = (uint32_t)div_up(spec->count, to.elements_per_head);
	}
	if (to.form == SML_FORM_EXPONENT || to.form == SML_FORM_PLAIN)
		to.n_data = (uint32_t)div_up(spec->count, to.elements_per_chunk) * (pair ? 2 : 1);
	if (pair)
		to.numbers_bytes = ROUND_UP_8(4 * (size_t)spec->count);
	else if (code.exponents)
		to.numbers_bytes =
			ROUND_UP_8(2 * (size_t)div_up(spec->count, sml_code_block(&code)));
	return to;
}

bool sml_tensor_uses(const struct sml_tensor_spec *spec, const void *memory, size_t bytes)
{
	size_t each = sml_element_bytes(spec->type);

	return sml_overlap(memory, bytes, spec->send, (size_t)spec->send_count * each) ||
	       sml_overlap(memory, bytes, spec->recv, (size_t)spec->recv_count * each) ||
	       (spec->residual && sml_overlap(memory, bytes, spec->residual,
					      (size_t)spec->count * sizeof(*spec->residual)));
}

static uint32_t digest_of(const struct sml_tensor_spec *spec, uint32_t number)
{
	uint32_t hash = sml_hash_step(0, number);

	hash = sml_hash_step(hash, (uint32_t)spec->count);
	hash = sml_hash_step(hash, (uint32_t)(spec->count >> 32));
	hash = sml_hash_step(hash, (uint32_t)spec->collective << 24 | (uint32_t)spec->type << 16 |
					   (uint32_t)spec->op << 8 | (uint32_t)spec->wire);
	hash = sml_hash_step(hash, (uint32_t)spec->named_type << 16 | spec->root);
	return spec->name ? sml_hash_step(hash, spec->name) : hash;
}

size_t sml_tensor_memory_bytes(const struct sml_tensor_spec *spec, const struct sml_shape *shape)
{
	struct layout layout = layout_of(spec, shape);

	return layout.numbers_bytes + ROUND_UP_8(layout.n_data) + ROUND_UP_8(layout.n_head) +
	       (spec->residual ? sizeof(float) * (size_t)spec->count : 0);
}

void sml_tensor_init(struct sml_tensor *tensor, const struct sml_tensor_spec *spec,
		     const struct sml_shape *shape, struct sml_sequence *sequence, void *memory)
{
	struct layout layout = layout_of(spec, shape);
	uint32_t n_head = layout.n_head, n_data = layout.n_data;
	struct sml_code code = layout.code;
	uint8_t *bytes = memory;

	sml_assert(spec->wire != SML_WIRE_EXACT || layout.form != SML_FORM_EXPONENT);
	sml_assert(spec->residual == NULL || code.coding == SML_CODE_FLOAT ||
		   code.coding == SML_CODE_RAW);
	*tensor = (struct sml_tensor){
		.spec = *spec,
		.shape = *shape,
		.form = layout.form,
		.recoverable = sml_code_is_recoverable(&code) && spec->recv_first == 0 &&
			       spec->recv_count == spec->count,
		.code = code,
		.number = sequence->number,
		.digest = digest_of(spec, sequence->number),
		.elements_per_chunk = layout.elements_per_chunk,
		.elements_per_head = layout.elements_per_head,
		.window = {{(uint32_t)sequence->next[SML_HEAD], n_head},
			   {(uint32_t)sequence->next[SML_DATA], n_data}},
		.first = {sequence->next[SML_HEAD], sequence->next[SML_DATA]},
		.exponents = memory,
		.highs = memory,
		.left = n_head + n_data,
	};
	tensor->progress[SML_DATA] = bytes + layout.numbers_bytes;
	tensor->progress[SML_HEAD] = tensor->progress[SML_DATA] + ROUND_UP_8(n_data);
	if (spec->residual)
		tensor->lost = (void *)(tensor->progress[SML_HEAD] + ROUND_UP_8(n_head));
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
	/*
	 * The number of chunks of the stripe that lie before the window's start, and before its
	 * end.
	 */
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

/* For a pair: does the data chunk carry upper halves? */
static bool is_upper(const struct sml_tensor *tensor, uint32_t index)
{
	return index < tensor->window[SML_DATA].count / 2;
}

/* The elements [first, first + count) of a chunk that carries elements. */
static uint32_t chunk_elements(const struct sml_tensor *tensor, uint32_t index, uint64_t *first)
{
	uint64_t left;

	if (tensor->code.coding == SML_CODE_PAIR && !is_upper(tensor, index))
		index -= tensor->window[SML_DATA].count / 2;
	*first = (uint64_t)index * tensor->elements_per_chunk;
	left = tensor->spec.count - *first;
	return left < tensor->elements_per_chunk ? (uint32_t)left : tensor->elements_per_chunk;
}

/* Have the exponents of all blocks of a data chunk arrived? */
static bool has_exponents(const struct sml_tensor *tensor, uint32_t index)
{
	uint64_t first;
	uint32_t count = chunk_elements(tensor, index, &first);
	uint32_t head = (uint32_t)(first / tensor->elements_per_head);
	uint64_t next = (uint64_t)head * tensor->elements_per_head;

	while (next < first + count && sml_tensor_chunk_is_done(tensor, SML_HEAD, head)) {
		head++;
		next += tensor->elements_per_head;
	}
	return next >= first + count;
}

/*
 * Are all elements of a data chunk zero on all ranks, as the job's exponents say? Then there is
 * nothing to add: the packet is a header, and so is its result. All ranks have the same exponents,
 * so they agree on it.
 */
static bool is_zero(const struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index)
{
	uint32_t block = sml_code_block(&tensor->code), count;
	uint64_t first = (uint64_t)index * tensor->elements_per_chunk, at, last;

	if (stream != SML_DATA || tensor->form != SML_FORM_EXPONENT || tensor->shape.only_full)
		return false;
	/* Of dense tensors, no more than this is read, and nothing is divided. */
	at = first >> sml_code_block_bits(&tensor->code);
	if (tensor->exponents[at] != SML_EXPONENT_ZERO || !has_exponents(tensor, index))
		return false;
	count = chunk_elements(tensor, index, &first);
	last = (first + count - 1) / block;
	while (at <= last && tensor->exponents[at] == SML_EXPONENT_ZERO)
		at++;
	return at > last;
}

bool sml_tensor_chunk_is_ready(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index)
{
	if (stream == SML_HEAD)
		return true;
	if (tensor->code.coding == SML_CODE_PAIR)
		return is_upper(tensor, index) ||
		       sml_tensor_chunk_is_done(tensor, SML_DATA,
						index - tensor->window[SML_DATA].count / 2);
	return tensor->form != SML_FORM_EXPONENT || has_exponents(tensor, index);
}

/* The blocks [first, first + count) whose exponents a head chunk carries. */
static uint32_t head_blocks(const struct sml_tensor *tensor, uint32_t index, uint64_t *first)
{
	uint32_t block = sml_code_block(&tensor->code), most = tensor->elements_per_head / block;
	uint64_t left;

	*first = (uint64_t)index * most;
	left = div_up(tensor->spec.count, block) - *first;
	return left < most ? (uint32_t)left : most;
}

static uint32_t lanes_used(const struct sml_tensor *tensor, enum sml_stream_id stream,
			   uint32_t index)
{
	uint64_t first;
	uint32_t n;

	if (stream == SML_DATA || tensor->form == SML_FORM_SMALL)
		return sml_code_lanes(&tensor->code, chunk_elements(tensor, index, &first));
	if (tensor->form == SML_FORM_EXPONENT) {
		n = head_blocks(tensor, index, &first);
		return tensor->shape.only_int32 ? n : (n + 1) / 2;
	}
	if (tensor->form == SML_FORM_GATHER)
		return tensor->shape.n_ranks *
		       sml_gather_lanes(tensor->spec.type, chunk_elements(tensor, index, &first));
	return 0;
}

static bool carries_exponents(const struct sml_tensor *tensor, enum sml_stream_id stream)
{
	return stream == SML_HEAD && tensor->form == SML_FORM_EXPONENT;
}

static uint32_t packet_lanes(const struct sml_tensor *tensor, enum sml_stream_id stream,
			     uint32_t index)
{
	bool exponents = carries_exponents(tensor, stream);
	uint32_t full;

	if (is_zero(tensor, stream, index))
		return 0;
	/* Whole blocks: switches that round take no others. */
	if (stream == SML_DATA && tensor->code.rounded)
		return lanes_used(tensor, stream, index);
	if (tensor->shape.only_full)
		return tensor->shape.lanes;
	full = exponents ? head_lanes(&tensor->code, &tensor->shape) : tensor->shape.lanes;
	if (exponents && index + 1 < tensor->window[SML_HEAD].count)
		return full;
	return sml_lanes_round(lanes_used(tensor, stream, index), full);
}

static uint8_t float_kind_of(enum sml_type type)
{
	return type == SML_FLOAT32   ? SML_LANE_FLOAT32
	       : type == SML_FLOAT16 ? SML_LANE_FLOAT16
				     : SML_LANE_BFLOAT16;
}

void sml_tensor_describe_chunk(const struct sml_tensor *tensor, enum sml_stream_id stream,
			       uint32_t index, struct sml_contribution *out)
{
	bool elements = stream == SML_DATA || tensor->form == SML_FORM_SMALL;
	bool exponents = carries_exponents(tensor, stream);

	out->lanes = (uint16_t)packet_lanes(tensor, stream, index);
	bool ordered =
		tensor->code.coding == SML_CODE_ORDER || tensor->code.coding == SML_CODE_PAIR;

	out->op = exponents || (elements && ordered) ? SML_LANE_MAX : SML_LANE_SUM;
	if (elements && tensor->code.coding == SML_CODE_RAW && tensor->spec.op == SML_AVG)
		out->op = SML_LANE_AVG;
	bool halves = elements ? tensor->code.width == 16 : exponents && !tensor->shape.only_int32;

	out->lane_kind = halves ? SML_LANE_INT16_PAIR : SML_LANE_INT32;
	/* Switches take a rounded kind only with whole blocks. */
	if (out->lanes == 0)
		out->lane_kind = SML_LANE_INT32;
	else if (stream == SML_DATA && tensor->code.rounded)
		out->lane_kind =
			tensor->code.width == 8 ? SML_LANE_INT8_ROUNDED : SML_LANE_INT16_ROUNDED;
	else if (elements && tensor->code.coding == SML_CODE_RAW)
		out->lane_kind = float_kind_of(tensor->spec.type);
	out->digest = sml_hash_step(tensor->digest, index << 1 | (uint32_t)stream);
}

/* ---- filling ---- */

/* What the coding of a chunk's elements depends on: see sml_code_encode(). */
static const void *shared_of(const struct sml_tensor *tensor)
{
	return tensor->code.coding == SML_CODE_PAIR ? (const void *)tensor->highs
						    : tensor->exponents;
}

/* From an element on; NULL if the call has none. */
static const struct sml_feedback *feedback_at(const struct sml_tensor *tensor, uint64_t first,
					      struct sml_feedback *feedback)
{
	if (tensor->spec.residual == NULL)
		return NULL;
	*feedback = (struct sml_feedback){tensor->spec.residual + first, tensor->lost + first};
	return feedback;
}

static void encode(const struct sml_tensor *tensor, uint32_t index, uint64_t first,
		   const void *elements, uint32_t count, void *lanes)
{
	const struct sml_code *code = &tensor->code;
	struct sml_feedback feedback;

	if (code->coding == SML_CODE_PAIR && is_upper(tensor, index))
		sml_pair_high(code->type, elements, count, code->minimum, lanes);
	else
		sml_code_encode(code, shared_of(tensor), first, elements,
				feedback_at(tensor, first, &feedback), count, lanes);
}

/*
 * Only bytes are ever sent in part (broadcast, scatter, gather, all-gather), so an element has the
 * same place among the lanes as among the bytes.
 */
static void insert_bytes(const struct sml_tensor *tensor, uint32_t index, uint8_t *lanes)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	uint64_t end = spec->send_first + spec->send_count;
	uint64_t first, from, to;
	uint32_t count = chunk_elements(tensor, index, &first);

	sml_assert(tensor->code.coding == SML_CODE_BYTES);
	from = first > spec->send_first ? first : spec->send_first;
	to = first + count < end ? first + count : end;
	if (from < to)
		__builtin_memcpy(lanes + (from - first),
				 (const uint8_t *)spec->send + (from - spec->send_first),
				 to - from);
}

/* The elements of a chunk, which this rank contributes all, or only some of. */
static void fill_elements(const struct sml_tensor *tensor, uint32_t index, uint32_t n_lanes,
			  uint8_t *lanes)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	uint64_t first;
	uint32_t count = chunk_elements(tensor, index, &first);
	uint32_t used = 4 * sml_code_lanes(&tensor->code, count);

	if (first < spec->send_first || first + count > spec->send_first + spec->send_count) {
		__builtin_memset(lanes, 0, 4 * n_lanes);
		insert_bytes(tensor, index, lanes);
		return;
	}
	if (tensor->code.coding == SML_CODE_BYTES)
		used = count;
	__builtin_memset(lanes + used, 0, 4 * n_lanes - used);
	encode(tensor, index, first,
	       (const uint8_t *)spec->send +
		       (first - spec->send_first) * sml_element_bytes(spec->type),
	       count, lanes);
}

/* Measure blocks once: this brings their elements into the cache, and they are sent soon. */
static void measure_blocks(struct sml_tensor *tensor, uint64_t first, uint32_t n)
{
	uint64_t at = first * sml_code_block(&tensor->code), left = tensor->spec.count - at;
	uint64_t count = (uint64_t)n * sml_code_block(&tensor->code);

	sml_code_exponents(&tensor->code,
			   (const uint8_t *)tensor->spec.send +
				   at * sml_element_bytes(tensor->spec.type),
			   tensor->spec.residual ? tensor->spec.residual + at : NULL,
			   left < count ? left : count, tensor->exponents + first);
}

static void fill_exponents(struct sml_tensor *tensor, uint32_t index, uint32_t n_lanes,
			   uint8_t *lanes)
{
	uint64_t first;
	uint32_t n = head_blocks(tensor, index, &first), used = lanes_used(tensor, SML_HEAD, index);
	uint8_t *progress = &tensor->progress[SML_HEAD][index];

	if (__atomic_load_n(progress, __ATOMIC_RELAXED) != SML_CHUNK_MEASURED) {
		measure_blocks(tensor, first, n);
		/* Atomic, because other shards check whether it is DONE. */
		__atomic_store_n(progress, SML_CHUNK_MEASURED, __ATOMIC_RELAXED);
	}
	if (tensor->shape.only_int32)
		sml_narrow_encode(SML_INT16, tensor->exponents + first, n, false, lanes);
	else
		sml_narrow_encode_pairs(SML_INT16, tensor->exponents + first, n, lanes);
	/* Nobody reads lanes beyond the last block. */
	__builtin_memset(lanes + 4 * used, 0, 4 * (n_lanes - used));
}

static void fill_gather(struct sml_tensor *tensor, uint32_t index, uint32_t n_lanes, uint8_t *lanes)
{
	enum sml_type type = tensor->spec.type;
	uint64_t first;
	uint32_t count = chunk_elements(tensor, index, &first);
	const uint8_t *send = (const uint8_t *)tensor->spec.send + first * sml_element_bytes(type);
	struct sml_feedback feedback;
	uint32_t sums[SML_MAX_LANES];

	__builtin_memset(lanes, 0, 4 * n_lanes);
	if (tensor->spec.residual) {
		sml_add_residual(type, send, feedback_at(tensor, first, &feedback), count, sums);
		send = (const uint8_t *)sums;
	}
	sml_gather_encode(type, send, count,
			  lanes + 4 * sml_gather_lanes(type, count) * tensor->shape.rank);
}

void sml_tensor_fill(struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		     void *lanes)
{
	uint32_t n = packet_lanes(tensor, stream, index);

	if (n == 0)
		return;
	if (stream == SML_DATA || tensor->form == SML_FORM_SMALL)
		fill_elements(tensor, index, n, lanes);
	else if (tensor->form == SML_FORM_EXPONENT)
		fill_exponents(tensor, index, n, lanes);
	else if (tensor->form == SML_FORM_GATHER)
		fill_gather(tensor, index, n, lanes);
	else
		__builtin_memset(lanes, 0, 4 * n);
}

void sml_tensor_insert(const struct sml_tensor *tensor, enum sml_stream_id stream, uint32_t index,
		       void *lanes)
{
	if (stream == SML_DATA || tensor->form == SML_FORM_SMALL)
		insert_bytes(tensor, index, lanes);
}

/* ---- taking ---- */

static void decode(const struct sml_tensor *tensor, uint64_t first, const void *lanes,
		   uint32_t count, void *elements)
{
	const struct sml_code *code = &tensor->code;

	if (tensor->form == SML_FORM_GATHER)
		sml_gather_reduce(code->type, lanes, count, code->n_ranks, code->divisor, elements);
	else
		sml_code_decode(code, shared_of(tensor), first, lanes, count, elements);
}

/* The elements of a chunk if this rank wants only some of them (reduce-scatter, scatter). */
static void take_elements(const struct sml_tensor *tensor, uint32_t index, const void *lanes)
{
	const struct sml_tensor_spec *spec = &tensor->spec;
	uint64_t end = spec->recv_first + spec->recv_count;
	size_t bytes = sml_element_bytes(spec->type);
	uint64_t first, from, to;
	uint32_t count = chunk_elements(tensor, index, &first);
	uint8_t *recv = spec->recv;

	if (spec->residual && is_zero(tensor, SML_DATA, index)) /* it was not filled */
		__builtin_memset(tensor->lost + first, 0, count * sizeof(*tensor->lost));
	/*
	 * All of them: this rank contributes the lower halves also of elements that it does not
	 * want.
	 */
	if (tensor->code.coding == SML_CODE_PAIR && is_upper(tensor, index)) {
		sml_pair_keep_highs(lanes, count, tensor->highs + first);
		return;
	}
	from = first > spec->recv_first ? first : spec->recv_first;
	to = first + count < end ? first + count : end;
	if (from >= to)
		return;
	if (is_zero(tensor, SML_DATA, index)) {
		__builtin_memset(recv + (from - spec->recv_first) * bytes, 0, (to - from) * bytes);
		return;
	}
	if (from == first && to == first + count) {
		decode(tensor, first, lanes, count, recv + (first - spec->recv_first) * bytes);
	} else {
		/* A lane holds two float64 on the int16 wire, or four float32 on the int8 wire. */
		uint8_t whole[16 * SML_MAX_LANES] __attribute__((aligned(8)));

		decode(tensor, first, lanes, count, whole);
		__builtin_memcpy(recv + (from - spec->recv_first) * bytes,
				 whole + (from - first) * bytes, (to - from) * bytes);
	}
}

static void take_exponents(struct sml_tensor *tensor, uint32_t index, const void *lanes)
{
	uint64_t first;
	uint32_t n = head_blocks(tensor, index, &first);

	if (tensor->shape.only_int32)
		sml_narrow_decode(SML_INT16, lanes, n, false, 1, tensor->exponents + first);
	else
		sml_narrow_decode_pairs(SML_INT16, lanes, n, 1, tensor->exponents + first);
}

static void take_head(struct sml_tensor *tensor, uint32_t index, const void *lanes)
{
	switch (tensor->form) {
	case SML_FORM_EXPONENT:
		take_exponents(tensor, index, lanes);
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

void sml_tensor_keep(const struct sml_tensor *tensor)
{
	sml_assert(sml_tensor_is_done(tensor));
	if (tensor->spec.residual)
		__builtin_memcpy(tensor->spec.residual, tensor->lost,
				 (size_t)tensor->spec.count * sizeof(*tensor->lost));
}

bool sml_tensor_recover(const struct sml_tensor *tensor, uint32_t index, void *lanes)
{
	const uint8_t *recv = tensor->spec.recv;
	uint64_t first;
	uint32_t count = chunk_elements(tensor, index, &first);

	sml_assert(tensor->recoverable);
	if (packet_lanes(tensor, SML_DATA, index) == 0)
		return true;
	/* Nobody reads lanes beyond the last element. */
	__builtin_memset(lanes, 0, 4 * packet_lanes(tensor, SML_DATA, index));
	return sml_code_recover(&tensor->code, shared_of(tensor), first,
				recv + first * sml_element_bytes(tensor->spec.type), count, lanes);
}

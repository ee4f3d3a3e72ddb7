/* SPDX-License-Identifier: BSD-3-Clause */
/* The user-space half of pool.h: slots in memory, and the loop over lanes. */
#include "core/pool.h"

#include "core/element.h"
#include "core/exact.h"
#include "core/multiversion.h"

typedef uint32_t lane_t __attribute__((may_alias));
typedef int32_t sum_t __attribute__((may_alias));

size_t sml_lanes_stored_bytes(uint32_t n, uint32_t width)
{
	uint32_t blocks = width ? sml_rounded_blocks(width, n) : 0;
	uint32_t sums = (uint32_t)sizeof(sum_t) * SML_ROUNDED_BLOCK * blocks;

	return sums > 4 * n ? sums : 4 * n;
}

static size_t n_buffers(const struct sml_pool_rules *rules)
{
	return 2u * ((size_t)rules->head_slots + rules->data_slots);
}

static uint32_t stride_of(const struct sml_pool_rules *rules)
{
	uint32_t width = rules->rounds ? SML_ROUNDED_WIDTH_MIN : 0;
	size_t bytes = sml_lanes_stored_bytes(rules->lanes, width);
	size_t doubles = rules->floats ? sizeof(double) * sml_exact_elements(rules->lanes) : 0;

	bytes = bytes > doubles ? bytes : doubles;
	/* Each buffer has its own cache lines, because its neighbors may have other owners. */
	return 64 + ((uint32_t)(bytes + 63) & ~63u);
}

static uint32_t words_stride_of(const struct sml_pool_rules *rules)
{
	size_t words = SML_SUM_WORDS * sml_exact_elements(rules->lanes);

	return rules->floats ? (uint32_t)(sizeof(uint32_t) * words) : 0;
}

size_t sml_pool_memory_bytes(const struct sml_pool_rules *rules)
{
	size_t each = sizeof(struct sml_slot) + stride_of(rules) + words_stride_of(rules);

	return n_buffers(rules) * each + 128;
}

void sml_pool_init(struct sml_pool *pool, const struct sml_pool_rules *rules, void *memory)
{
	size_t n = n_buffers(rules);
	/* Of the first buffer: lanes begin a cache line. */
	uint8_t *lanes = (uint8_t *)(((uintptr_t)memory + 127) & ~(uintptr_t)63);

	sml_assert(rules->n_ranks >= 1 && rules->n_ranks <= SML_MAX_CHILDREN);
	sml_assert(rules->n_shards >= 1 && rules->n_shards <= SML_MAX_SHARDS);
	sml_assert(rules->lanes >= 1 && rules->lanes <= SML_MAX_LANES);
	pool->rules = *rules;
	pool->tickets[SML_HEAD] = rules->head_slots;
	pool->tickets[SML_DATA] = rules->data_slots;
	pool->waited_until_ns = 0;
	pool->stride = stride_of(rules);
	pool->packets = lanes - SML_HEADER_BYTES;
	pool->words_stride = words_stride_of(rules);
	pool->slots = (struct sml_slot *)(void *)(lanes + n * pool->stride);
	pool->words = (uint8_t *)(pool->slots + n);
	for (size_t i = 0; i < n; i++)
		pool->slots[i] = (struct sml_slot){0};
}

struct sml_header sml_pool_probe_up(const struct sml_pool_rules *rules, uint8_t shard,
				    uint16_t lanes, uint32_t renewal)
{
	return (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(rules->parent.job),
		.key_be = sml_be64(rules->parent.cookie),
		.epoch_be = sml_be32(rules->epoch),
		.use_be = sml_be32(renewal),
		.rank = rules->parent.rank,
		.shard = shard,
		.lanes_be = sml_be16(lanes),
	};
}

/*
 * This is the main cost of a switch: one pass over the lanes. op, kind and step are constants in
 * each call below, so that each becomes one vectorized loop.
 */
static inline __attribute__((always_inline)) void
combine_lanes(lane_t *restrict stored, const lane_t *restrict arrived, uint32_t n, uint8_t op,
	      uint8_t lane_kind, enum sml_lane_step step)
{
	/* The halves of a big-endian lane are big-endian too, so one swap works for both kinds. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t in = sml_be32(arrived[i]);

		if (step == SML_LANES_FIRST) {
			stored[i] = in;
			continue;
		}
		in = (uint32_t)sml_lane_combine(op, lane_kind, stored[i], in);
		stored[i] = step == SML_LANES_LAST ? sml_be32(in) : in;
	}
}

/* The contributions that would come last have no lanes. */
SML_MULTIVERSION static void lanes_finish(lane_t *stored, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		stored[i] = sml_be32(stored[i]);
}

SML_MULTIVERSION static void lanes_first(lane_t *stored, const lane_t *arrived, uint32_t n)
{
	combine_lanes(stored, arrived, n, SML_LANE_SUM, SML_LANE_INT32, SML_LANES_FIRST);
}

#define DEFINE_COMBINE(name, op, kind)                                                             \
	SML_MULTIVERSION static void name##_next(lane_t *s, const lane_t *a, uint32_t n)           \
	{                                                                                          \
		combine_lanes(s, a, n, op, kind, SML_LANES_NEXT);                                  \
	}                                                                                          \
	SML_MULTIVERSION static void name##_last(lane_t *s, const lane_t *a, uint32_t n)           \
	{                                                                                          \
		combine_lanes(s, a, n, op, kind, SML_LANES_LAST);                                  \
	}

DEFINE_COMBINE(sum_int32, SML_LANE_SUM, SML_LANE_INT32)
DEFINE_COMBINE(sum_int16, SML_LANE_SUM, SML_LANE_INT16_PAIR)
DEFINE_COMBINE(max_int32, SML_LANE_MAX, SML_LANE_INT32)
DEFINE_COMBINE(max_int16, SML_LANE_MAX, SML_LANE_INT16_PAIR)

/* ---- lanes that are rounded ---- */

/*
 * What arrived of a block, and the sums before it, unless it is the first; with FINISH, nothing
 * arrived. Returns the magnitudes of the sums.
 */
static inline __attribute__((always_inline)) uint32_t add_block(enum sml_lane_step step,
								uint32_t width, sum_t *block,
								const sum_t *sums,
								const uint8_t *lanes, uint8_t shift)
{
	uint32_t magnitudes = 0;

	for (uint32_t i = 0; i < SML_ROUNDED_BLOCK; i++) {
		uint32_t sum = step == SML_LANES_FIRST ? 0 : (uint32_t)sums[i];

		if (step != SML_LANES_FINISH)
			sum += (uint32_t)sml_narrow_load(width, lanes, i)
			       << (shift & SML_ROUNDED_SHIFT_BITS);
		block[i] = (int32_t)sum;
		magnitudes |= sml_rounded_magnitude((int32_t)sum);
	}
	return magnitudes;
}

static inline __attribute__((always_inline)) void round_block(uint32_t width, const sum_t *sums,
							      struct sml_rounded_by by, void *lanes)
{
	for (uint32_t i = 0; i < SML_ROUNDED_BLOCK; i++)
		sml_narrow_store(width, lanes, i, (uint32_t)sml_rounded(width, sums[i], by));
}

/* Blocks whose shifts make a lane of 32 bits. */
#define GROUP 4

/*
 * Complete at most four blocks. Returns the lane of their shifts, big-endian. A block is rounded
 * only after all have been added, because it takes a while until the largest of its sums is known.
 */
static inline __attribute__((always_inline)) lane_t
round_group(enum sml_lane_step step, uint32_t width, const sum_t *sums, const uint8_t *lanes,
	    const uint8_t *shifts, uint32_t n, uint8_t *result)
{
	const uint32_t block_bytes = SML_ROUNDED_BLOCK * width / 8;
	sum_t group[GROUP][SML_ROUNDED_BLOCK];
	uint32_t magnitudes[GROUP], lane = 0;

	for (uint32_t b = 0; b < n; b++)
		magnitudes[b] = add_block(step, width, group[b], sums + b * SML_ROUNDED_BLOCK,
					  lanes + b * block_bytes, shifts[b]);
	for (uint32_t b = 0; b < n; b++) {
		struct sml_rounded_by by;

		sml_find_rounding(&by, width, magnitudes[b]);
		round_block(width, group[b], by, result + b * block_bytes);
		lane |= by.shift << (24 - 8 * b);
	}
	return sml_be32(lane);
}

/*
 * In place: the lanes of a block take less room than its sums, so they overwrite only sums that
 * have been read. The shifts come last, because sums may be where they go.
 */
static inline __attribute__((always_inline)) void round_sums(enum sml_lane_step step,
							     uint32_t width, void *stored,
							     const void *arrived, uint32_t blocks)
{
	const uint32_t block_bytes = SML_ROUNDED_BLOCK * width / 8;
	const uint8_t *lanes = arrived, *shifts = lanes + blocks * block_bytes;
	const sum_t *sums = stored;
	uint8_t *result = stored;
	lane_t rounded[(SML_ROUNDED_BLOCKS_MAX + GROUP - 1) / GROUP];
	uint32_t n = 0;

	for (uint32_t b = 0; b < blocks; b += GROUP)
		rounded[n++] = round_group(step, width, sums + b * SML_ROUNDED_BLOCK,
					   lanes + b * block_bytes, shifts + b,
					   blocks - b < GROUP ? blocks - b : GROUP,
					   result + b * block_bytes);
	/* A copy of unknown length would be a slow instruction. */
	for (uint32_t i = 0; i < n; i++)
		((lane_t *)(void *)(result + blocks * block_bytes))[i] = rounded[i];
}

/* More contributions are to come: the sums stay whole. */
static inline __attribute__((always_inline)) void keep_sums(enum sml_lane_step step, uint32_t width,
							    void *stored, const void *arrived,
							    uint32_t blocks)
{
	const uint32_t block_bytes = SML_ROUNDED_BLOCK * width / 8;
	const uint8_t *lanes = arrived, *shifts = lanes + blocks * block_bytes;

	for (uint32_t b = 0; b < blocks; b++, lanes += block_bytes) {
		sum_t *sums = (sum_t *)stored + b * SML_ROUNDED_BLOCK, block[SML_ROUNDED_BLOCK];

		add_block(step, width, block, sums, lanes, shifts[b]);
		__builtin_memcpy(sums, block, sizeof(block));
	}
}

#define DEFINE_COMBINE_ROUNDED(name, how, step)                                                    \
	SML_MULTIVERSION static void name##_int16(void *s, const void *a, uint32_t blocks)         \
	{                                                                                          \
		how(step, 16, s, a, blocks);                                                       \
	}                                                                                          \
	SML_MULTIVERSION static void name##_int8(void *s, const void *a, uint32_t blocks)          \
	{                                                                                          \
		how(step, 8, s, a, blocks);                                                        \
	}

DEFINE_COMBINE_ROUNDED(rounded_first, keep_sums, SML_LANES_FIRST)
DEFINE_COMBINE_ROUNDED(rounded_next, keep_sums, SML_LANES_NEXT)
DEFINE_COMBINE_ROUNDED(rounded_last, round_sums, SML_LANES_LAST)
DEFINE_COMBINE_ROUNDED(rounded_finish, round_sums, SML_LANES_FINISH)

static void combine_blocks(enum sml_lane_step step, uint32_t width, void *stored,
			   const void *arrived, uint32_t n)
{
	uint32_t blocks = sml_rounded_blocks(width, n);
	bool wide = width == 16;

	sml_assert(blocks <= SML_ROUNDED_BLOCKS_MAX);
	if (step == SML_LANES_FIRST)
		(wide ? rounded_first_int16 : rounded_first_int8)(stored, arrived, blocks);
	else if (step == SML_LANES_NEXT)
		(wide ? rounded_next_int16 : rounded_next_int8)(stored, arrived, blocks);
	else if (step == SML_LANES_LAST)
		(wide ? rounded_last_int16 : rounded_last_int8)(stored, arrived, blocks);
	else
		(wide ? rounded_finish_int16 : rounded_finish_int8)(stored, stored, blocks);
}

void sml_lanes_combine(uint8_t op, uint8_t lane_kind, enum sml_lane_step step, void *stored_lanes,
		       const void *arrived_lanes, uint32_t n)
{
	bool last = step == SML_LANES_LAST;
	const lane_t *arrived = arrived_lanes;
	lane_t *stored = stored_lanes;

	if (step == SML_LANES_NONE)
		return;
	if (step == SML_LANES_ONLY)
		__builtin_memcpy(stored, arrived, 4u * n);
	else if (sml_lane_is_rounded(lane_kind))
		combine_blocks(step, sml_rounded_width(lane_kind), stored, arrived, n);
	else if (step == SML_LANES_FIRST)
		lanes_first(stored, arrived, n);
	else if (step == SML_LANES_FINISH)
		lanes_finish(stored, n);
	else if (op == SML_LANE_MAX && lane_kind == SML_LANE_INT16_PAIR)
		(last ? max_int16_last : max_int16_next)(stored, arrived, n);
	else if (op == SML_LANE_MAX)
		(last ? max_int32_last : max_int32_next)(stored, arrived, n);
	else if (lane_kind == SML_LANE_INT16_PAIR)
		(last ? sum_int16_last : sum_int16_next)(stored, arrived, n);
	else
		(last ? sum_int32_last : sum_int32_next)(stored, arrived, n);
}

/* A contribution without lanes is one of zeros, which also makes -0 positive. */
static void combine_floats(const struct sml_pool *pool, size_t buffer, enum sml_lane_step step,
			   struct sml_header *stored, const struct sml_header *header)
{
	const struct sml_slot *slot = &pool->slots[buffer];
	unsigned divisor = slot->op == SML_LANE_AVG ? pool->rules.divisor : 1;
	const struct sml_exact_sums sums = {
		.doubles = stored + 1,
		.words = (uint32_t *)(void *)(pool->words + buffer * pool->words_stride),
		.after_zeros = slot->n_seen > 1,
	};
	const void *arrived = header + 1;

	if (step == SML_LANES_NONE && slot->omitted)
		return;
	if (step == SML_LANES_NONE || step == SML_LANES_FINISH) {
		step = step == SML_LANES_NONE ? SML_LANES_NEXT : SML_LANES_LAST;
		arrived = NULL;
	}
	sml_exact_combine(slot->lane_kind, step, divisor, sums, arrived, slot->lanes);
}

static struct sml_header *packet_at(const struct sml_pool *pool, size_t buffer)
{
	return (struct sml_header *)(pool->packets + buffer * pool->stride);
}

/* At a leaf: the parent's result becomes the slot's. Apart, to keep the other path's registers. */
static __attribute__((noinline)) enum sml_verdict receive_result(struct sml_pool *pool,
								 const struct sml_header *header,
								 uint32_t length,
								 struct sml_pool_answer *answer)
{
	struct sml_contribution *in = &answer->in;
	enum sml_verdict verdict = sml_pool_check_result(&pool->rules, header, length, in);
	struct sml_header *result;
	struct sml_slot *slot;
	size_t buffer;

	if (verdict != SML_VERDICT_ABSORBED)
		return verdict;
	buffer = 2u * (size_t)in->slot + (in->use & 1u);
	slot = &pool->slots[buffer];
	verdict = sml_slot_accept(slot, in, pool->rules.parent.rank);
	if (verdict != SML_VERDICT_COMPLETED)
		return verdict;
	result = packet_at(pool, buffer);
	__builtin_memcpy(result + 1, header + 1, length - SML_HEADER_BYTES);
	sml_pool_write_header(&pool->rules, slot, in, result);
	answer->packet = result;
	answer->length = length;
	return verdict;
}

enum sml_verdict sml_pool_receive(struct sml_pool *pool, const void *packet, uint32_t length,
				  struct sml_pool_answer *answer)
{
	const struct sml_pool_rules *rules = &pool->rules;
	struct sml_contribution *in = &answer->in;
	const struct sml_header *header = packet;
	enum sml_lane_step step;
	enum sml_verdict verdict;
	struct sml_header *stored;
	struct sml_slot *slot;
	size_t buffer;

	answer->packet = NULL;
	answer->length = 0;
	verdict = sml_pool_check(rules, header, length, in);
	if (verdict == SML_VERDICT_MALFORMED && rules->is_leaf)
		return receive_result(pool, header, length, answer);
	if (verdict != SML_VERDICT_ABSORBED)
		return verdict;
	buffer = 2u * (size_t)in->slot + (in->use & 1u);
	slot = &pool->slots[buffer];
	stored = packet_at(pool, buffer);

	verdict = sml_slot_step(slot, in, sml_pool_all_ranks(rules), rules->is_leaf,
				&pool->tickets[sml_pool_stream_of(rules, in->slot)], &step);
	if (verdict > SML_VERDICT_RESEND_UP)
		return verdict;
	if (verdict != SML_VERDICT_RESEND && verdict != SML_VERDICT_RESEND_UP &&
	    sml_lane_is_float(slot->lane_kind))
		combine_floats(pool, buffer, step, stored, header);
	else if (verdict != SML_VERDICT_RESEND && verdict != SML_VERDICT_RESEND_UP)
		sml_lanes_combine(slot->op, slot->lane_kind, step, stored + 1, header + 1,
				  slot->lanes);
	if (verdict == SML_VERDICT_ABSORBED)
		return verdict;
	if (verdict == SML_VERDICT_COMPLETED)
		sml_pool_write_header(rules, slot, in, stored);
	else if (verdict == SML_VERDICT_FULL)
		sml_pool_write_header_up(rules, slot, in, stored);
	answer->packet = stored;
	answer->length = SML_HEADER_BYTES + sml_lane_bytes(slot->lanes, slot->omitted);
	return verdict;
}

uint64_t sml_pool_waited(struct sml_pool *pool, enum sml_verdict verdict,
			 const struct sml_contribution *in, uint64_t now_ns)
{
	struct sml_slot *slot;

	if (verdict != SML_VERDICT_ABSORBED &&
	    verdict != sml_slot_last_verdict(pool->rules.is_leaf))
		return 0;
	slot = &pool->slots[2u * (size_t)in->slot + (in->use & 1u)];
	if (verdict != SML_VERDICT_ABSORBED)
		return sml_waited(slot->half_ns, &pool->waited_until_ns, now_ns);
	if (slot->n_seen == sml_half_of(pool->rules.n_ranks))
		slot->half_ns = now_ns;
	return 0;
}

const struct sml_slot *sml_pool_newest(const struct sml_pool *pool, uint32_t slot)
{
	const struct sml_slot *even = &pool->slots[2 * slot], *odd = even + 1;

	if (even->state == SML_SLOT_FRESH || odd->state == SML_SLOT_FRESH)
		return odd->state != SML_SLOT_FRESH    ? odd
		       : even->state != SML_SLOT_FRESH ? even
						       : NULL;
	return sml_serial_before(even->use, odd->use) ? odd : even;
}

const char *sml_verdict_name(enum sml_verdict verdict)
{
	static const char *const names[] = {
#define SML_VERDICT_NAME(name, text, meaning) text,
		SML_VERDICT_LIST(SML_VERDICT_NAME)
#undef SML_VERDICT_NAME
	};

	return verdict < SML_VERDICTS ? names[verdict] : "unknown";
}

const char *sml_verdict_meaning(enum sml_verdict verdict)
{
	static const char *const meanings[] = {
#define SML_VERDICT_MEANING(name, text, meaning) meaning,
		SML_VERDICT_LIST(SML_VERDICT_MEANING)
#undef SML_VERDICT_MEANING
	};

	return verdict < SML_VERDICTS ? meanings[verdict] : "unknown";
}

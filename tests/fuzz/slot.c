/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slot against an oracle that keeps every use as a set of ranks. The oracle knows nothing
 * of states, parities of buffers, or bits. In half of the worlds, the slot is a leaf's, whose
 * parent sends results at any time. The lanes are int32, pairs of int16, narrow ones that are
 * rounded, or floats with any bits, in short and in full packets. Some ranks have only zeros, and
 * omit them.
 */
#include <math.h>
#include <string.h>

#include "core/gather.h"
#include "core/pool.h"
#include "fuzz/properties.h"
#include "support/packet.h"

#define MAX_USES  8 /* counted from the first use that a packet can have */
#define MAX_RANKS 3
#define LANES	  352
#define EPOCH	  5
#define JOB	  9
#define LEAF_RANK 2 /* the leaf's, at its parent */

static const struct sml_pool_parent parent = {
	.cookie = 555, .tag = 666, .job = 12, .rank = LEAF_RANK};

struct form {
	uint8_t lane_kind;
	uint16_t lanes;
	uint8_t op;
};

/* Of a block, and of as many as fit. */
static const struct form forms[] = {
	{SML_LANE_INT32, 8, SML_LANE_SUM},	    {SML_LANE_INT32, LANES, SML_LANE_SUM},
	{SML_LANE_INT16_ROUNDED, 33, SML_LANE_SUM}, {SML_LANE_INT16_ROUNDED, 323, SML_LANE_SUM},
	{SML_LANE_INT8_ROUNDED, 17, SML_LANE_SUM},  {SML_LANE_INT8_ROUNDED, 342, SML_LANE_SUM},
	{SML_LANE_FLOAT32, 17, SML_LANE_SUM},	    {SML_LANE_FLOAT32, LANES, SML_LANE_AVG},
	{SML_LANE_FLOAT16, 9, SML_LANE_SUM},	    {SML_LANE_BFLOAT16, 33, SML_LANE_AVG},
	{SML_LANE_INT16_PAIR, 8, SML_LANE_SUM},
};

struct oracle_use {
	bool begun, full, complete, no_lanes;
	bool has[MAX_RANKS];
	uint32_t digest, ticket;
	uint8_t last_rank;
};

struct oracle {
	bool is_leaf;
	struct form form;
	uint32_t zeros[2]; /* ranks that have only zeros, in even and in odd uses */
	uint32_t n_ranks, first_use, next_ticket;
	struct oracle_use uses[MAX_USES];
};

struct slot_world {
	struct sml_pool pool;
	struct oracle oracle;
	uint8_t memory[1 << 17] __attribute__((aligned(64)));
};

struct message {
	struct sml_header header;
	uint32_t lanes_be[LANES];
};

static bool is_zero(const struct oracle *oracle, uint32_t rank, uint32_t t)
{
	return oracle->zeros[t % 2] >> rank & 1;
}

static bool all_are_zero(const struct oracle *oracle, uint32_t t)
{
	return oracle->zeros[t % 2] == (1u << oracle->n_ranks) - 1;
}

static uint32_t length_of(const struct oracle *oracle, bool no_lanes)
{
	return SML_HEADER_BYTES + (no_lanes ? 0 : 4u * oracle->form.lanes);
}

/* A lane value that only this rank's contribution to this use can have added to a sum. */
static uint32_t lane_of(const struct oracle *oracle, uint32_t rank, uint32_t use, uint32_t lane)
{
	if (is_zero(oracle, rank, use))
		return 0;
	/* Two halves with any bits, whose sums may wrap around. */
	if (oracle->form.lane_kind == SML_LANE_INT16_PAIR)
		return (uint32_t)sml_hash_step(rank << 8 | use, lane);
	return (1u << (8 * rank)) + ((use * 37 + lane * 11) % 64 << (8 * rank));
}

/* A narrow number: any that its width can hold. */
static int32_t number_of(const struct oracle *oracle, uint32_t rank, uint32_t use, uint32_t i)
{
	uint32_t width = sml_rounded_width(oracle->form.lane_kind);
	int32_t bits = (int32_t)sml_hash_step(rank << 8 | use, i);

	/* Some blocks are of small numbers, whose sums fit. */
	return is_zero(oracle, rank, use) ? 0 : bits >> (32 - width + i / 64 % 3);
}

static void put_number(uint32_t width, uint32_t *lanes_be, uint32_t i, int32_t number)
{
	uint8_t *byte = (uint8_t *)lanes_be + i * width / 8;

	if (width == 16)
		*byte++ = (uint8_t)((uint32_t)number >> 8);
	*byte = (uint8_t)number;
}

/* The least shift with which the sums of a block fit, and the sums rounded by it, in doubles. */
static uint8_t put_block(uint32_t width, const double *sums, uint32_t *lanes_be, uint32_t first)
{
	double most = ldexp(1, (int)width - 1), unit = 1;
	uint8_t shift = 0;

	for (uint32_t i = 0; i < SML_ROUNDED_BLOCK; i++)
		for (; sums[i] >= most * unit || sums[i] < -most * unit; unit *= 2)
			shift++;
	for (uint32_t i = 0; i < SML_ROUNDED_BLOCK; i++) {
		double rounded = nearbyint(sums[i] / unit);

		put_number(width, lanes_be, first + i,
			   (int32_t)(rounded < most ? rounded : most - 1));
	}
	return shift;
}

/* With any bits: numbers of all sizes, infinities, NaN. */
static void put_floats_of(const struct oracle *oracle, uint32_t t, uint32_t rank,
			  uint32_t *lanes_be)
{
	for (uint32_t i = 0; i < oracle->form.lanes; i++)
		lanes_be[i] =
			is_zero(oracle, rank, t) ? 0 : (uint32_t)sml_hash_step(rank << 8 | t, i);
}

/* A leaf's sum goes up undivided. */
static void put_float_sum(const struct oracle *oracle, uint32_t t, uint32_t *lanes_be)
{
	const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16};
	enum sml_type type = types[oracle->form.lane_kind - SML_LANE_FLOAT32];
	uint32_t lanes = oracle->form.lanes, parts[MAX_RANKS * LANES], result[LANES];
	uint32_t count = type == SML_FLOAT32 ? lanes : 2 * lanes;
	bool is_mean = oracle->form.op == SML_LANE_AVG && !oracle->is_leaf;

	for (uint32_t r = 0; r < oracle->n_ranks; r++)
		put_floats_of(oracle, t, r, parts + r * lanes);
	sml_gather_reduce(type, parts, count, oracle->n_ranks, is_mean ? oracle->n_ranks : 1,
			  result);
	sml_gather_encode(type, result, count, lanes_be);
}

/* The halves of a pair are summed apart. */
static uint32_t add_lanes(uint8_t lane_kind, uint32_t a, uint32_t b)
{
	const uint32_t low = lane_kind == SML_LANE_INT16_PAIR ? 0xffff : UINT32_MAX;

	return ((a & ~low) + (b & ~low)) | ((a + b) & low);
}

/* The integers of a sum of some ranks, from the first one on. */
static void put_integers(const struct oracle *oracle, uint32_t t, uint32_t first, uint32_t n,
			 uint32_t *lanes_be)
{
	uint8_t kind = oracle->form.lane_kind;
	uint32_t width = sml_rounded_width(kind);
	uint32_t lanes = oracle->form.lanes, blocks = sml_rounded_blocks(width, lanes);

	memset(lanes_be, 0, 4u * lanes);
	for (uint32_t i = 0; i < lanes && !sml_lane_is_rounded(kind); i++) {
		uint32_t sum = 0;

		for (uint32_t r = first; r < first + n; r++)
			sum = add_lanes(kind, sum, lane_of(oracle, r, t, i));
		lanes_be[i] = sml_be32(sum);
	}
	for (uint32_t b = 0; b < blocks && sml_lane_is_rounded(kind); b++) {
		double sums[SML_ROUNDED_BLOCK] = {0};

		for (uint32_t i = 0; i < SML_ROUNDED_BLOCK; i++)
			for (uint32_t r = first; r < first + n; r++)
				sums[i] += number_of(oracle, r, t, b * SML_ROUNDED_BLOCK + i);
		((uint8_t *)lanes_be)[blocks * SML_ROUNDED_BLOCK * width / 8 + b] =
			put_block(width, sums, lanes_be, b * SML_ROUNDED_BLOCK);
	}
}

static void put_contribution(const struct oracle *oracle, uint32_t t, uint32_t rank,
			     uint32_t *lanes_be)
{
	if (sml_lane_is_float(oracle->form.lane_kind))
		put_floats_of(oracle, t, rank, lanes_be);
	else
		put_integers(oracle, t, rank, 1, lanes_be);
}

static void put_sum(const struct oracle *oracle, uint32_t t, uint32_t *lanes_be)
{
	if (sml_lane_is_float(oracle->form.lane_kind))
		put_float_sum(oracle, t, lanes_be);
	else
		put_integers(oracle, t, 0, oracle->n_ranks, lanes_be);
}

static void world_init(struct slot_world *world, struct gen *gen, bool tiny)
{
	struct sml_pool_rules rules = {.tag = 77,
				       .job = JOB,
				       .epoch = EPOCH,
				       .data_slots = 1,
				       .n_shards = 1,
				       .rounds = true,
				       .omits = true,
				       .floats = true,
				       .parent = parent};

	memset(world, 0, offsetof(struct slot_world, memory));
	rules.is_leaf = world->oracle.is_leaf = gen_below(gen, 2);
	rules.n_ranks = (uint8_t)gen_range(gen, 1, tiny && rules.is_leaf ? 2 : MAX_RANKS);
	for (uint32_t r = 0; r < rules.n_ranks; r++)
		rules.cookies[r] = 1000 + r;
	rules.divisor = rules.is_leaf ? 1 : (uint16_t)rules.n_ranks;
	world->oracle.n_ranks = rules.n_ranks;
	world->oracle.next_ticket = 1;
	world->oracle.form = forms[tiny ? 0 : gen_below(gen, sizeof(forms) / sizeof(forms[0]))];
	/* Of all choices in turn, those of one use are enough: the other's would take four times as
	 * long. */
	for (uint32_t i = 0; i < (tiny ? 1 : 2); i++)
		world->oracle.zeros[i] = gen_below(gen, tiny ? 2 : 1u << rules.n_ranks);
	rules.lanes = world->oracle.form.lanes;
	sml_assert(sml_pool_memory_bytes(&rules) <= sizeof(world->memory));
	sml_pool_init(&world->pool, &rules, world->memory);
	if (gen_below(gen, 2) == 0)
		return;
	/* An old slot, just before its use number wraps around. */
	world->oracle.first_use = (uint32_t) - (tiny ? 2 : 4);
	for (uint32_t b = 0; b < 2; b++) {
		world->pool.slots[b].state = SML_SLOT_COMPLETE;
		world->pool.slots[b].use = world->oracle.first_use - 2 + b;
		world->pool.slots[b].seen = sml_pool_all_ranks(&rules);
	}
}

/* The last use of the same parity that has begun, or -1. */
static int last_begun(const struct oracle *oracle, uint32_t t)
{
	int last = -1;

	for (int i = (int)(t & 1); i < MAX_USES; i += 2)
		if (oracle->uses[i].begun)
			last = i;
	return last;
}

static enum sml_verdict oracle_step(struct oracle *oracle, uint32_t t, uint32_t rank,
				    uint32_t digest)
{
	struct oracle_use *use = &oracle->uses[t];
	int last = last_begun(oracle, t);
	uint32_t n = 0;

	if (last < 0 ? t > 1 : (int)t > last + 2)
		return SML_VERDICT_EARLY_USE;
	if ((int)t < last)
		return SML_VERDICT_STALE_USE;
	if (!use->begun && last >= 0 && !oracle->uses[last].complete)
		return SML_VERDICT_EARLY_USE;
	if (use->complete)
		return SML_VERDICT_RESEND;
	if (use->full)
		return SML_VERDICT_RESEND_UP;
	if (use->begun && use->has[rank])
		return SML_VERDICT_DUPLICATE;
	if (use->begun && use->digest != digest)
		return SML_VERDICT_MISMATCH;
	use->begun = true;
	use->digest = digest;
	use->has[rank] = true;
	for (uint32_t r = 0; r < oracle->n_ranks; r++)
		n += use->has[r];
	if (n < oracle->n_ranks)
		return SML_VERDICT_ABSORBED;
	use->last_rank = (uint8_t)rank;
	use->full = true;
	if (oracle->is_leaf)
		return SML_VERDICT_FULL;
	use->complete = true;
	use->no_lanes = all_are_zero(oracle, t);
	use->ticket = oracle->next_ticket++;
	return SML_VERDICT_COMPLETED;
}

/* At a leaf: a result of the parent. */
static enum sml_verdict oracle_accept(struct oracle *oracle, uint32_t t, uint32_t digest,
				      uint32_t ticket, uint8_t last_rank, bool no_lanes)
{
	struct oracle_use *use = &oracle->uses[t];

	if (!oracle->is_leaf)
		return SML_VERDICT_MALFORMED;
	if ((int)t < last_begun(oracle, t))
		return SML_VERDICT_STALE_USE;
	if (use->complete)
		return SML_VERDICT_DUPLICATE;
	if (!use->full)
		return SML_VERDICT_EARLY_USE;
	if (use->digest != digest)
		return SML_VERDICT_MALFORMED;
	use->complete = true;
	use->ticket = ticket;
	use->no_lanes = no_lanes;
	if (last_rank != LEAF_RANK)
		use->last_rank = SML_NO_RANK;
	return SML_VERDICT_COMPLETED;
}

static uint8_t kind_of(const struct oracle *oracle, bool no_lanes)
{
	return oracle->form.lane_kind | (no_lanes ? SML_LANES_OMITTED : 0);
}

/* Of use t, which has lanes or omits them. */
static struct sml_header header_of(const struct oracle *oracle, uint32_t t, struct sml_header begun,
				   uint32_t digest, uint32_t rank, bool no_lanes)
{
	begun.use_be = sml_be32(oracle->first_use + t);
	begun.digest_be = sml_be32(digest);
	begun.rank = (uint8_t)rank;
	begun.op = oracle->form.op;
	begun.lane_kind = kind_of(oracle, no_lanes);
	return begun;
}

static void fill(struct message *message, const struct oracle *oracle, uint32_t t, uint32_t rank,
		 uint32_t digest, bool no_lanes)
{
	message->header = header_of(
		oracle, t,
		packet_header(SML_PACKET_CONTRIBUTION, JOB, EPOCH, 1000 + rank, oracle->form.lanes),
		digest, rank, no_lanes);
	put_contribution(oracle, t, rank, message->lanes_be);
}

/* The whole job's sum: at a leaf, that of more ranks, which have whatever the parent sends. */
static void put_result(const struct oracle *oracle, uint32_t t, uint32_t *lanes_be)
{
	put_sum(oracle, t, lanes_be);
	for (uint32_t i = 0; i < oracle->form.lanes && oracle->is_leaf; i++)
		lanes_be[i] += sml_be32(0x5000000u + i);
}

static void fill_result(struct message *message, const struct oracle *oracle, uint32_t t,
			uint32_t digest, uint32_t ticket, uint8_t last_rank, bool no_lanes)
{
	message->header = header_of(
		oracle, t,
		packet_header(SML_PACKET_RESULT, parent.job, EPOCH, parent.tag, oracle->form.lanes),
		digest, last_rank, no_lanes);
	message->header.chunk_be = sml_be32(ticket);
	put_result(oracle, t, message->lanes_be);
}

static const char *check_lanes(const struct message *message, uint32_t length,
			       const struct oracle *oracle, uint32_t t, bool up)
{
	bool no_lanes = up ? all_are_zero(oracle, t) : oracle->uses[t].no_lanes;
	uint32_t expected[LANES];

	PROPERTY_CHECK(length == length_of(oracle, no_lanes) &&
			       message->header.lane_kind == kind_of(oracle, no_lanes) &&
			       message->header.lanes_be == sml_be16(oracle->form.lanes),
		       "the sum has lanes that it should not have, or too few");
	if (no_lanes)
		return NULL;
	if (up)
		put_sum(oracle, t, expected);
	else
		put_result(oracle, t, expected);
	PROPERTY_CHECK(memcmp(message->lanes_be, expected, 4u * oracle->form.lanes) == 0,
		       "the sum is wrong");
	return NULL;
}

static const char *check_up(const struct oracle *oracle, uint32_t t,
			    const struct sml_pool_answer *answer)
{
	const struct message *sum = answer->packet;

	PROPERTY_CHECK(sum != NULL && answer->length >= SML_HEADER_BYTES,
		       "nothing goes to the parent");
	PROPERTY_CHECK(sum->header.kind == SML_PACKET_CONTRIBUTION &&
			       sum->header.key_be == sml_be64(parent.cookie) &&
			       sum->header.job_be == sml_be32(parent.job) &&
			       sum->header.rank == LEAF_RANK &&
			       sum->header.use_be == sml_be32(oracle->first_use + t) &&
			       sum->header.digest_be == sml_be32(oracle->uses[t].digest),
		       "what goes to the parent is of something else");
	return check_lanes(sum, answer->length, oracle, t, true);
}

static const char *check_result(const struct oracle *oracle, uint32_t t,
				const struct sml_pool_answer *answer)
{
	const struct message *result = answer->packet;

	PROPERTY_CHECK(result != NULL && answer->length >= SML_HEADER_BYTES, "no result was sent");
	PROPERTY_CHECK(result->header.key_be == sml_be64(77) &&
			       result->header.use_be == sml_be32(oracle->first_use + t) &&
			       result->header.kind == SML_PACKET_RESULT &&
			       result->header.digest_be == sml_be32(oracle->uses[t].digest),
		       "the result is of something else");
	PROPERTY_CHECK(result->header.chunk_be == sml_be32(oracle->uses[t].ticket),
		       "the ticket is not the use's");
	PROPERTY_CHECK(result->header.rank == oracle->uses[t].last_rank,
		       "another rank was the last");
	return check_lanes(result, answer->length, oracle, t, false);
}

static const char *check_answer(const struct slot_world *world, uint32_t t,
				enum sml_verdict verdict, const struct sml_pool_answer *answer)
{
	PROPERTY_CHECK(world->pool.tickets[SML_DATA] == world->oracle.next_ticket,
		       "a ticket was drawn that was not due, or one was not");
	if (verdict == SML_VERDICT_COMPLETED || verdict == SML_VERDICT_RESEND)
		return check_result(&world->oracle, t, answer);
	if (verdict == SML_VERDICT_FULL || verdict == SML_VERDICT_RESEND_UP)
		return check_up(&world->oracle, t, answer);
	PROPERTY_CHECK(answer->packet == NULL && answer->length == 0, "something was sent");
	return NULL;
}

static const char *step_result(struct slot_world *world, struct gen *gen, bool tiny, uint32_t t,
			       uint32_t digest)
{
	uint32_t ticket = tiny ? 9 : gen_below(gen, 1000);
	uint8_t last_rank = (uint8_t)(tiny ? LEAF_RANK : gen_range(gen, LEAF_RANK, LEAF_RANK + 1));
	/* A parent may send the zeros of a sum that has none. */
	bool no_lanes = all_are_zero(&world->oracle, t) && (tiny || gen_below(gen, 2));
	enum sml_verdict expected =
		oracle_accept(&world->oracle, t, digest, ticket, last_rank, no_lanes);
	struct sml_pool_answer answer;
	struct message message;

	fill_result(&message, &world->oracle, t, digest, ticket, last_rank, no_lanes);
	PROPERTY_CHECK(sml_pool_receive(&world->pool, &message, length_of(&world->oracle, no_lanes),
					&answer) == expected,
		       "the verdict on a result is not the oracle's");
	return check_answer(world, t, expected, &answer);
}

static const char *step(struct slot_world *world, struct gen *gen, bool tiny)
{
	struct oracle *oracle = &world->oracle;
	bool is_result = gen_below(gen, oracle->is_leaf ? 2 : tiny ? 1 : 8) == 1;
	uint32_t t = gen_below(gen, !tiny ? MAX_USES : oracle->is_leaf ? 3 : 5);
	uint32_t digest = tiny || gen_below(gen, 8) ? 3 : 4, rank;
	struct sml_pool_answer answer;
	enum sml_verdict expected;
	struct message message;
	bool no_lanes;

	if (is_result)
		return step_result(world, gen, tiny, t, digest);
	rank = gen_below(gen, oracle->n_ranks);
	no_lanes = is_zero(oracle, rank, t);
	/* A rank asks again without its lanes, or with them, whatever it sent before. */
	if (!tiny && oracle->uses[t].has[rank])
		no_lanes = gen_below(gen, 2);
	expected = oracle_step(oracle, t, rank, digest);
	fill(&message, oracle, t, rank, digest, no_lanes);
	PROPERTY_CHECK(sml_pool_receive(&world->pool, &message, length_of(oracle, no_lanes),
					&answer) == expected,
		       "the verdict is not the oracle's");
	return check_answer(world, t, expected, &answer);
}

const char *property_slot(struct gen *gen, bool tiny)
{
	struct slot_world world;
	uint32_t n_steps = tiny ? 5 : 64;
	const char *wrong = NULL;

	world_init(&world, gen, tiny);
	for (uint32_t i = 0; i < n_steps && wrong == NULL; i++)
		wrong = step(&world, gen, tiny);
	return wrong;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A slot against an oracle that keeps every use as a set of ranks. The oracle knows nothing
 * of states, parities of buffers, or bits. In half of the worlds, the slot is a leaf's, whose
 * parent sends results at any time.
 */
#include <string.h>

#include "core/pool.h"
#include "fuzz/properties.h"

#define MAX_USES  8 /* counted from the first use that a packet can have */
#define MAX_RANKS 3
#define LANES	  8
#define EPOCH	  5
#define JOB	  9
#define LEAF_RANK 2 /* the leaf's, at its parent */

static const struct sml_pool_parent parent = {
	.cookie = 555, .tag = 666, .job = 12, .rank = LEAF_RANK};

struct oracle_use {
	bool begun, full, complete;
	bool has[MAX_RANKS];
	uint32_t digest, ticket;
	uint8_t last_rank;
};

struct oracle {
	bool is_leaf;
	uint32_t n_ranks, first_use, next_ticket;
	struct oracle_use uses[MAX_USES];
};

struct slot_world {
	struct sml_pool pool;
	struct oracle oracle;
	uint8_t memory[2 * (2 * sizeof(struct sml_slot) + 2 * 128) + 256]
		__attribute__((aligned(64)));
};

struct message {
	struct sml_header header;
	uint32_t lanes_be[LANES];
};

/* A lane value that only this rank's contribution to this use can have added to a sum. */
static uint32_t lane_of(uint32_t rank, uint32_t use, uint32_t lane)
{
	return (1u << (8 * rank)) + ((use * 37 + lane * 11) % 64 << (8 * rank));
}

static void world_init(struct slot_world *world, struct gen *gen, bool tiny)
{
	struct sml_pool_rules rules = {.tag = 77,
				       .job = JOB,
				       .epoch = EPOCH,
				       .data_slots = 1,
				       .lanes = LANES,
				       .n_shards = 1,
				       .parent = parent};

	memset(world, 0, sizeof(*world));
	rules.is_leaf = world->oracle.is_leaf = gen_below(gen, 2);
	rules.n_ranks = (uint8_t)gen_range(gen, 1, tiny && rules.is_leaf ? 2 : MAX_RANKS);
	for (uint32_t r = 0; r < rules.n_ranks; r++)
		rules.cookies[r] = 1000 + r;
	world->oracle.n_ranks = rules.n_ranks;
	world->oracle.next_ticket = 1;
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
	use->ticket = oracle->next_ticket++;
	return SML_VERDICT_COMPLETED;
}

/* At a leaf: a result of the parent. */
static enum sml_verdict oracle_accept(struct oracle *oracle, uint32_t t, uint32_t digest,
				      uint32_t ticket, uint8_t last_rank)
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
	if (last_rank != LEAF_RANK)
		use->last_rank = SML_NO_RANK;
	return SML_VERDICT_COMPLETED;
}

/* What the ranks of this switch sum to. */
static uint32_t sum_of(const struct oracle *oracle, uint32_t t, uint32_t lane)
{
	uint32_t sum = 0;

	for (uint32_t r = 0; r < oracle->n_ranks; r++)
		sum += lane_of(r, t, lane);
	return sum;
}

static void fill(struct message *message, const struct oracle *oracle, uint32_t t, uint32_t rank,
		 uint32_t digest)
{
	message->header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.job_be = sml_be32(JOB),
		.key_be = sml_be64(1000 + rank),
		.epoch_be = sml_be32(EPOCH),
		.use_be = sml_be32(oracle->first_use + t),
		.digest_be = sml_be32(digest),
		.rank = (uint8_t)rank,
		.lanes_be = sml_be16(LANES),
	};
	for (uint32_t i = 0; i < LANES; i++)
		message->lanes_be[i] = sml_be32(lane_of(rank, t, i));
}

/* The whole job's sum. */
static uint32_t result_of(const struct oracle *oracle, uint32_t t, uint32_t lane)
{
	return sum_of(oracle, t, lane) + (oracle->is_leaf ? 0x5000000u + lane : 0);
}

static void fill_result(struct message *message, const struct oracle *oracle, uint32_t t,
			uint32_t digest, uint32_t ticket, uint8_t last_rank)
{
	message->header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_RESULT,
		.job_be = sml_be32(parent.job),
		.key_be = sml_be64(parent.tag),
		.epoch_be = sml_be32(EPOCH),
		.use_be = sml_be32(oracle->first_use + t),
		.chunk_be = sml_be32(ticket),
		.digest_be = sml_be32(digest),
		.rank = last_rank,
		.lanes_be = sml_be16(LANES),
	};
	for (uint32_t i = 0; i < LANES; i++)
		message->lanes_be[i] = sml_be32(result_of(oracle, t, i));
}

static const char *check_lanes(const struct message *message, const struct oracle *oracle,
			       uint32_t t, bool up)
{
	for (uint32_t i = 0; i < LANES; i++)
		PROPERTY_CHECK(message->lanes_be[i] ==
				       sml_be32((up ? sum_of : result_of)(oracle, t, i)),
			       "the sum is wrong");
	return NULL;
}

static const char *check_up(const struct oracle *oracle, uint32_t t,
			    const struct sml_pool_answer *answer)
{
	const struct message *sum = answer->packet;

	PROPERTY_CHECK(sum != NULL && answer->length == sizeof(*sum), "nothing goes to the parent");
	PROPERTY_CHECK(sum->header.kind == SML_PACKET_CONTRIBUTION &&
			       sum->header.key_be == sml_be64(parent.cookie) &&
			       sum->header.job_be == sml_be32(parent.job) &&
			       sum->header.rank == LEAF_RANK &&
			       sum->header.use_be == sml_be32(oracle->first_use + t) &&
			       sum->header.digest_be == sml_be32(oracle->uses[t].digest),
		       "what goes to the parent is of something else");
	return check_lanes(sum, oracle, t, true);
}

static const char *check_result(const struct oracle *oracle, uint32_t t,
				const struct sml_pool_answer *answer)
{
	const struct message *result = answer->packet;

	PROPERTY_CHECK(result != NULL && answer->length == sizeof(*result), "no result was sent");
	PROPERTY_CHECK(result->header.key_be == sml_be64(77) &&
			       result->header.use_be == sml_be32(oracle->first_use + t) &&
			       result->header.kind == SML_PACKET_RESULT &&
			       result->header.digest_be == sml_be32(oracle->uses[t].digest),
		       "the result is of something else");
	PROPERTY_CHECK(result->header.chunk_be == sml_be32(oracle->uses[t].ticket),
		       "the ticket is not the use's");
	PROPERTY_CHECK(result->header.rank == oracle->uses[t].last_rank,
		       "another rank was the last");
	return check_lanes(result, oracle, t, false);
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
	enum sml_verdict expected = oracle_accept(&world->oracle, t, digest, ticket, last_rank);
	struct sml_pool_answer answer;
	struct message message;

	fill_result(&message, &world->oracle, t, digest, ticket, last_rank);
	PROPERTY_CHECK(sml_pool_receive(&world->pool, &message, sizeof(message), &answer) ==
			       expected,
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

	if (is_result)
		return step_result(world, gen, tiny, t, digest);
	rank = gen_below(gen, oracle->n_ranks);
	expected = oracle_step(oracle, t, rank, digest);
	fill(&message, oracle, t, rank, digest);
	PROPERTY_CHECK(sml_pool_receive(&world->pool, &message, sizeof(message), &answer) ==
			       expected,
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets from strangers, and old packets, beside a running job. */
#include <string.h>

#include "fuzz/properties.h"
#include "support/rig.h"

#define MAX_OLD 32

struct pool_world {
	struct rig rig;
	struct rig_packet old[MAX_OLD]; /* all packets that the ranks sent, lost or not */
	uint32_t n_old;
	/* The results of complete slots, as sent. */
	struct rig_packet shown[2 * 8];
};

/* ---- what must never change ---- */

static uint32_t n_buffers(const struct sml_pool *pool)
{
	return 2u * ((uint32_t)pool->rules.head_slots + pool->rules.data_slots);
}

/* The bytes of a complete buffer stay the same until its next use begins. */
static const char *check_complete(struct pool_world *world)
{
	const struct sml_pool *pool = &world->rig.pool;

	for (uint32_t b = 0; b < n_buffers(pool); b++) {
		struct rig_packet *shown = &world->shown[b];
		const struct sml_header *header = (const struct sml_header *)shown->bytes;

		if (pool->slots[b].state != SML_SLOT_COMPLETE) {
			shown->length = 0;
			continue;
		}
		if (shown->length == 0) {
			shown->length = SML_HEADER_BYTES + sml_lane_bytes(pool->slots[b].lanes,
									  pool->slots[b].omitted);
			memcpy(shown->bytes, pool->packets + (size_t)b * pool->stride,
			       shown->length);
		} else if (header->use_be == sml_be32(pool->slots[b].use)) {
			PROPERTY_CHECK(memcmp(shown->bytes,
					      pool->packets + (size_t)b * pool->stride,
					      shown->length) == 0,
				       "a complete slot's result changed");
		} else {
			shown->length = 0;
		}
	}
	return NULL;
}

/* ---- strangers ---- */

static void draw_bytes(struct gen *gen, struct rig_packet *packet)
{
	packet->length = gen_wide(gen, RIG_PACKET_BYTES + 1);
	for (uint32_t i = 0; i < packet->length; i++)
		packet->bytes[i] = gen->mode == GEN_ALL ? 0 : (uint8_t)gen_below(gen, 256);
}

/* Make one thing wrong in a packet of the job. False: the packet is still correct. */
static bool spoil(struct gen *gen, const struct sml_pool_rules *rules, struct rig_packet *packet)
{
	struct sml_header *header = (struct sml_header *)packet->bytes, before = *header;
	uint32_t length = packet->length;

	switch (gen_below(gen, 9)) {
	case 0:
		header->key_be = sml_be64(gen_wide(gen, UINT32_MAX));
		break;
	case 1:
		header->version = (uint8_t)gen_wide(gen, 256);
		break;
	case 2:
		header->kind = (uint8_t)gen_wide(gen, 256);
		break;
	case 3:
		header->magic_be = (uint16_t)gen_wide(gen, 65536);
		break;
	case 4:
		header->job_be = sml_be32(gen_wide(gen, UINT32_MAX));
		break;
	case 5:
		header->epoch_be = sml_be32(rules->epoch + gen_range(gen, 0, 2) - 1);
		break;
	case 6:
		header->rank = (uint8_t)(rules->n_ranks + gen_wide(gen, 256u - rules->n_ranks));
		break;
	case 7:
		packet->length = gen_wide(gen, RIG_PACKET_BYTES + 1);
		break;
	case 8: /* a full packet's header may claim more than there is; without lanes, than fit */
		header->lanes_be = sml_be16((uint16_t)gen_wide(gen, 65536));
		if (header->lane_kind & SML_LANES_OMITTED)
			header->lanes_be |= sml_be16(1024);
		break;
	}
	return packet->length != length || memcmp(&before, header, sizeof(before)) != 0;
}

/*
 * Does the packet contain a rank's cookie? Then it is not a stranger's packet, and it may do
 * what the rank's packets may do.
 */
static bool knows_a_cookie(const struct sml_pool_rules *rules, const struct rig_packet *packet)
{
	const struct sml_header *header = (const struct sml_header *)packet->bytes;

	return packet->length >= SML_HEADER_BYTES && header->rank < rules->n_ranks &&
	       header->key_be == sml_be64(rules->cookies[header->rank]);
}

static const char *stranger(struct pool_world *world, struct gen *gen)
{
	struct rig *rig = &world->rig;
	struct guarded before = guard_take(rig->pool_memory.n);
	uint32_t tickets[SML_STREAMS] = {rig->pool.tickets[0], rig->pool.tickets[1]};
	struct rig_packet packet;
	struct sml_pool_answer answer;
	enum sml_verdict verdict;
	bool spoilt = false, unchanged;

	if (world->n_old == 0 || gen_seldom(gen)) {
		draw_bytes(gen, &packet);
	} else {
		packet = world->old[gen_below(gen, world->n_old)];
		spoilt = spoil(gen, &rig->pool.rules, &packet);
	}
	if (!spoilt && knows_a_cookie(&rig->pool.rules, &packet)) {
		guard_give(&before);
		return NULL;
	}
	memcpy(before.bytes, rig->pool_memory.bytes, before.n);
	verdict = rig_to_switch(rig, &packet, &answer);
	unchanged = memcmp(before.bytes, rig->pool_memory.bytes, before.n) == 0 &&
		    tickets[0] == rig->pool.tickets[0] && tickets[1] == rig->pool.tickets[1];
	guard_give(&before);
	PROPERTY_CHECK(verdict >= SML_VERDICT_MALFORMED && verdict < SML_VERDICTS,
		       "a stranger's packet was let in");
	PROPERTY_CHECK(unchanged, "a refused packet changed the pool");
	PROPERTY_CHECK(answer.packet == NULL && answer.length == 0,
		       "a refused packet was answered");
	return NULL;
}

/* ---- the job's own ---- */

static const char *arrive(struct pool_world *world, struct gen *gen,
			  const struct rig_packet *packet)
{
	struct rig *rig = &world->rig;
	struct sml_pool_answer answer;
	enum sml_verdict verdict = rig_to_switch(rig, packet, &answer);

	PROPERTY_CHECK(verdict != SML_VERDICT_MISMATCH && verdict < SML_VERDICT_MALFORMED,
		       "a packet of the job's own was refused");
	for (uint32_t r = 0; r < rig->n_ranks && answer.packet != NULL; r++)
		if ((verdict == SML_VERDICT_COMPLETED || answer.in.rank == r) && !gen_seldom(gen))
			rig_to_rank(rig, r, answer.packet, answer.length);
	return NULL;
}

static const char *step(struct pool_world *world, struct gen *gen)
{
	struct rig *rig = &world->rig;
	uint32_t rank = gen_below(gen, rig->n_ranks);
	struct rig_packet packet;

	switch (gen_below(gen, gen->mode == GEN_ALL ? 4 : 6)) {
	default: /* a rank sends a packet, which may get lost */
		if (!rig_send(rig, rank, &packet))
			return NULL;
		world->old[world->n_old < MAX_OLD ? world->n_old++ : gen_below(gen, MAX_OLD)] =
			packet;
		return gen_seldom(gen) ? NULL : arrive(world, gen, &packet);
	case 0: /* an old packet arrives again */
		return world->n_old ? arrive(world, gen, &world->old[gen_below(gen, world->n_old)])
				    : NULL;
	case 1: /* time passes */
		rig->now_ns += 30000000;
		sml_worker_expire(&rig->ranks[rank].worker, rig->now_ns);
		return NULL;
	case 2:
		return stranger(world, gen);
	}
}

static const char *run(struct pool_world *world, struct gen *gen, uint32_t n_steps)
{
	uint64_t n = 0;
	const char *wrong;

	for (uint32_t i = 0; i < n_steps; i++) {
		wrong = step(world, gen);
		if (wrong == NULL)
			wrong = check_complete(world);
		if (wrong != NULL)
			return wrong;
	}
	PROPERTY_CHECK(rig_run_calmly(&world->rig), "the job does not complete");
	PROPERTY_CHECK(rig_sums_are_exact(&world->rig), "a sum is wrong");
	for (uint32_t i = 0; i < SML_VERDICTS; i++)
		n += world->rig.verdicts[i];
	PROPERTY_CHECK(n == world->rig.n_received, "a packet was not counted");
	return NULL;
}

const char *property_pool(struct gen *gen, bool tiny)
{
	static struct pool_world world;
	uint32_t n_ranks = tiny ? 2 : gen_range(gen, 1, RIG_RANKS);
	uint16_t lanes = !tiny && gen_below(gen, 4) == 3 ? RIG_LANES_MOST : RIG_LANES;
	bool omits = gen_below(gen, 2);
	const char *wrong;

	rig_init_with(&world.rig, n_ranks, (uint16_t)(tiny ? 1 : gen_range(gen, 1, 3)),
		      (uint16_t)(tiny ? 1 : gen_range(gen, 1, 4)), lanes, omits);
	world.n_old = 0;
	memset(world.shown, 0, sizeof(world.shown));
	for (uint32_t i = 0; i < (tiny ? 1 : gen_range(gen, 1, 4)); i++)
		rig_submit(&world.rig, tiny ? 12 : gen_below(gen, 60) * lanes / RIG_LANES);
	wrong = run(&world, gen, tiny ? 3 : 80);
	if (!rig_fini(&world.rig) && wrong == NULL)
		wrong = "something was written outside its memory";
	return wrong;
}

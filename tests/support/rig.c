/* SPDX-License-Identifier: BSD-3-Clause */
/* A small job under full control: see rig.h. */
#include "support/rig.h"

#include <string.h>

#define JOB   7
#define EPOCH 3
#define TAG   0x7461672d7461672dull
/* A round is a round trip of all ranks. No test needs this many. */
#define MAX_ROUNDS 2000

static uint64_t cookie_of(uint32_t rank)
{
	return 0x636f6f6b69650000ull + rank;
}

struct sml_worker_config rig_worker_config(const struct rig *rig, uint32_t rank)
{
	return (struct sml_worker_config){
		.cookie = cookie_of(rank),
		.tag = TAG,
		.job = JOB,
		.epoch = EPOCH,
		.shape = {.lanes = rig->pool.rules.lanes,
			  .rank = (uint8_t)rank,
			  .n_ranks = (uint8_t)rig->n_ranks},
		.head_slots = rig->pool.rules.head_slots,
		.data_slots = rig->pool.rules.data_slots,
		.n_shards = 1,
		.n_stripes = 1,
		.number = (uint8_t)rank,
		.omits = rig->omits,
		.window_max = 1024,
	};
}

void rig_init(struct rig *rig, uint32_t n_ranks, uint16_t head_slots, uint16_t data_slots)
{
	rig_init_with(rig, n_ranks, head_slots, data_slots, RIG_LANES, false);
}

void rig_init_with(struct rig *rig, uint32_t n_ranks, uint16_t head_slots, uint16_t data_slots,
		   uint16_t lanes, bool omits)
{
	struct sml_pool_rules rules = {
		.tag = TAG,
		.job = JOB,
		.epoch = EPOCH,
		.head_slots = head_slots,
		.data_slots = data_slots,
		.lanes = lanes,
		.n_ranks = (uint8_t)n_ranks,
		.n_shards = 1,
		.omits = omits,
	};

	memset(rig, 0, sizeof(*rig));
	rig->n_ranks = n_ranks;
	rig->omits = omits;
	rig->now_ns = 1000000000;
	for (uint32_t r = 0; r < n_ranks; r++)
		rules.cookies[r] = cookie_of(r);
	rig->pool_memory = guard_take(sml_pool_memory_bytes(&rules));
	sml_pool_init(&rig->pool, &rules, rig->pool_memory.bytes);
	for (uint32_t r = 0; r < n_ranks; r++) {
		struct sml_worker_config config = rig_worker_config(rig, r);

		rig->ranks[r].memory = guard_take(sml_worker_memory_bytes(&config));
		sml_worker_init(&rig->ranks[r].worker, &config, rig->ranks[r].memory.bytes);
	}
}

bool rig_fini(struct rig *rig)
{
	bool whole = guard_give(&rig->pool_memory);

	for (uint32_t r = 0; r < rig->n_ranks; r++) {
		struct rig_rank *rank = &rig->ranks[r];

		whole &= guard_give(&rank->memory);
		for (uint32_t i = 0; i < rank->n_calls; i++) {
			whole &= guard_give(&rank->calls[i].memory);
			whole &= guard_give(&rank->calls[i].send);
			whole &= guard_give(&rank->calls[i].recv);
		}
	}
	return whole;
}

/* ---- calls ---- */

static int32_t element(const struct rig *rig, uint32_t rank, uint32_t call, uint32_t i)
{
	if (rig->omits && (i / rig->pool.rules.lanes + rank + call) % 3 < 2)
		return 0;
	return (int32_t)((i + 1) * 1000003u * (call + 1) << rank) - (int32_t)rank;
}

void rig_submit_to(struct rig *rig, uint32_t rank, uint32_t count)
{
	struct rig_rank *end = &rig->ranks[rank];
	uint32_t number = end->n_calls++;
	struct rig_call *call = &end->calls[number];
	struct sml_shape shape = end->worker.config.shape;
	struct sml_tensor_spec spec = {.type = SML_INT32,
				       .op = SML_SUM,
				       .wire = SML_WIRE_INT32,
				       .count = count,
				       .send_count = count,
				       .recv_count = count};

	sml_assert(number < RIG_TENSORS);
	call->count = count;
	call->send = guard_take(4 * (size_t)count);
	call->recv = guard_take(4 * (size_t)count);
	spec.send = call->send.bytes;
	spec.recv = call->recv.bytes;
	for (uint32_t i = 0; i < count; i++)
		((int32_t *)(void *)call->send.bytes)[i] = element(rig, rank, number, i);
	call->memory = guard_take(sml_tensor_memory_bytes(&spec, &shape));
	sml_tensor_init(&call->tensor, &spec, &shape, &end->sequence, call->memory.bytes);
	sml_assert(sml_worker_submit(&end->worker, &call->tensor));
}

void rig_submit(struct rig *rig, uint32_t count)
{
	for (uint32_t r = 0; r < rig->n_ranks; r++)
		rig_submit_to(rig, r, count);
}

bool rig_sums_are_exact(const struct rig *rig)
{
	for (uint32_t r = 0; r < rig->n_ranks; r++) {
		for (uint32_t c = 0; c < rig->ranks[r].n_calls; c++) {
			const struct rig_call *call = &rig->ranks[r].calls[c];

			for (uint32_t i = 0; i < call->count; i++) {
				uint32_t sum = 0, got;

				for (uint32_t from = 0; from < rig->n_ranks; from++)
					sum += (uint32_t)element(rig, from, c, i);
				memcpy(&got, call->recv.bytes + 4 * (size_t)i, 4);
				if (got != sum)
					return false;
			}
		}
	}
	return true;
}

/* ---- packets ---- */

bool rig_send(struct rig *rig, uint32_t rank, struct rig_packet *packet)
{
	packet->length =
		(uint32_t)sml_worker_send(&rig->ranks[rank].worker, packet->bytes, rig->now_ns);
	return packet->length > 0;
}

enum sml_verdict rig_to_switch(struct rig *rig, const struct rig_packet *packet,
			       struct sml_pool_answer *answer)
{
	/* The allocation ends where the packet ends, so that reads beyond it are detected. */
	struct guarded copy = guard_take(packet->length);
	enum sml_verdict verdict;

	memcpy(copy.bytes, packet->bytes, packet->length);
	verdict = sml_pool_receive(&rig->pool, copy.bytes, packet->length, answer);
	rig->verdicts[verdict]++;
	rig->n_received++;
	guard_give(&copy);
	return verdict;
}

enum sml_worker_verdict rig_to_rank(struct rig *rig, uint32_t rank, const void *packet,
				    uint32_t length)
{
	return sml_worker_receive(&rig->ranks[rank].worker, packet, length, rig->now_ns);
}

void rig_answer(const struct rig *rig, const struct rig_packet *packet, uint32_t ticket,
		struct rig_packet *result)
{
	struct sml_header *header = (struct sml_header *)result->bytes;

	*result = *packet;
	header->kind = SML_PACKET_RESULT;
	header->key_be = sml_be64(rig->pool.rules.tag);
	header->chunk_be = sml_be32(ticket);
}

/* ---- time ---- */

static void deliver(struct rig *rig, enum sml_verdict verdict, const struct sml_pool_answer *answer)
{
	for (uint32_t r = 0; r < rig->n_ranks && answer->packet != NULL; r++)
		if (verdict == SML_VERDICT_COMPLETED || answer->in.rank == r)
			rig_to_rank(rig, r, answer->packet, answer->length);
}

static uint64_t earliest_deadline(const struct rig *rig)
{
	uint64_t earliest_ns = UINT64_MAX;

	for (uint32_t r = 0; r < rig->n_ranks; r++) {
		uint64_t deadline_ns = sml_worker_deadline(&rig->ranks[r].worker);

		earliest_ns = deadline_ns < earliest_ns ? deadline_ns : earliest_ns;
	}
	return earliest_ns;
}

static bool all_done(const struct rig *rig)
{
	for (uint32_t r = 0; r < rig->n_ranks; r++)
		for (uint32_t i = 0; i < rig->ranks[r].n_calls; i++)
			if (!sml_tensor_is_done(&rig->ranks[r].calls[i].tensor))
				return false;
	return true;
}

bool rig_run_calmly(struct rig *rig)
{
	struct sml_pool_answer answer;
	struct rig_packet packet;

	for (uint32_t round = 0; round < MAX_ROUNDS && !all_done(rig); round++) {
		bool any = false;

		for (uint32_t r = 0; r < rig->n_ranks; r++) {
			while (sml_worker_retire(&rig->ranks[r].worker) != NULL)
				;
			sml_worker_expire(&rig->ranks[r].worker, rig->now_ns);
			while (rig_send(rig, r, &packet)) {
				any = true;
				deliver(rig, rig_to_switch(rig, &packet, &answer), &answer);
			}
		}
		if (!any && earliest_deadline(rig) != UINT64_MAX)
			rig->now_ns = earliest_deadline(rig);
		rig->now_ns += 1000;
	}
	return all_done(rig);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what a packet costs a switch on one core, without the kernel: the check, the
 * slot's step and the pass over the lanes. It covers every kind of lane and every position
 * in the order of arrival. The packet that completes a slot is also counted alone: its lanes
 * become the result, and some kinds are rounded then.
 *
 *	micro_slot [ranks, default 8] [lanes a packet, default 352]
 *
 * All ranks fill all slots repeatedly, use after use, in turn. As on a busy switch,
 * consecutive packets are for different slots. The result is the best of several rounds,
 * because other load only slows.
 */
#include <stdio.h>

#include "bench/micro.h"
#include "core/pool.h"

#define HEAD_SLOTS 64u
#define DATA_SLOTS 256u
#define USES	   64 /* per round */
#define ROUNDS	   9

struct bench {
	struct sml_pool pool;
	uint32_t n_ranks, lanes;
	uint8_t *packets; /* one for each slot and rank */
	uint32_t stride;
	uint64_t completed;
	double last_s; /* for the packets of the last rank */
};

static struct sml_header *packet_of(const struct bench *bench, uint32_t slot, uint32_t rank)
{
	return (struct sml_header *)(bench->packets +
				     ((size_t)slot * bench->n_ranks + rank) * bench->stride);
}

static void write_packets(struct bench *bench, uint8_t op, uint8_t lane_kind)
{
	for (uint32_t slot = 0; slot < HEAD_SLOTS + DATA_SLOTS; slot++) {
		for (uint32_t rank = 0; rank < bench->n_ranks; rank++)
			*packet_of(bench, slot, rank) = (struct sml_header){
				.magic_be = sml_be16(SML_WIRE_MAGIC),
				.version = SML_WIRE_VERSION,
				.kind = SML_PACKET_CONTRIBUTION,
				.slot_be = sml_be16((uint16_t)slot),
				.rank = (uint8_t)rank,
				.op = op,
				.lane_kind = lane_kind,
				.lanes_be = sml_be16((uint16_t)bench->lanes),
			};
	}
}

/* One use of every slot: all ranks send, and the last one completes the slot. */
static void one_use(struct bench *bench, uint32_t use)
{
	uint32_t length = SML_HEADER_BYTES + 4 * bench->lanes;
	struct sml_pool_answer answer;

	for (uint32_t rank = 0; rank < bench->n_ranks; rank++) {
		double began = rank + 1 == bench->n_ranks ? seconds() : 0;

		for (uint32_t slot = 0; slot < HEAD_SLOTS + DATA_SLOTS; slot++) {
			struct sml_header *packet = packet_of(bench, slot, rank);

			packet->use_be = sml_be32(use);
			bench->completed += sml_pool_receive(&bench->pool, packet, length,
							     &answer) == SML_VERDICT_COMPLETED;
		}
		if (rank + 1 == bench->n_ranks)
			bench->last_s += seconds() - began;
	}
}

static void measure(struct bench *bench, const char *name, uint8_t op, uint8_t lane_kind,
		    uint32_t elements)
{
	uint64_t packets = (uint64_t)USES * (HEAD_SLOTS + DATA_SLOTS) * bench->n_ranks;
	uint32_t use = 0;
	double best = 1e30, best_last = 1e30, ns;
	struct sml_pool_rules rules = {
		.head_slots = HEAD_SLOTS,
		.data_slots = DATA_SLOTS,
		.lanes = (uint16_t)bench->lanes,
		.n_ranks = (uint8_t)bench->n_ranks,
		.n_shards = 1,
		.rounds = true,
		.floats = true,
		.divisor = (uint16_t)bench->n_ranks,
	};
	void *memory;

	/* Without lanes, a packet costs only the step. But a pool always needs a width. */
	rules.lanes = bench->lanes ? rules.lanes : 1;
	memory = memory_of(sml_pool_memory_bytes(&rules), 0x11);
	sml_pool_init(&bench->pool, &rules, memory);
	write_packets(bench, op, lane_kind);
	bench->completed = 0;
	for (int round = 0; round < ROUNDS; round++) {
		double began = seconds(), took;

		bench->last_s = 0;
		for (int i = 0; i < USES; i++)
			one_use(bench, use++);
		took = seconds() - began;
		best = took < best ? took : best;
		best_last = bench->last_s < best_last ? bench->last_s : best_last;
	}
	if (bench->completed != (uint64_t)use * (HEAD_SLOTS + DATA_SLOTS)) {
		fprintf(stderr, "micro_slot: %s: only %llu slots were completed\n", name,
			(unsigned long long)bench->completed);
		exit(1);
	}
	ns = 1e9 * best / (double)packets;
	printf("%-18s %6u %10.1f %10.1f", name, bench->lanes, ns,
	       1e9 * best_last * bench->n_ranks / (double)packets);
	if (bench->lanes)
		printf(" %14.2f %8.2f", elements / ns, 4.0 * bench->lanes / ns);
	printf("\n");
	free(memory);
}

/* Whole blocks, and the shifts of ranks, which are 0. With 8 ranks, the sums are rounded. */
static void measure_rounded(struct bench *bench, const char *name, uint8_t lane_kind,
			    uint32_t lanes)
{
	uint32_t width = sml_rounded_width(lane_kind), blocks = sml_rounded_blocks(width, lanes);
	uint32_t shifts = (blocks + 3) & ~3u;

	if (blocks == 0)
		return;
	bench->lanes = sml_rounded_lanes(width, blocks);
	for (uint32_t slot = 0; slot < HEAD_SLOTS + DATA_SLOTS; slot++)
		for (uint32_t rank = 0; rank < bench->n_ranks; rank++)
			memset((uint8_t *)(packet_of(bench, slot, rank) + 1) + 4 * bench->lanes -
				       shifts,
			       0, shifts);
	measure(bench, name, SML_LANE_SUM, lane_kind, blocks * SML_ROUNDED_BLOCK);
}

/* 1 to 2, with other last bits; and where one element of 64 loses bits to another rank's. */
static void write_floats(struct bench *bench, uint8_t lane_kind, uint32_t elements, bool spread)
{
	for (uint32_t i = 0; i < (HEAD_SLOTS + DATA_SLOTS) * bench->n_ranks; i++) {
		uint8_t *lanes = bench->packets + (size_t)i * bench->stride + SML_HEADER_BYTES;

		for (uint32_t k = 0; k < elements; k++) {
			bool small = spread && i % 2 && k % 64 == 0;
			uint32_t bits = (small ? 0x20000001u : 0x3f800000u) + (i * 7919 + k) % 8192;

			if (lane_kind == SML_LANE_FLOAT32)
				((uint32_t *)(void *)lanes)[k] = sml_be32(bits);
			else
				((uint16_t *)(void *)lanes)[k] = sml_be16((uint16_t)(bits >> 16));
		}
	}
}

static void measure_floats(struct bench *bench, const char *type, uint8_t lane_kind,
			   uint32_t elements)
{
	char name[32];

	write_floats(bench, lane_kind, elements, false);
	snprintf(name, sizeof(name), "sum %s", type);
	measure(bench, name, SML_LANE_SUM, lane_kind, elements);
	snprintf(name, sizeof(name), "avg %s", type);
	measure(bench, name, SML_LANE_AVG, lane_kind, elements);
	write_floats(bench, lane_kind, elements, true);
	snprintf(name, sizeof(name), "sum %s, wide", type);
	measure(bench, name, SML_LANE_SUM, lane_kind, elements);
}

int main(int argc, char **argv)
{
	struct bench bench = {
		.n_ranks = number(argc, argv, 1, 8, SML_MAX_CHILDREN),
		.lanes = number(argc, argv, 2, 352, SML_MAX_LANES),
	};
	uint32_t lanes = bench.lanes;

	bench.stride = (SML_HEADER_BYTES + 4 * lanes + 63) & ~63u;
	bench.packets =
		memory_of((size_t)(HEAD_SLOTS + DATA_SLOTS) * bench.n_ranks * bench.stride, 0x11);
	printf("%u ranks, %u slots; one core, packets from memory, no kernel\n", bench.n_ranks,
	       HEAD_SLOTS + DATA_SLOTS);
	printf("%-18s %6s %10s %10s %14s %8s\n", "lanes", "number", "ns/packet", "last one",
	       "G elements/s", "GB/s");
	bench.lanes = 0;
	measure(&bench, "none", SML_LANE_SUM, SML_LANE_INT32, 0);
	bench.lanes = lanes;
	measure(&bench, "sum int32", SML_LANE_SUM, SML_LANE_INT32, lanes);
	measure(&bench, "sum int16", SML_LANE_SUM, SML_LANE_INT16_PAIR, 2 * lanes);
	measure(&bench, "max int32", SML_LANE_MAX, SML_LANE_INT32, lanes);
	measure(&bench, "max int16", SML_LANE_MAX, SML_LANE_INT16_PAIR, 2 * lanes);
	measure_floats(&bench, "float32", SML_LANE_FLOAT32, lanes);
	measure_floats(&bench, "float16", SML_LANE_FLOAT16, 2 * lanes);
	measure_floats(&bench, "bfloat16", SML_LANE_BFLOAT16, 2 * lanes);
	measure_rounded(&bench, "sum int16, rounded", SML_LANE_INT16_ROUNDED, lanes);
	measure_rounded(&bench, "sum int8, rounded", SML_LANE_INT8_ROUNDED, lanes);
	free(bench.packets);
	return 0;
}

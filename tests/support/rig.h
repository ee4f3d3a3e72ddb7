/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job small enough to hold in the hand: one switch, a worker a rank, int32
 * tensors whose sums are known. Nothing happens by itself: the caller says who
 * sends, what is lost, and when time passes. For unit tests and properties.
 */
#ifndef SML_TESTS_RIG_H
#define SML_TESTS_RIG_H

#include "core/pool.h"
#include "core/worker.h"
#include "support/guard.h"

#define RIG_RANKS	 3
#define RIG_TENSORS	 8
#define RIG_LANES	 8
#define RIG_PACKET_BYTES (SML_HEADER_BYTES + 4 * RIG_LANES)

struct rig_packet {
	uint8_t bytes[RIG_PACKET_BYTES] __attribute__((aligned(8)));
	uint32_t length;
};

struct rig_call {
	struct sml_tensor tensor;
	struct guarded memory, send, recv;
	uint32_t count;
};

struct rig_rank {
	struct sml_worker worker;
	struct guarded memory;
	struct sml_sequence sequence;
	struct rig_call calls[RIG_TENSORS];
	uint32_t n_calls;
};

struct rig {
	struct sml_pool pool;
	struct guarded pool_memory;
	struct rig_rank ranks[RIG_RANKS];
	uint32_t n_ranks;
	uint64_t now_ns;
	uint64_t verdicts[SML_VERDICTS], n_received;
};

void rig_init(struct rig *rig, uint32_t n_ranks, uint16_t head_slots, uint16_t data_slots);
/* False: something wrote outside its memory. */
bool rig_fini(struct rig *rig);

/* A worker of a rank as the rig has it; change the configuration before init. */
struct sml_worker_config rig_worker_config(const struct rig *rig, uint32_t rank);

/* Every rank calls all-reduce on count int32 elements. */
void rig_submit(struct rig *rig, uint32_t count);
/* One rank alone does. */
void rig_submit_to(struct rig *rig, uint32_t rank, uint32_t count);

/* The rank's next packet; false: it has none to send now. */
bool rig_send(struct rig *rig, uint32_t rank, struct rig_packet *packet);
/* A packet to the switch; what it answers. */
enum sml_verdict rig_to_switch(struct rig *rig, const struct rig_packet *packet,
			       struct sml_pool_answer *answer);
/* A result to a rank. */
enum sml_worker_verdict rig_to_rank(struct rig *rig, uint32_t rank, const void *packet,
				    uint32_t length);

/* What a switch would answer to a packet of a rank that is alone. */
void rig_answer(const struct rig *rig, const struct rig_packet *packet, uint32_t ticket,
		struct rig_packet *result);

/* Time passes to the earliest deadline, everybody sends, nothing is lost. True: all is done. */
bool rig_run_calmly(struct rig *rig);

/* Are all sums of all ranks those of what went in? */
bool rig_sums_are_exact(const struct rig *rig);

#endif

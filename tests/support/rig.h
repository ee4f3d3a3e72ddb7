/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job under full control: one switch, one worker per rank, int32 tensors with known
 * sums. Nothing happens by itself: the caller decides who sends, what is lost, and when time
 * passes. For unit tests and properties.
 */
#ifndef SML_TESTS_RIG_H
#define SML_TESTS_RIG_H

#include "core/pool.h"
#include "core/worker.h"
#include "support/guard.h"

#define RIG_RANKS	 3
#define RIG_TENSORS	 8
#define RIG_LANES	 8 /* unless a test chooses another number, up to the most */
#define RIG_LANES_MOST	 352
#define RIG_PACKET_BYTES (SML_HEADER_BYTES + 4 * RIG_LANES_MOST)

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
	bool omits; /* each rank has whole packets of zeros, which do not travel */
	uint64_t now_ns;
	uint64_t verdicts[SML_VERDICTS], n_received;
};

void rig_init(struct rig *rig, uint32_t n_ranks, uint16_t head_slots, uint16_t data_slots);
/* With packets of another size, and zeros or none. */
void rig_init_with(struct rig *rig, uint32_t n_ranks, uint16_t head_slots, uint16_t data_slots,
		   uint16_t lanes, bool omits);
/* False: something wrote outside its memory. */
bool rig_fini(struct rig *rig);

/* A worker of a rank with the rig's defaults; change the configuration before init. */
struct sml_worker_config rig_worker_config(const struct rig *rig, uint32_t rank);

/* Every rank calls all-reduce on `count` int32 elements. */
void rig_submit(struct rig *rig, uint32_t count);
/* Only one rank calls it. */
void rig_submit_to(struct rig *rig, uint32_t rank, uint32_t count);

/* The rank's next packet; false: it has none to send at the moment. */
bool rig_send(struct rig *rig, uint32_t rank, struct rig_packet *packet);
/* Give a packet to the switch. Returns the switch's answer. */
enum sml_verdict rig_to_switch(struct rig *rig, const struct rig_packet *packet,
			       struct sml_pool_answer *answer);
/* Give a result to a rank. */
enum sml_worker_verdict rig_to_rank(struct rig *rig, uint32_t rank, const void *packet,
				    uint32_t length);

/* The answer that a switch would give to a packet of a job with one rank. */
void rig_answer(const struct rig *rig, const struct rig_packet *packet, uint32_t ticket,
		struct rig_packet *result);

/*
 * Let time pass to the earliest deadline, and let all ranks send without loss. True: all is
 * done.
 */
bool rig_run_calmly(struct rig *rig);

/* Are all sums on all ranks correct? */
bool rig_sums_are_exact(const struct rig *rig);

#endif

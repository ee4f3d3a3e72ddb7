/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of test_p4_slot share: a world of the P4 dataplane in simple_switch, packets to
 * it, and the comparison of what becomes of them with the user-space slots.
 */
#ifndef SML_TESTS_INTEGRATION_P4_SLOT_H
#define SML_TESTS_INTEGRATION_P4_SLOT_H

#include "base/clock.h"
#include "support/test.h"
#include "support/vectors.h"
#include "support/xdp_frames.h"
#include "switch/dataplane.h"
#include "switch/p4/internal.h"

#define PATIENCE_NS  (60000 * SML_NS_PER_MS)
#define RANDOM_RANKS 3

struct p4_slot_test {
	const struct sml_dataplane_operations *operations;
	struct sml_dataplane *dataplane;
	struct frame_wrapping wrapping; /* of rank 0 */
	int raw_fd;			/* the socket through which all ranks send and receive */
	bool has_job, told_mismatch;
	bool is_staged; /* the form for hardware's stages, which has only int32 lanes */
	uint32_t n_mismatches;
	struct sml_mismatch last_mismatch;
	uint64_t seed;
};

extern struct p4_slot_test p4_slot;

struct fates {
	uint64_t n[SML_VERDICTS + 1]; /* the last: wrong checksums */
};

/* The lanes of every packet of this kind: the most whole blocks, if they are rounded. */
uint32_t p4_slot_lanes(uint8_t lane_kind);

struct frame_wrapping p4_slot_wrapping(uint8_t rank);
void p4_slot_send(const uint8_t *frame, uint32_t bytes);

/* How many packets had each fate until now. */
struct fates p4_slot_fates(void);
/* The one fate that has been counted since `before`. */
unsigned p4_slot_await_fate(const struct fates *before);
const char *p4_slot_fate_name(unsigned fate);
/* The dataplane's callback. */
void p4_slot_note_mismatch(void *context, const struct sml_mismatch *mismatch);

/* Replace the job by one with these rules, whose ranks' addresses the switch then knows. */
void p4_slot_begin_world(const struct sml_pool_rules *rules);
/* Send a packet. Its fate, and what the ranks get, must be those of the user-space slots. */
unsigned p4_slot_compare(struct sml_pool *pool, const uint8_t *packet, uint32_t length,
			 const char *where, unsigned number);
/* Take the results that belong to this fate. */
void p4_slot_check_results(const struct sml_pool_rules *rules, unsigned fate,
			   const struct sml_pool_answer *answer);

/* Registers of the program, through the dataplane's own connection, because a target has one
 * daemon. */
void p4_slot_write_register(const char *name, uint32_t index, uint64_t value);
uint64_t p4_slot_read_register(const char *name, uint32_t index);

uint32_t p4_slot_random_below(uint32_t n);
bool p4_slot_one_in(uint32_t n);

/* The tests: vectors and random packets (p4_slot_packets.c), and losses (p4_slot_losses.c). */
void every_vector_gets_its_verdict_and_result_in_simple_switch(void **state);
void random_packets_get_the_verdicts_and_bytes_of_the_user_space_slots(void **state);
void a_use_whose_last_packet_is_lost_between_passes_is_completed_by_any_copy(void **state);

#endif

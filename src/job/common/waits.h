/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job's slots wait for: of each slot, the newest use that is known, and the ranks that have
 * not contributed to it. Most slots wait for the same ranks, so each set is kept and sent once.
 *
 * The invariant: memory and messages are bounded (SML_WAITS_BYTES), however many ranks there are. A
 * slot whose set has no room is unknown: a set never names a rank that its slot does not wait for.
 */
#ifndef SML_JOB_COMMON_WAITS_H
#define SML_JOB_COMMON_WAITS_H

#include "control.pb-c.h"
#include "job/common/ranks.h"

/* All sets of one job: a set for every slot up to 64 ranks, and 128 sets of 4,096 ranks. */
#define SML_WAITS_BYTES (64u << 10)

/* Of a packed message: all slots and sets that there can be. */
#define SML_WAITS_ROOM (160u << 10)

struct sml_slot_waits {
	uint32_t use;
	uint16_t set;
	bool known; /* false: no rank has used it, or its set has no room */
};

struct sml_waits {
	uint32_t n_slots;
	unsigned n_ranks, n_words; /* words of each set */
	struct sml_slot_waits *slots;
	/* The first set is empty: such a use is complete. */
	uint32_t n_sets, max_sets;
	uint64_t *words;
	bool is_partial; /* slots that have been used are missing here */
};

/* For slots 0 … n_slots - 1. False if there is no memory; then fini is not needed. */
bool sml_waits_init(struct sml_waits *waits, uint32_t n_slots, unsigned n_ranks);
void sml_waits_fini(struct sml_waits *waits);

/* Forget what is known of all slots. */
void sml_waits_clear(struct sml_waits *waits);

/*
 * Note that the slot waits for these ranks, which are all below n_ranks. Does nothing if there is
 * no such slot.
 */
void sml_waits_note(struct sml_waits *waits, uint32_t slot, uint32_t use,
		    const struct sml_ranks *ranks);

/* Whether anything is known of the slot. */
static inline bool sml_waits_knows(const struct sml_waits *waits, uint32_t slot)
{
	return slot < waits->n_slots && waits->slots[slot].known;
}

/* Whether all ranks have contributed to the newest use of a slot that is known. */
static inline bool sml_waits_is_complete(const struct sml_waits *waits, uint32_t slot)
{
	return waits->slots[slot].set == 0;
}

void sml_waits_get(const struct sml_waits *waits, uint32_t slot, struct sml_ranks *ranks);

/*
 * For each rank, the number of slots that wait for it. Adds to n_missing[n_ranks]. Returns how many
 * slots wait for some rank.
 */
uint32_t sml_waits_count(const struct sml_waits *waits, uint32_t *n_missing);

/* ---- in messages ---- */

/* A report without ranks, and the memory that it points into. */
struct sml_waits_message {
	SmlControl__StallReport report;
	SmlControl__SlotState *states;
	uint8_t *bytes; /* of sets */
};

/*
 * As many slots as fit in about `room` bytes, those that wait for ranks first. waits: NULL if
 * nothing is known. Without memory, the report says nothing, too, and is partial.
 */
void sml_waits_pack(const struct sml_waits *waits, size_t room, struct sml_waits_message *message);
void sml_waits_free(struct sml_waits_message *message);

/*
 * Know only what the report says. Slots, sets and ranks that do not exist are ignored. only has the
 * ranks that the sender knows of; NULL for all.
 */
void sml_waits_unpack(struct sml_waits *waits, const SmlControl__StallReport *report,
		      const struct sml_ranks *only);

#endif

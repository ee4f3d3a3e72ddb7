/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that the ranks of a job share on one host: a memfd, so that it has no name, is not in
 * /dev/shm, and goes with the last process. Its size is sealed.
 *
 *	head       terms, ticket counters, who sleeps, a line for each rank
 *	buffers    two for each slot: who agrees, how many have arrived, is it done
 *	rows       for each buffer: a row of lanes for each rank, and one for the result
 *
 * The invariant: nothing in this memory is an index, a length or an address for anybody. Offsets
 * are computed from the terms in this process's own memory, so a rank that writes nonsense can
 * spoil its job's sums, but no other memory.
 */
#ifndef SML_LIB_HOST_MEMORY_H
#define SML_LIB_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/pool.h"

#define SML_HOST_TOKEN_BYTES 16
/* Processors that a rank may run on, as a bit mask. */
#define SML_HOST_CPU_WORDS 16

/* What all ranks that share the memory compute alike. Ranks are numbered within the host. */
struct sml_host_terms {
	uint64_t proof;	     /* the leader has drawn it: this memory, and no other */
	uint64_t room_bytes; /* the least size of the memory: other terms may follow (renew) */
	uint32_t job;
	uint16_t lanes; /* of a full row */
	uint16_t head_slots, data_slots;
	uint16_t divisor; /* of AVG of floats: sml_divisor_of() */
	uint8_t n_ranks;
	bool goes_up; /* sums go to a switch, and its results come back: slots.h */
};

struct sml_host_counter {
	uint32_t value; /* atomic */
} __attribute__((aligned(64)));

struct sml_host_rank {
	uint32_t wake_count; /* atomic, a futex: counts calls to wake up */
	uint8_t token[SML_HOST_TOKEN_BYTES];
	uint64_t cpus[SML_HOST_CPU_WORDS]; /* atomic */
	uint64_t woken_ns;		   /* atomic: when it was last woken */
} __attribute__((aligned(64)));

struct sml_host_head {
	uint64_t magic;
	struct sml_host_terms terms; /* only for comparison */
	struct sml_host_counter tickets[SML_STREAMS];
	struct {
		uint64_t ranks; /* atomic: bit r: rank r sleeps, or is about to */
	} __attribute__((aligned(64))) sleeping;
	uint64_t waited_until_ns; /* atomic: sml_waited() */
	struct sml_host_rank ranks[SML_MAX_CHILDREN];
};

/*
 * A slot's buffer of parity use & 1. All members are atomic. Uses count from 1 here; 0 if there is
 * none yet.
 */
struct sml_host_buffer {
	uint64_t agreed;  /* the newest use (upper half), and the digest of its first rank */
	uint32_t arrived; /* ranks whose rows of that use are complete */
	uint32_t claimed; /* the use that a rank adds up, or has */
	uint32_t summed;  /* the use whose sum is in the result's row, and goes up */
	uint32_t done;	  /* the use whose result is in the result's row */
	uint32_t ticket;
	uint64_t half_ns; /* when half of the ranks had arrived: sml_waited() */
} __attribute__((aligned(64)));

/* Before the lanes of a row: what its rank believes. All members are atomic. */
struct sml_host_note {
	uint32_t use; /* from 1 */
	uint32_t digest;
	uint32_t shape; /* lanes, op and lane kind */
} __attribute__((aligned(64)));

/* This process's view. */
struct sml_host_memory {
	struct sml_host_terms terms;
	struct sml_host_head *head;
	struct sml_host_buffer *buffers;
	uint8_t *rows;
	size_t row_stride, bytes;
};

/*
 * The slots that a job has in shared memory: few, so that they stay in the cache. At most those of
 * the admission.
 */
void sml_host_choose_slots(struct sml_host_terms *terms, uint16_t head_slots, uint16_t data_slots);

size_t sml_host_bytes(const struct sml_host_terms *terms);

/*
 * The leader's: returns a sealed memfd with all its pages, and maps it. Negative: -errno; then
 * nothing exists.
 */
int sml_host_create(struct sml_host_memory *memory, const struct sml_host_terms *terms);

/*
 * The others': is this the memory that the terms describe, and of a fixed size? Maps it. The caller
 * keeps the descriptor. 0 or -errno; -EPROTO: it is not.
 */
int sml_host_map(struct sml_host_memory *memory, const struct sml_host_terms *terms, int fd);

void sml_host_unmap(struct sml_host_memory *memory);

/*
 * Several stripes can share one memory, one part after another. Each part has the size that the
 * terms need. Only the first part's head is used, and only the first part may be unmapped.
 */
uint64_t sml_host_room_for_parts(const struct sml_host_terms *terms, unsigned n);
struct sml_host_memory sml_host_part(const struct sml_host_memory *memory, unsigned part);

/*
 * The next epoch, with another number of slots, and maybe fewer lanes. While no rank uses the
 * slots; the leader clears them, before any rank begins. False if the memory has no room for that.
 */
bool sml_host_renew(struct sml_host_memory *memory, const struct sml_host_terms *terms,
		    bool is_leader);

/* In memory of the caller (64-byte aligned, zeroed, sml_host_bytes()): for tests. */
void sml_host_lay_out(struct sml_host_memory *memory, const struct sml_host_terms *terms,
		      void *bytes);

static inline uint32_t sml_host_slots(const struct sml_host_terms *terms)
{
	return (uint32_t)terms->head_slots + terms->data_slots;
}

#endif

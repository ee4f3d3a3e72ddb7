/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker of the core within a progress thread: of one stripe, for the slots of one shard. The
 * thread owns it. The failover owns it while it is parked, and any thread may use it once the
 * threads have stopped.
 */
#ifndef SML_LIB_SHARD_H
#define SML_LIB_SHARD_H

#include "core/resume.h"
#include "core/worker.h"

struct sml_line;
struct sml_transport;

struct sml_shard {
	uint8_t stripe;
	unsigned index; /* of the thread that serves it */
	struct sml_line *line;
	struct sml_worker worker;
	void *worker_memory;
	/*
	 * The previous epoch, for its kept results: see failover.c. Its memory is NULL if there is
	 * none.
	 */
	struct sml_worker kept;
	void *kept_memory;
	uint16_t next_sum; /* of a host's leader: where it looks for sums next: SML_NO_SLOT: at the
			      first */
	uint64_t held_since_ns; /* its few packets wait for more; 0 if none do */
	/* Timeouts since the last result, and the number of the last renewal; see renewal.c. */
	struct {
		uint64_t results;
		uint32_t n_silent, number;
		bool probes; /* a probe is to leave */
		/* How many probes have left, and the longest of their replies and of results. */
		uint32_t asked, passed;
		uint32_t narrow; /* atomic: the bytes that still pass, if not all; 0: unknown */
	} renewal;
	const bool *park; /* atomic: the state that its stripe wants; see sml_threads_owner */
	bool parked;	  /* parked as the stripe asked: frozen, and not ours */

	/* Copies of the worker's counters, for other threads. Each is atomic. */
	struct sml_counters counters;
};

/* A worker on this line, of the stripe that config names. Returns NULL without memory, and then
 * sets the error text. */
struct sml_shard *sml_shard_new(const struct sml_worker_config *config, struct sml_line *line,
				const bool *park);
void sml_shard_free(struct sml_shard *shard);

/*
 * A worker of the next epoch and its memory, for sml_shard_renew(), or to be freed. NULL if there
 * is no memory. Create those of all shards first, because all workers of a stripe must have the
 * same epoch.
 */
struct sml_worker *sml_shard_prepare(const struct sml_worker_config *config, void **memory);

/*
 * Begin the next epoch with `next`, on another transport. keep: keep the current worker for its
 * kept results, instead of the previous one. The maps' tables must live as long.
 */
void sml_shard_renew(struct sml_shard *shard, struct sml_worker *next, void *memory,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep);

/* An answer to a packet, or to a probe. Shorter ones do not tell whether longer ones pass. */
static inline void sml_shard_note_passed(struct sml_shard *shard, uint32_t length)
{
	if (length > shard->renewal.passed)
		shard->renewal.passed = length;
}

/* Copy the worker's counters to where other threads may read them. */
void sml_shard_publish(struct sml_shard *shard);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker of the core as a progress thread has it: of one stripe, for the
 * slots of one shard. It is the thread's; but the failover's while it is parked,
 * and anybody's once the threads have stopped.
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
	/* The epoch before, for its kept results: see failover.c. Memory NULL: none. */
	struct sml_worker kept;
	void *kept_memory;
	uint64_t held_since_ns; /* its few packets wait for more; 0: none do */
	const bool *park;	/* atomic: its stripe's wish, see sml_crew_owner */
	bool parked;		/* as the stripe asked: frozen, not to be touched */

	/* Copies of the worker's, for other threads. Each atomic. */
	struct sml_counters counters;
};

/* A worker on this line, of the stripe that config names. NULL: no memory, told by
 * sml_error_set(). */
struct sml_shard *sml_shard_new(const struct sml_worker_config *config, struct sml_line *line,
				const bool *park);
void sml_shard_free(struct sml_shard *shard);

/*
 * A worker of the next epoch and its memory, for sml_shard_renew(), or to be freed. NULL: no
 * memory. Those of all shards first: of a stripe all workers are of one epoch.
 */
struct sml_worker *sml_shard_prepare(const struct sml_worker_config *config, void **memory);

/*
 * The next epoch begins with `next`, on another transport. keep: the worker of now stays for its
 * kept results, in the place of the one before. The maps' tables must live as long.
 */
void sml_shard_renew(struct sml_shard *shard, struct sml_worker *next, void *memory,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep);

/* Copy the worker's counters to where others may read them. */
void sml_shard_publish(struct sml_shard *shard);

#endif

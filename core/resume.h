/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on after a switch has died: docs/protocol.md, as pure functions. A
 * resume is a new epoch with a small table; per stripe, each stream by itself.
 * Chunks have here their numbers in the stripe (worker.h):
 *
 *	every rank   freezes its workers, then reports          sml_resume_report
 *	the switch   has all reports: who hands what to whom,   sml_resume_merge
 *	             and the table
 *	every rank   gives kept results to those who lack them  sml_resume_kept
 *	             takes what it lacked                       sml_resume_adopt
 *	             begins the new epoch with the table        sml_resume_begin
 *
 * The invariant: after the hand-over all ranks lack the same chunks up to the
 * highest that anybody has seen assigned; those are the table, and everything
 * from there on is lacked by all. So nothing is lost and nothing summed twice.
 *
 * The workers of the epoch before stay as they were (frozen) until the first
 * result of the new epoch: only that proves that all ranks have begun, and
 * until then another death may make their kept results needed again.
 */
#ifndef SML_CORE_RESUME_H
#define SML_CORE_RESUME_H

#include "core/worker.h"

/* One rank's view of one stream of one stripe. */
struct sml_resume_report {
	uint32_t beyond;	 /* 1 + the highest chunk seen assigned, in any epoch */
	const uint32_t *lacking; /* ascending: chunks below `beyond` that are not here */
	uint32_t n_lacking;
	const uint32_t *kept; /* chunks whose last result is kept here, ascending as numbers */
	uint32_t n_kept;
};

struct sml_resume_handover {
	uint32_t chunk;
	uint8_t from;
	uint64_t to; /* bit r: rank r lacks it */
};

struct sml_resume_plan {
	struct sml_resume_handover *handovers;
	uint32_t n_handovers;
	uint32_t *table; /* ascending */
	uint32_t n_table;
	uint32_t after; /* the first chunk behind all that was assigned */
};

/*
 * All chunks below `beyond` that this rank lacks, and all whose results it
 * keeps. workers are the rank's shards of one stripe; no shard need have been
 * handed every tensor that another has. Each returns how many there are; at
 * most capacity are written, and those beyond capacity + 1 not looked for.
 */
uint32_t sml_resume_lacking(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity);
uint32_t sml_resume_kept_chunks(struct sml_worker *const *workers, unsigned n_workers,
				enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity);
uint32_t sml_resume_beyond(struct sml_worker *const *workers, unsigned n_workers,
			   enum sml_stream_id stream);

/* The kept result of a chunk as it came, NULL if none. */
const void *sml_resume_kept(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t chunk, uint16_t *n_lanes);

/*
 * A result handed over. 1: it was its tensor's last chunk; 0: taken, or here
 * already; -1: it does not fit what this rank lacks (a hostile peer).
 */
int sml_resume_adopt(struct sml_worker *const *workers, unsigned n_workers,
		     enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		     uint16_t n_lanes);

/* Ascending as numbers: how a report has what is kept. */
void sml_resume_sort(uint32_t *chunks, uint32_t n);

/*
 * Merge the reports of all ranks into a plan. Takes n log n of what they say, for strangers
 * can say it, too: of what is not in order, some is not found. The plan's arrays are the
 * caller's, with room for capacity entries each. Returns 0; -1: more entries
 * than that; -2: a chunk is neither lacked by all nor kept by any, which honest
 * reports cannot say.
 */
int sml_resume_merge(const struct sml_resume_report *reports, unsigned n_ranks,
		     struct sml_resume_plan *plan, uint32_t capacity);

/*
 * Begin an epoch: `next` has been initialized for it (its number of slots may
 * differ) and goes on where `frozen`, a worker of the epoch before, was. Its
 * ticket k means the k-th chunk of the stream's map. The maps' tables must
 * live as long as `next`.
 */
void sml_resume_begin(struct sml_worker *next, const struct sml_worker *frozen,
		      const struct sml_ticket_map maps[SML_STREAMS]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continue after a switch has died: the rules of docs/internals/protocol.md, as pure functions. A
 * resume is a new epoch with a small table, for each stripe and stream separately. Chunks are
 * numbered within the stripe here (worker.h):
 *
 *	every rank   freezes its workers, then reports          sml_resume_report
 *	the switch   has all reports: which rank hands over what, sml_resume_merge
 *	             and the table
 *	every rank   gives kept results to those who lack them  sml_resume_kept
 *	             takes what it lacked                       sml_resume_adopt
 *	             begins the new epoch with the table        sml_resume_begin
 *
 * The invariant: after the hand-over, all ranks lack the same chunks up to the highest chunk that
 * any rank has seen assigned. Those chunks are the table, and all ranks lack everything after it.
 * So nothing is lost, and nothing is summed twice.
 *
 * The workers of the previous epoch stay frozen until the first result of the new epoch. Only that
 * result proves that all ranks have begun; until then, another death may make their kept results
 * necessary again.
 */
#ifndef SML_CORE_RESUME_H
#define SML_CORE_RESUME_H

#include "core/worker.h"

/* One rank's view of one stream of one stripe. */
struct sml_resume_report {
	uint32_t beyond;	 /* 1 + the highest chunk that was seen assigned, in any epoch */
	const uint32_t *lacking; /* the chunks below `beyond` that this rank lacks, ascending */
	uint32_t n_lacking;
	const uint32_t *kept; /* the chunks whose results are kept here, ascending as numbers */
	uint32_t n_kept;
};

/* One result, and who has it. It goes to the ranks that lack it: sml_resume_lacks(). */
struct sml_resume_handover {
	uint32_t chunk;
	uint16_t from; /* the rank that keeps the result */
	bool done;     /* it has been handed over; only the driver uses this */
};

struct sml_resume_plan {
	struct sml_resume_handover *handovers;
	uint32_t n_handovers;
	uint32_t *table; /* the chunks that all ranks lack, ascending */
	uint32_t n_table;
	uint32_t after; /* the first chunk after all that were assigned */
};

/*
 * All chunks below `beyond` that this rank lacks, and all whose results it keeps. workers are the
 * rank's shards of one stripe, frozen; a shard may not yet have every tensor that another shard
 * has. Each function returns how many chunks there are; at most capacity are written, and the
 * search ends after capacity + 1.
 */
uint32_t sml_resume_lacking(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity);
uint32_t sml_resume_kept_chunks(struct sml_worker *const *workers, unsigned n_workers,
				enum sml_stream_id stream, uint32_t *chunks, uint32_t capacity);
uint32_t sml_resume_beyond(struct sml_worker *const *workers, unsigned n_workers,
			   enum sml_stream_id stream);

/* The kept result of a chunk, as lanes that decode to it, or NULL if none is kept. */
const void *sml_resume_kept(struct sml_worker *const *workers, unsigned n_workers,
			    enum sml_stream_id stream, uint32_t chunk, uint16_t *n_lanes);

/*
 * Take a result that another rank handed over. Returns 1 if it was its tensor's last chunk, 0 if it
 * was taken or already here, and -1 if it does not fit what this rank lacks (a hostile peer).
 */
int sml_resume_adopt(struct sml_worker *const *workers, unsigned n_workers,
		     enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		     uint16_t n_lanes);

/* Does the rank that has sent this report lack the chunk? Takes log n time. */
bool sml_resume_lacks(const struct sml_resume_report *report, uint32_t chunk);

/* Sort in ascending numerical order, as reports list kept chunks. */
void sml_resume_sort(uint32_t *chunks, uint32_t n);

/*
 * Merge the reports of all ranks, at most SML_MAX_WORLD, into a plan. Takes n log n time for any
 * input, because strangers can send reports, too; entries that are out of order may not be found.
 * The plan's arrays are the caller's, with room for capacity entries each. Returns 0, -1 if there
 * are more entries than that, or -2 if a chunk is neither lacked by all nor kept by any, which
 * honest reports cannot say.
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

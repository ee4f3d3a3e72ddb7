/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an unfinished call is waiting for: this rank's slots, and the ranks that the switch lacks.
 * For people: error texts, the log, and the flight recorder.
 *
 * Only for workers that have stopped, and that no other thread uses at the same time.
 */
#ifndef SML_LIB_STALL_H
#define SML_LIB_STALL_H

#include <pthread.h>

#include "core/worker.h"
#include "lib/control/stall_report.h"
#include "lib/diagnose/history.h"
#include "lib/progress/shard.h"
#include "lib/progress/threads.h"
#include "lib/settings/settings.h"

/*
 * ---- the parts of a context that explain a failure ----
 *
 * The context fills them in; all pointers are valid as long as the context.
 */

#define SML_STALL_LINE_BYTES 256

/* The most informative lines first; none if nothing was in progress. */
struct sml_stall_lines {
	unsigned n;
	char text[8][SML_STALL_LINE_BYTES];
};

struct sml_snapshot_stripe {
	const char *name; /* of its switch */
	uint32_t epoch;
	struct sml_shard *const *shards;
	unsigned n_shards;
};

struct sml_snapshot {
	const struct sml_settings *settings;
	struct sml_threads *threads;
	const struct sml_history *history;
	pthread_mutex_t *history_lock;
	bool mismatch; /* ranks made different calls: slots refuse packets that have arrived */
	struct sml_stall_reports reports; /* what slots wait for */
	struct sml_stall_lines lines;	  /* the same in words */
	unsigned n_stripes;
	struct sml_snapshot_stripe stripes[SML_MAX_STRIPES];
};

/* ---- which ranks are late ---- */

/*
 * What all switches together lack of each rank, and the rank's identity (NULL if no switch has sent
 * it).
 */
struct sml_stall_lacking {
	unsigned n_ranks;
	uint32_t n_slots;		   /* that wait for some rank */
	uint32_t n_missing[SML_MAX_WORLD]; /* slots that wait for this one */
	const struct sml_stall_rank *about[SML_MAX_WORLD];
};

/* As long as the reports are there. */
void sml_stall_gather(const struct sml_stall_reports *reports, unsigned n_ranks,
		      struct sml_stall_lacking *lacking);

/* The late ranks, other than own_rank, which waits itself. */
void sml_stall_find_late(const struct sml_stall_lacking *lacking, unsigned own_rank,
			 struct sml_ranks *late);

#define SML_STALL_HOSTS_BYTES 512

/* " (gpu1, pid 77; gpu2, pid 88, not heard for 12 s)", or "" if nothing is known of them. */
void sml_stall_name_hosts(const struct sml_stall_lacking *lacking, const struct sml_ranks *late,
			  char text[SML_STALL_HOSTS_BYTES]);

/* Why a slot that has sent has no result. */
enum sml_stall_cause {
	SML_STALL_UNKNOWN,     /* the switch has not said */
	SML_STALL_RANKS,       /* others have not contributed */
	SML_STALL_NOT_ARRIVED, /* the switch does not have this rank's packet */
	SML_STALL_RESULT_LOST, /* the switch has sent the result */
	SML_STALL_MISMATCH,    /* this rank and others made different calls */
};

/* One slot of this rank that is not done. */
struct sml_stalled {
	enum sml_stream_id stream;
	enum sml_slot_queue place;
	enum sml_stall_cause cause;
	uint8_t stripe, shard;
	uint8_t sends;
	uint16_t slot;
	uint32_t use, chunk, call;
	bool lacks_exponents;	  /* or waits behind a chunk that does */
	uint64_t first_sent_ns;	  /* only where sends > 0 */
	struct sml_ranks missing; /* RANKS: which ones */
};

/* Iterates over them: begin with only the snapshot set. */
struct sml_stall_cursor {
	const struct sml_snapshot *snapshot;
	unsigned stripe, shard;
	uint16_t slot;
};

bool sml_stall_next(struct sml_stall_cursor *cursor, struct sml_stalled *stalled);

/*
 * Do only shorter packets pass between this rank and a stripe than when the job began? Then the
 * text says how long they are, and what to do; otherwise it is "". In any thread.
 */
#define SML_NARROW_BYTES 176
void sml_stall_narrow_text(struct sml_shard *const *shards, unsigned n_shards,
			   char text[SML_NARROW_BYTES]);

/*
 * Sets the snapshot's lines: the ranks that the job waits for, and where this rank's packets are
 * lost.
 */
void sml_stall_describe(struct sml_snapshot *snapshot);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* For people: what a context was asked to do, what it waits for, and a record of that. */
#ifndef SML_LIB_DIAGNOSE_H
#define SML_LIB_DIAGNOSE_H

#include <pthread.h>

#include "base/clock.h"
#include "core/tensor.h"
#include "core/worker.h"
#include "lib/control/stall_report.h"
#include "lib/progress/line.h"
#include "lib/progress/threads.h"
#include "lib/settings/settings.h"

/*
 * ---- the last calls (history.c) ----
 *
 * The last calls of a context, as text: for error texts, and for the switch when two ranks
 * disagree. Guarded by the context's submit lock.
 */

/* More than a worker can hold unfinished, so a chunk in flight is always here. A power of two. */
#define SML_HISTORY_CALLS 4096

/* Names of calls, kept for the last ones that had a name. A power of two. */
#define SML_HISTORY_NAMES   256
#define SML_CALL_NAME_BYTES 160

struct sml_call {
	enum sml_collective collective;
	enum sml_type type; /* the caller's, where the tensor's is bytes */
	enum sml_op op;
	enum sml_wire wire;
	bool residual;
	bool gathers; /* it asks for exact sums where leaves or hosts would round parts */
	uint16_t root;
	uint32_t number;
	uint32_t name;	/* which of the names it has; 0 if there is none */
	uint64_t count; /* the caller's */
	struct sml_window window[SML_STREAMS];
};

struct sml_history {
	uint32_t n; /* calls ever made */
	struct sml_call calls[SML_HISTORY_CALLS];
	uint32_t n_names; /* ever given */
	char names[SML_HISTORY_NAMES][SML_CALL_NAME_BYTES];
};

/* A call of n_ranks ranks. name: its beginning is kept; or NULL. */
void sml_history_add(struct sml_history *history, const struct sml_tensor *tensor, unsigned n_ranks,
		     bool gathers, const char *name);

/* Does the call send floats on a wire that the rank has chosen? */
bool sml_call_has_wire(const struct sml_call *call);

/* The call that has this chunk, or NULL if it is not kept. */
const struct sml_call *sml_history_find(const struct sml_history *history,
					enum sml_stream_id stream, uint32_t chunk);

/* Its name, or in words: "all-reduce 17: 1000 float32, sum, int32 wire". Or: "nothing …". */
void sml_history_text(const struct sml_history *history, enum sml_stream_id stream, uint32_t chunk,
		      char *text, size_t bytes);

/*
 * ---- what an unfinished call waits for (stall.c) ----
 *
 * What an unfinished call is waiting for: this rank's slots, and the ranks that the switch lacks.
 * For people: error texts, the log, and the flight recorder.
 *
 * Only for workers that have stopped, and that no other thread uses at the same time.
 */

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

/*
 * ---- the flight recorder (recorder.c) ----
 *
 * The flight recorder: when a job fails, it logs in a few lines what the slots
 * were waiting for, and writes everything to a file if one is set
 * (SWITCHML_RECORD). docs/errors.md shows one.
 *
 * A separate thread writes the file: a disk that hangs delays a call by at most
 * SML_RECORD_NS, and sml_close() until it is written.
 */

/* How long a failure waits for the switch's report, */
#define SML_ASK_NS (200 * SML_NS_PER_MS)
/* and for the file to be written. */
#define SML_RECORD_NS (100 * SML_NS_PER_MS)

/* A context's recorder. The thread that fails the context writes it, once. */
struct sml_recorder {
	struct sml_snapshot snapshot;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool started, done; /* under the lock */
	int error;
	const char *text;
};

/*
 * The job has failed, every shard has stopped, and text says why: log and
 * record that. Waits for the file, up to SML_RECORD_NS. text must live as long
 * as the context. Closes the snapshot's reports at the end.
 */
void sml_recorder_record(struct sml_recorder *recorder, const struct sml_snapshot *snapshot,
			 int error, const char *text);

void sml_recorder_init(struct sml_recorder *recorder);

/* Waits for the file. */
void sml_recorder_fini(struct sml_recorder *recorder);

#endif

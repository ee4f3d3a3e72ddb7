/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of a context that explain a failure. The context fills them in; all
 * pointers are valid as long as the context.
 */
#ifndef SML_LIB_SNAPSHOT_H
#define SML_LIB_SNAPSHOT_H

#include <pthread.h>

#include "core/wire.h"
#include "lib/control/stall_report.h"
#include "lib/diagnose/history.h"
#include "lib/progress/shard.h"
#include "lib/progress/threads.h"
#include "lib/settings/settings.h"

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

#endif

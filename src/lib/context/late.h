/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that waits, and for which ranks, as the switches have said. wait_notices.h says when they
 * are asked, and tells of it. Under its lock, except the first and the last function.
 */
#ifndef SML_LIB_LATE_H
#define SML_LIB_LATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"
#include "lib/control/stall_report.h"
#include "lib/progress/request.h"
#include "lib/progress/threads.h"
#include "lib/settings/notice.h"

struct sml_late {
	pthread_mutex_t lock;
	struct sml_notice notice;
	bool waits; /* then `call` is as it was when it was seen first like this */
	struct sml_call_in_progress call;
	uint64_t asked_ns; /* 0 if the switches are not asked now */
	struct sml_stall_report *told[SML_MAX_STRIPES];
};

/* The ranks that are late. */
struct sml_late_ranks {
	struct sml_ranks ranks;
	unsigned silent; /* the first stripe without an answer of all its slots; n_stripes: none */
	const struct sml_stall_report *names; /* NULL if none has */
};

void sml_late_init(struct sml_late *late);

/* The question, and what has been answered. */
void sml_late_forget(struct sml_late *late);

/* Who they are, other than own_rank, which waits itself. Valid until the answers are forgotten. */
void sml_late_find(struct sml_late *late, const struct sml_threads *threads, unsigned n_stripes,
		   unsigned own_rank, struct sml_late_ranks *found);

#define SML_LATE_HOSTS_BYTES 512

/* " (gpu1, pid 77; gpu2, pid 88, not heard for 12 s)", or "" if nothing is known of them. */
void sml_late_hosts(const struct sml_late_ranks *late, char text[SML_LATE_HOSTS_BYTES]);

void sml_late_fini(struct sml_late *late);

#endif

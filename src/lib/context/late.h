/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call that waits (join.h), and the ranks that are late, as sml_context_collect() has
 * found out.
 */
#ifndef SML_LIB_LATE_H
#define SML_LIB_LATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/control/stall_report.h"
#include "lib/progress/request.h"
#include "lib/settings/notice.h"

/* For notices: a call that waits. */
struct sml_late {
	pthread_mutex_t lock;
	struct sml_notice notice;
	bool waits; /* then `call` is as it was when it was seen first like this */
	struct sml_call_in_progress call;
	uint64_t asked_ns; /* 0 if the switches are not asked now */
};

/* The late ranks, other than own_rank, which waits itself. */
void sml_late_find(const struct sml_stall_reports *reports, unsigned own_rank,
		   struct sml_ranks *late);

#define SML_LATE_HOSTS_BYTES 512

/* " (gpu1, pid 77; gpu2, pid 88, not heard for 12 s)", or "" if nothing is known of them. */
void sml_late_hosts(const struct sml_stall_reports *reports, const struct sml_ranks *late,
		    char text[SML_LATE_HOSTS_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a switch, or a rank that has slots, says of what its slots are waiting for. Threads share
 * reports, and do not change them.
 */
#ifndef SML_LIB_STALL_REPORT_H
#define SML_LIB_STALL_REPORT_H

#include "control/stream.h"
#include "core/wire.h"
#include "job/common/waits.h"

#define SML_STALL_HOST_BYTES 128

struct sml_stall_rank {
	char host[SML_STALL_HOST_BYTES];
	uint32_t pid;
	uint64_t last_heard_ms; /* ago, when the report was made, if `heard` */
	bool connected, heard;
};

/* What a switch has said of a job. */
struct sml_stall_report {
	unsigned holds; /* atomic */
	struct sml_waits waits;
	unsigned n_ranks;
	struct sml_stall_rank ranks[];
};

/* For a job with this many slots and ranks; nothing is known. NULL if there is no memory. */
struct sml_stall_report *sml_stall_report_open(uint32_t n_slots, unsigned n_ranks);

/* The same, with what the message says. */
struct sml_stall_report *sml_stall_report_new(const SmlControl__StallReport *message,
					      uint32_t n_slots, unsigned n_ranks);

/* Who the ranks are: as the other report, of the same job, says. */
void sml_stall_report_name(struct sml_stall_report *report, const struct sml_stall_report *names);

/* For one more that closes it. NULL is allowed in both. */
struct sml_stall_report *sml_stall_report_hold(struct sml_stall_report *report);
void sml_stall_report_close(struct sml_stall_report *report);

/* What is known of each stripe: sml_context_collect() fills it in. */
struct sml_stall_reports {
	struct sml_stall_report *of[SML_MAX_STRIPES]; /* NULL if there is nothing */
	bool complete, any;
	char why[512];	 /* why it is not complete, for the first stripe without a report */
	unsigned n_told; /* stripes whose switch or rank has answered; others have what is here */
	unsigned silent; /* the first one that has not, or not of all its slots; or their number */
};

void sml_stall_reports_close(struct sml_stall_reports *reports);

#endif

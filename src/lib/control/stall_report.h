/* SPDX-License-Identifier: BSD-3-Clause */
/* What a switch, or a rank that has slots, says of what its slots are waiting for. */
#ifndef SML_LIB_STALL_REPORT_H
#define SML_LIB_STALL_REPORT_H

#include "control/frame.h"
#include "job/common/waits.h"

#define SML_STALL_HOST_BYTES 128

struct sml_stall_rank {
	char host[SML_STALL_HOST_BYTES];
	uint32_t pid;
	uint32_t n_missing;	/* slots that wait for it */
	uint64_t last_heard_ms; /* ago, when the report was made, if `heard` */
	bool connected, heard;
};

/* What a switch has said of a job. */
struct sml_stall_report {
	struct sml_waits waits;
	unsigned n_ranks;
	struct sml_stall_rank ranks[];
};

/* For a job with this many slots and ranks; nothing is known. NULL if there is no memory. */
struct sml_stall_report *sml_stall_report_open(uint32_t n_slots, unsigned n_ranks);

/* The same, with what the message says. */
struct sml_stall_report *sml_stall_report_new(const SmlControl__StallReport *message,
					      uint32_t n_slots, unsigned n_ranks);

/* All slots have been noted: count the ranks that they wait for. */
void sml_stall_report_count(struct sml_stall_report *report);

/* Who the ranks are: as the other report, of the same job, says. */
void sml_stall_report_name(struct sml_stall_report *report, const struct sml_stall_report *names);

void sml_stall_report_close(struct sml_stall_report *report);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a switch, or a rank that has slots, says of what its slots are waiting for. */
#ifndef SML_LIB_STALL_REPORT_H
#define SML_LIB_STALL_REPORT_H

#include "control/frame.h"
#include "core/wire.h"

#define SML_STALL_HOST_BYTES 128

struct sml_stall_slot {
	uint64_t missing; /* bit r: rank r has not contributed; 0: complete */
	uint32_t use;	  /* the newest that the switch has seen */
	bool known;	  /* false: nobody has used it yet */
};

struct sml_stall_rank {
	char host[SML_STALL_HOST_BYTES];
	uint32_t pid;
	uint64_t last_heard_ms; /* ago, when the report was made, if `heard` */
	bool connected, heard;
};

/* What a switch has said of a job. */
struct sml_stall_report {
	uint32_t n_slots;
	uint32_t n_missing[SML_MAX_CHILDREN]; /* slots that wait for a rank */
	struct sml_stall_rank ranks[SML_MAX_CHILDREN];
	struct sml_stall_slot slots[]; /* by number */
};

/* For a job with this many slots. NULL: no memory. The caller frees it with free(). */
struct sml_stall_report *sml_stall_report_new(const SmlControl__StallReport *message,
					      uint32_t n_slots);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context has of jobs that have ended, for the members of the next one: settle.h. */
#ifndef SML_LIB_PAST_H
#define SML_LIB_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/standing.h"

struct sml_request;

/* What is left of a job. */
struct sml_past {
	struct sml_standing standing; /* job 0: nothing */
	uint8_t *kept;		      /* results, as core/kept.h has them */
	/* Calls that have failed here, in the order in which they were made; until it is settled.
	 */
	struct sml_request **failed;
	unsigned n_failed;
};

/* Of a context. */
struct sml_pasts {
	struct sml_past pasts[2]; /* the older one first; those that are there come first */
	bool begun;		  /* this job: its program may make calls */
	uint32_t first_call;	  /* then: the number of its first one */
	bool *completed;	  /* the last that was settled: of each call that had failed */
	unsigned n_completed;
};

/* Results that a stripe was handed when its switch had died, as core/kept.h has them. */
struct sml_handed {
	uint8_t *bytes;
	size_t n, room;
};

/* Makes room for one more. Returns false if there is no memory. */
bool sml_handed_reserve(struct sml_handed *handed, uint16_t n_lanes);
void sml_handed_add(struct sml_handed *handed, enum sml_stream_id stream, uint32_t chunk,
		    const void *lanes, uint16_t n_lanes);
void sml_handed_clear(struct sml_handed *handed);

#endif

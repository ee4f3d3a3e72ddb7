/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dataplane of tests: it holds jobs, counts, and moves no packets. It notices what no control
 * plane may ask of a dataplane.
 */
#ifndef SML_TESTS_DATAPLANE_H
#define SML_TESTS_DATAPLANE_H

#include "switch/dataplane.h"

struct sml_dataplane {
	struct sml_dataplane_config config;	  /* as open() has got it */
	struct sml_pool_rules jobs[SML_MAX_JOBS]; /* n_ranks 0: none */
	const char *wrong; /* what it was asked; NULL: nothing that is wrong */
	/* What a test lets it say. */
	bool has_no_room_yet;
	uint32_t most_slots; /* of one job: the other slots are in pieces; 0: any number */
	/* The ranks that the one slot of every job waits for; 0: the slot is not used. */
	uint64_t slots_lack;
	bool uses_all_slots; /* instead: every slot is used, and waits for other ranks */
	uint64_t contributions[SML_MAX_CHILDREN]; /* of any job */
	uint64_t waited_ms[SML_MAX_CHILDREN];	  /* in the same way */
	uint64_t verdicts[SML_VERDICTS];	  /* the same */
	/* What it was told. */
	unsigned n_looks;	 /* at its counters */
	uint32_t n_window_ranks; /* as the last job was started */
	struct {
		unsigned n;
		uint8_t child, shard;
		uint32_t number;
	} renewed; /* the last time, and how often */
};

extern const struct sml_dataplane_operations dataplane_counting;

#endif

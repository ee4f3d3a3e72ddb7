/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build/tests/chaos: `switchml bench` while switches or ranks are killed. It has the options of
 * `switchml bench`, and those below.
 */
#ifndef SML_CHAOS_CHAOS_H
#define SML_CHAOS_CHAOS_H

#include "cmd/bench/bench.h"

struct chaos_options {
	struct bench_options bench;
	bool chaos;	     /* the switch is killed repeatedly */
	bool ranks;	     /* ranks are */
	bool switch_decides; /* which of them are members */
	unsigned changes;    /* of the membership, then it ends; 0 if --seconds says */
};

/* ---- killer.c: a switch that is killed and started again ---- */

/* `switchml bench` with local workers, through such a switch. Returns the exit status. */
int chaos_kill_switches(struct chaos_options *options, struct sml_config *config);

/* How long such a switch lives, and for how long there is none. */
struct gen;
uint32_t chaos_life_ms(struct gen *gen);
uint32_t chaos_gap_ms(struct gen *gen);

/* ---- ranks.c: ranks that are killed, and come back ---- */

/* Returns the exit status. */
int chaos_kill_ranks(const struct chaos_options *options, const struct sml_config *config);

#endif

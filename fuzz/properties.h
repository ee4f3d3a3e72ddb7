/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must hold whatever happens, each written once against gen_below() and
 * driven three ways: by seeds and by exhaustive enumeration
 * (tests/unit/test_properties.c), and by a fuzzer's bytes (fuzz/target.c).
 *
 * A property draws a world and what happens in it, and returns NULL, or in
 * words what was wrong. tiny: a world small enough to walk through all of it.
 */
#ifndef SML_FUZZ_PROPERTIES_H
#define SML_FUZZ_PROPERTIES_H

#include "sim/gen.h"

/* Packets of strangers, and old ones again, next to a running job: the sums stay exact. */
const char *property_pool(struct gen *gen, bool tiny);

/* Any sequence of contributions does to a slot what docs/protocol.md says, in sets. */
const char *property_slot(struct gen *gen, bool tiny);

/* A switch that lies makes a worker neither crash nor touch what is not its own. */
const char *property_worker(struct gen *gen, bool tiny);

/* The plan of a resume is the one that sets say; of lies, nothing outside its capacity. */
const char *property_merge(struct gen *gen, bool tiny);

/* Bytes on a control connection mean the same in whatever pieces they come. */
const char *property_frame(struct gen *gen, bool tiny);

/* A switch that says anything at all on the control connection is taken at its word, or refused. */
const char *property_client(struct gen *gen, bool tiny);

/* Workers that say anything at all leave no job, no slot and no connection behind. */
const char *property_server(struct gen *gen, bool tiny);

/* Datagrams of every kind and length reach a rank: what is too long is dropped at its socket. */
const char *property_receive(struct gen *gen, bool tiny);

/* Ranks that are let in and then send anything, as messages and packets, harm no switch. */
const char *property_rank(struct gen *gen, bool tiny);

/* A switch that knows all secrets and then says and sends anything harms no rank. */
const char *property_switch(struct gen *gen, bool tiny);

/* Whatever the environment says, a configuration is within its bounds or refused. */
const char *property_config(struct gen *gen, bool tiny);

/* A choice among so many that an enumeration takes the first and the last alone. */
static inline uint32_t gen_wide(struct gen *gen, uint32_t n)
{
	return gen->mode == GEN_ALL ? gen_below(gen, 2) * (n - 1) : gen_below(gen, n);
}

/* Does it happen? Seldom; in an enumeration both ways. */
static inline bool gen_seldom(struct gen *gen)
{
	return gen_below(gen, gen->mode == GEN_ALL ? 2 : 4) == 1;
}

#define PROPERTY_CHECK(condition, text)                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return text;                                                               \
	} while (0)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must always hold. Each property is written once against gen_below() and driven three
 * ways: by seeds and by exhaustive enumeration (tests/fuzz/test_properties.c), and by a
 * fuzzer's bytes (fuzz/target.c).
 *
 * A property draws a world and its events. It returns NULL, or a text that says what was
 * wrong. tiny: the world is small enough to try every choice.
 */
#ifndef SML_FUZZ_PROPERTIES_H
#define SML_FUZZ_PROPERTIES_H

#include "sim/gen.h"

/* Packets from strangers and old packets arrive beside a running job: the sums stay exact. */
const char *property_pool(struct gen *gen, bool tiny);

/* After any contributions, a slot is as docs/internals/protocol.md says, computed with sets. */
const char *property_slot(struct gen *gen, bool tiny);

/* A switch that lies makes no worker crash or access memory that is not its own. */
const char *property_worker(struct gen *gen, bool tiny);

/* The plan of a resume equals the one computed with sets. Lies never lead outside its capacity. */
const char *property_merge(struct gen *gen, bool tiny);

/* The bytes of a control connection mean the same, however they are split into pieces. */
const char *property_frame(struct gen *gen, bool tiny);

/* Whatever a switch says on the control connection, the rank accepts it or refuses it. */
const char *property_client(struct gen *gen, bool tiny);

/* Whatever workers say, they leave no job, no slot and no connection behind. */
const char *property_server(struct gen *gen, bool tiny);

/* Datagrams of every kind and length reach a rank. Its socket drops those that are too long. */
const char *property_receive(struct gen *gen, bool tiny);

/* Ranks that are admitted and then send any messages and packets do no harm to a switch. */
const char *property_rank(struct gen *gen, bool tiny);

/*
 * A switch that knows all secrets and then sends any messages and packets does no harm to a
 * rank.
 */
const char *property_switch(struct gen *gen, bool tiny);

/* For any environment, a configuration is within its bounds, or it is refused. */
const char *property_config(struct gen *gen, bool tiny);

/* A choice among many values; an enumeration takes only the first and the last. */
static inline uint32_t gen_wide(struct gen *gen, uint32_t n)
{
	return gen->mode == GEN_ALL ? gen_below(gen, 2) * (n - 1) : gen_below(gen, n);
}

/* Does it happen? Rarely; an enumeration tries both. */
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

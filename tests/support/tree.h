/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaves of a switch, and ranks behind them, for the jobs of support/jobs.h: a peer there speaks
 * for a leaf. The leaf chooses the numbers of its ranks.
 */
#ifndef SML_TESTS_TREE_H
#define SML_TESTS_TREE_H

#include "support/jobs.h"

/* This peer says that it is a leaf with this many slots. */
void tree_attach(unsigned peer, uint32_t slots);

/* A leaf says that it and all below it are ready for the job that it was given last. */
void tree_leaf_ready(unsigned leaf, uint32_t lanes);

/* The job that a leaf was given last. */
const SmlControl__Admitted *tree_leaf_job(unsigned leaf);

/*
 * A message of a rank behind a leaf. slots, lanes: of the leaves on this rank's way. home: of the
 * leaf that it is connected to.
 */
void tree_relay_home(unsigned leaf, uint32_t number, const SmlControl__Envelope *message,
		     uint32_t slots, uint32_t lanes, uint64_t home);
void tree_relay_from(unsigned leaf, uint32_t number, const SmlControl__Envelope *message,
		     uint32_t slots, uint32_t lanes);
void tree_relay(unsigned leaf, uint32_t number, const SmlControl__Envelope *message);
void tree_relay_empty(unsigned leaf, uint32_t number, SmlControl__Envelope__BodyCase body);
void tree_relay_join(unsigned leaf, uint32_t number, uint32_t rank, uint32_t world_size);
void tree_relay_ready(unsigned leaf, uint32_t number);
/* A job of two runs: rank 0 is number 70 behind this new leaf, and rank 1 is this peer. */
void tree_run_two(unsigned leaf, unsigned peer);
/* The rank's connection to the leaf has ended. */
void tree_relay_end(unsigned leaf, uint32_t number, bool leaf_died);

/* The leaf's last message of this kind for the rank, or NULL if there is none; until the next call.
 */
SmlControl__Envelope *tree_relayed(unsigned leaf, uint32_t number,
				   SmlControl__Envelope__BodyCase body);
/* The last message to this peer that the rank's connection ends, or ended; NULL: there is none. */
const SmlControl__Relay *tree_end(unsigned leaf, uint32_t number);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks whose lists have the same switches in different orders ("a|b" and "b|a") wait at different
 * switches for each other. So one of those that wait at a switch looks at the others of its list;
 * and at rank 0, which may have no switch, and wait for them.
 *
 * If rank 0 has a switch, and others have none, these look for it at its port, and only there. So
 * rank 0 opens that for a moment, again and again, where who comes is told: not all the time,
 * because another job of this host may want the port.
 */
#ifndef SML_LIB_APART_H
#define SML_LIB_APART_H

#include "lib/context/context.h"

struct sml_apart {
	struct sml_stripe *stripe;
	uint64_t begun_ns, at_ns; /* at_ns: when it looks */
	/* The other switches, and rank 0's port, which may open later. */
	struct sml_control *asked[SML_MAX_ENDPOINTS], *rank_0;
	unsigned n_asked;
	/* Where rank 0 is if it has no switch; found by the resolver where that is a name. */
	struct sml_endpoints *places;
	struct sml_resolver *resolver;
	struct sml_switch *port; /* this rank's, while it is open, until then */
	uint64_t port_ns;
};

/* The stripe has asked to join. */
void sml_apart_begin(struct sml_apart *apart, struct sml_stripe *stripe);

/* Again and again while it waits. Aborts the stripe's job if ranks are apart. */
void sml_apart_look(void *self);

void sml_apart_end(struct sml_apart *apart);

#endif

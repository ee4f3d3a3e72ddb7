/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks whose lists have the same switches in different orders ("a|b" and "b|a") wait at different
 * switches for each other. So one of those that wait at a switch looks at the others of its list.
 */
#ifndef SML_LIB_APART_H
#define SML_LIB_APART_H

#include "lib/context/context.h"

struct sml_apart {
	struct sml_stripe *stripe;
	uint64_t at_ns; /* when it looks */
	struct sml_control *asked[SML_MAX_ENDPOINTS];
	unsigned n_asked;
};

/* The stripe has asked to join. */
void sml_apart_begin(struct sml_apart *apart, struct sml_stripe *stripe);

/* Again and again while it waits. Aborts the stripe's job if ranks are apart. */
void sml_apart_look(void *self);

void sml_apart_end(struct sml_apart *apart);

#endif

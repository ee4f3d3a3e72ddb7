/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a stripe that has lost its switch tells the next one, and what it gives to other ranks and
 * takes from them: core/resume.h has the rules. The stripe's shards are parked meanwhile.
 */
#ifndef SML_LIB_RESUMING_H
#define SML_LIB_RESUMING_H

#include "lib/context/stripe.h"

/* A report lists at most two chunks for each slot. */
#define SML_MAX_REPORT (2 * SML_MAX_SLOTS)

struct sml_resuming {
	struct sml_resumption resumption; /* points into this struct */
	struct sml_stripe *stripe;
	/* The shards' workers of the current and the previous epoch. */
	struct sml_worker *now[SML_MAX_SHARDS], *before[SML_MAX_SHARDS];
	bool has_result; /* of this epoch: then all ranks had begun it */
	bool has_before; /* there is a previous epoch */
	struct {
		uint32_t lacking[SML_MAX_REPORT], kept[SML_MAX_REPORT];
	} space[SML_STREAMS];
};

/*
 * Look at the shards, and write the report. Returns 0; or an error, also if the context has failed
 * meanwhile, and sets the error text.
 */
int sml_resuming_look(struct sml_resuming *resuming, struct sml_stripe *stripe);

/*
 * Are the results to keep those of the current epoch, not of the previous one? Those are dropped
 * only at the first result of the current one.
 */
bool sml_resuming_keeps_now(const struct sml_resuming *resuming);

#endif

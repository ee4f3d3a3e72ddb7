/* SPDX-License-Identifier: BSD-3-Clause */
/* A dataplane that counts jobs and moves no packets. */
#ifndef SML_FUZZ_NOTHING_H
#define SML_FUZZ_NOTHING_H

#include "switch/dataplane.h"

struct sml_dataplane {
	struct sml_dataplane_config config;
	struct sml_pool_rules jobs[SML_MAX_JOBS]; /* n_ranks 0: none */
	const char *wrong;
};

extern const struct sml_dataplane_operations dataplane_nothing;

#endif

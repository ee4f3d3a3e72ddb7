/* SPDX-License-Identifier: BSD-3-Clause */
/* From a checked call to a tensor under way. */
#ifndef SML_LIB_SUBMIT_H
#define SML_LIB_SUBMIT_H

#include "lib/context/context.h"

/* One call on its way to be a tensor. */
struct sml_order {
	struct sml_tensor_spec spec;
	struct sml_call call; /* without its number and windows */
};

/*
 * Gives the call its place among all calls and hands it to every shard. 0 and
 * *submitted, to be given to sml_wait() or sml_test(); or an error.
 */
int sml_submit(struct sml_context *context, struct sml_order *order,
	       struct sml_request **submitted);

#endif

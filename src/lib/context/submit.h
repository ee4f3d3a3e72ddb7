/* SPDX-License-Identifier: BSD-3-Clause */
/* From a checked call to a tensor in progress. */
#ifndef SML_LIB_SUBMIT_H
#define SML_LIB_SUBMIT_H

#include "lib/context/context.h"

/* A call that becomes a tensor. */
struct sml_order {
	struct sml_tensor_spec spec;
	const char *name; /* or NULL */
	bool gathers;	  /* as struct sml_call */
	bool waits;	  /* the caller waits for it next */
};

/*
 * Gives the call its place in the order of calls, and passes it to every shard.
 * Returns 0 and *submitted, for sml_wait(); or an error.
 */
int sml_submit(struct sml_context *context, const struct sml_order *order,
	       struct sml_request **submitted);

/*
 * A call will send floats as such. Returns false if switches of the job add none; after true, the
 * job moves to none of those. Only then, context->shape.floats stays as it is, and may be read.
 * Waits while a stripe may be moving to such a switch.
 */
bool sml_submit_fix_floats(struct sml_context *context);

/*
 * A call asks for exact sums, and where the job began, no leaves or hosts round parts of them.
 * Returns false if it has moved to where some do; after true, it moves to no such switch. Waits
 * while a stripe may be moving to or from one.
 */
bool sml_submit_fix_parts(struct sml_context *context);

/*
 * May the stripe move to where it is admitted? Returns NULL, or why it cannot: there, floats are
 * not added, or their parts are rounded, and calls were promised something else. Otherwise, calls
 * that would send floats wait until sml_submit_decide(), because other ranks may know already.
 */
const char *sml_submit_hold(struct sml_stripe *stripe);

/* The stripe has moved to where it is admitted, or given up. Later calls travel as there. */
void sml_submit_decide(struct sml_stripe *stripe, bool moved);

/* Has the job moved to such a switch, or begun at one? */
bool sml_submit_adds_only_integers(struct sml_context *context);

#endif

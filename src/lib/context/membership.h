/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job of a context: one membership. A context has one after the other (reconfigure.c); what
 * outlives them is in settings, requests, counters and the notifier.
 *
 *	sml_membership_init() -- sml_membership_join() -- calls -- sml_membership_fini()
 *	        ^                                                          |
 *	        \---------------------- the next one ----------------------/
 */
#ifndef SML_LIB_MEMBERSHIP_H
#define SML_LIB_MEMBERSHIP_H

#include "lib/context/context.h"

/* Nothing is open yet. Cannot fail. */
void sml_membership_init(struct sml_context *context);

/*
 * Join the job of the settings, and wait until all its ranks have. Returns 0, or a negative error
 * with its text set; then, too, sml_membership_fini() frees what exists.
 */
int sml_membership_join(struct sml_context *context, uint64_t deadline_ns);

/*
 * Ends the threads and connections, and frees everything of the job. Always call this after
 * sml_membership_init(), when no call is inside the context.
 */
void sml_membership_fini(struct sml_context *context);

/*
 * For a form's begin(): make n stripes, with memory for `most`. Returns 0, or a negative error and
 * sets the error text.
 */
int sml_membership_make_stripes(struct sml_context *context, unsigned most, unsigned n,
				uint64_t deadline_ns);

/* The switch has decided which rank of which job this is. In the thread that opens stripe 0. */
int sml_membership_decided(struct sml_stripe *stripe);

/* The switch, or another one, may ask for this rank's place in the job, which ends. */
void sml_membership_note_rank(struct sml_stripe *stripe);

/*
 * Connect, and join; at a switch, also open the transports, prove the paths, and start. Afterwards,
 * `lanes` is known. Returns 0, or an error and sets the error text; the error is SML_ERROR_CLOSED
 * if another stripe has failed.
 */
int sml_stripe_begin(struct sml_stripe *stripe);
extern const struct sml_job_form sml_form_switches;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continue when a dedicated switch has died: with the next address of the list,
 * or with the same one when it is back. core/resume.h has the rules. Calls in
 * progress only take longer.
 *
 * Only the stripe that has lost its switch waits for another one. Epoch, table and
 * report belong to one stripe, so the switches of other stripes are not involved, and
 * the other stripes go on.
 */
#ifndef SML_LIB_FAILOVER_H
#define SML_LIB_FAILOVER_H

#include "lib/context/context.h"
#include "lib/context/stripe.h"

/*
 * The control thread reports that its switch is lost. Returns at once: a separate
 * thread parks the stripe's shards and looks for a switch, within the timeout.
 * Until the context runs, there are no shards: the loss is only noted.
 */
void sml_failover_begin(struct sml_stripe *stripe, const char *lost);

/*
 * The context runs now: begin with what was lost before, after the switch had started the job.
 * Other ranks may have made calls by then, so this rank must not begin anew. Returns 0 or an error,
 * and sets the error text.
 */
int sml_failover_begin_early(struct sml_context *context);

enum sml_failover_end {
	SML_FAILOVER_WENT_ON, /* there is a control that lives */
	SML_FAILOVER_LEFT,    /* all ranks that could be found only wanted to leave */
	SML_FAILOVER_NOT      /* the context has failed, or the deadline has passed */
};

/*
 * A rank that leaves waits until a failover in progress has ended, with or without success, but for
 * at most SML_LEAVE_WAIT_NS, because the others may be gone.
 */
enum sml_failover_end sml_failover_wait_to_leave(struct sml_stripe *stripe, uint64_t deadline_ns);

/*
 * End the connection to a lost switch, but keep its control's memory. Returns false if there is no
 * memory.
 */
bool sml_stripe_retire_control(struct sml_stripe *stripe);

/* Stop the threads, including the failover's. No other failover begins. */
void sml_failover_fini(struct sml_stripe *stripe);

#endif

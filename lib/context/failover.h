/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on when a dedicated switch has died: with the next address of the list,
 * or the same one once it is there again. core/resume.h has the rules. Calls
 * that are under way just take longer.
 *
 * Only the stripe that has lost its switch waits for another: epoch, table and
 * report are a stripe's, its switch is the only one whose word the other ranks
 * have, too, and so the others need not know. They go on with what they have.
 */
#ifndef SML_LIB_FAILOVER_H
#define SML_LIB_FAILOVER_H

#include "lib/context/context.h"

/*
 * The control's thread says that its switch is lost. Returns at once: a thread
 * of its own parks the stripe's shards and looks for a switch, within the timeout.
 */
void sml_failover_begin(struct sml_stripe *stripe, const char *lost);

/*
 * Wait until a failover that is under way has ended, well or not. True: there
 * is a control that lives. False: the context has failed, or the deadline passed.
 */
bool sml_failover_wait(struct sml_stripe *stripe, uint64_t deadline_ns);

/* Stop the threads, the failover's too; no other begins. */
void sml_failover_fini(struct sml_stripe *stripe);

#endif

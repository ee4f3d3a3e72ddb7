/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Going on when a dedicated switch has died: with the next address of the list,
 * or the same one once it is there again. DESIGN section 8; core/resume.h has
 * the rules. Calls that are under way just take longer.
 */
#ifndef SML_LIB_FAILOVER_H
#define SML_LIB_FAILOVER_H

#include "lib/context.h"

/*
 * The control's thread says that its switch is lost. Returns at once: a thread
 * of its own parks the shards and looks for a switch, within the timeout.
 */
void sml_failover_begin(struct sml_context *context, const char *lost);

/*
 * Wait until a failover that is under way has ended, well or not. True: there
 * is a control that lives. False: the context has failed, or the deadline passed.
 */
bool sml_failover_wait(struct sml_context *context, uint64_t deadline_ns);

/* Stop the shards and the thread; no other failover begins. */
void sml_failover_fini(struct sml_context *context);

#endif

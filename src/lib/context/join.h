/* SPDX-License-Identifier: BSD-3-Clause */
/* How a stripe gets a control connection: the address of its switch, and the join. */
#ifndef SML_LIB_JOIN_H
#define SML_LIB_JOIN_H

#include "job/rank/search.h"
#include "lib/context/context.h"

/* Whom it looks for until its job begins. */
enum sml_search_kind sml_stripe_search_kind(const struct sml_stripe *stripe);

/* Note that the stripe is connected to this switch now. */
void sml_stripe_set_connection(struct sml_stripe *stripe, const struct sml_reached *connection);

/* As sml_control_open(), for this stripe. What the control waits for ends with the threads. */
int sml_stripe_open_control(const struct sml_stripe *stripe, const struct sml_reached *connection,
			    struct sml_loop *loop, struct sml_control **control);

/* Connect and open the control. Returns 0 or a negative error, and sets the error text. */
int sml_stripe_connect_control(struct sml_stripe *stripe);

/*
 * Once connected, with a list of members, to a switch other than the one that the job ran at last:
 * tells that one, which otherwise may decide that the job goes on with the ranks that ask it, as if
 * this rank had gone. One that is gone decides nothing. Returns 0, or an error if it has decided or
 * is about to, and sets the error text.
 */
int sml_stripe_tell_last_switch(struct sml_stripe *stripe);

/*
 * Connects to another switch, which the stripe does not join. Returns 0 and the control, or an
 * error.
 */
int sml_stripe_open_beside(const struct sml_stripe *stripe, const struct sml_endpoint *endpoint,
			   uint64_t deadline_ns, struct sml_control **control);

/* Finds the most lanes that the path seems to carry. Returns 0, or an error with its text set. */
int sml_stripe_lanes(const struct sml_stripe *stripe, uint16_t *lanes);

/* The master's address. */
const char *sml_master_host(const struct sml_context *context);

/*
 * The control connection gets its thread. Returns 0 or a negative error, and sets the error text.
 */
int sml_stripe_start_control(struct sml_stripe *stripe);

/*
 * ---- a rank that waits in a call says for which ranks (wait_notices.c) ----
 *
 * Only control threads look, so a call costs nothing. A call waits since its last chunk came, or
 * since it was made: a large tensor on a slow network is no wait. When a notice is due
 * (settings/notice.h), each switch is asked what its slots wait for. What is told is what all of
 * them said, unless the call has gone on meanwhile.
 */

/* Call this at every tick of a control, in its thread. */
void sml_wait_notices_check(struct sml_context *context);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job makes of the ranks on this host. This rank says where it is, and meets the others
 * (hosts_meet.h). If all ranks of a job without a switch share memory, they send no packets. With a
 * switch, or on several hosts, the ranks of a host contribute as one; their lowest rank sends for
 * them.
 *
 * Once the job is settled:
 * - threads.host is NULL, or has n_stripes entries. It is not NULL exactly if this rank shares
 * memory. With switches, this is so exactly if every stripe's admission has host_ranks.
 * - All entries have the same leader_fd, which is closed once, and the sleepers of the first one.
 * - No stripe has a listener or stripe->met, and hosts.found.fd is -1.
 */
#ifndef SML_LIB_HOSTS_H
#define SML_LIB_HOSTS_H

#include "lib/context/context.h"

/* Call this before the stripes open. */
void sml_hosts_begin(struct sml_context *context);

/* Before the join: what to say in it. Nothing if this rank cannot share memory, or must not. */
void sml_hosts_advertise(struct sml_stripe *stripe, struct sml_application *application);

/*
 * All ranks say so (or not): keep what this one shares with others beside the threads, or drop it.
 * context->n_stripes is final. Returns 0 or a negative error, and sets the error text.
 */
int sml_hosts_settle(struct sml_context *context, bool share);

/*
 * The stripe's switch was lost before the job began, and its ranks will meet anew, or go on with
 * what they share, if some of them have begun. False if it is too late for that, or there is no
 * socket.
 */
bool sml_hosts_meet_again(struct sml_stripe *stripe);

/* Whether this rank is to send packets. */
bool sml_hosts_sends(const struct sml_stripe *stripe, const struct sml_readiness *found);

/*
 * With switches: all stripes have opened. The job starts with what their last admissions say.
 * Settles that. Returns 0 or a negative error, and sets the error text.
 */
int sml_hosts_ready(struct sml_context *context);

/* Frees what exists. Call this after the lines are closed. */
void sml_hosts_fini(struct sml_context *context);

#endif

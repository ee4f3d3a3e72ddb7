/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of the ranks on this host, while a stripe opens. The admission names the ranks that
 * may be here. They pass memory to each other (lib/host/meet.h), and each says in Ready whether all
 * of them share it. What a job makes of the memory is in hosts.h.
 *
 * - Each stripe has one handshake, and it ends within 10 s, and before the stripe's deadline. After
 *   it, stripe->listener is closed.
 * - stripe->met is not NULL only if this rank and each of admission.neighbors have proved to each
 *   other that they map the same memory.
 * - Each switch of a job hears the same from this rank. So context->hosts.found.apart, once true,
 *   stays true, and no stripe says anything before all have met or one of them could not.
 */
#ifndef SML_LIB_HOSTS_MEET_H
#define SML_LIB_HOSTS_MEET_H

#include "lib/context/context.h"

struct sml_probe;

/*
 * Where ranks have the slots: who contributes to them if all ranks of each host share memory. n: 1
 * if there is one host, which then sends no packets; 0 if memory cannot be shared.
 */
struct sml_senders sml_hosts_list(const struct sml_context *context);

/*
 * If there is no switch, after the admission: sets *share to true if all ranks of this host have
 * proved that they share memory with this one, or if this rank is alone here and others are
 * together elsewhere. Takes a bounded time, in which the other ranks' probes are answered. Returns
 * 0, or the control's error.
 */
int sml_hosts_meet(struct sml_stripe *first, struct sml_probe *probe, bool *share);

/*
 * With a switch, or several: found->shares_memory says whether all ranks that each switch has
 * admitted as one with this rank share memory with it, as far as this rank can tell; it is the same
 * for all stripes. Takes a bounded time. When the job goes on at another switch, the memory is made
 * ready for that. 0, or an error.
 */
int sml_hosts_meet_under(struct sml_stripe *stripe, struct sml_control *control,
			 struct sml_readiness *found);

/* Give up the memory of a handshake, if there is any. */
void sml_hosts_drop_met(struct sml_stripe *stripe);

#endif

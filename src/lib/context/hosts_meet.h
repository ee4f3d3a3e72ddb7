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
 * After the admission: found->shares_memory says whether all ranks that the switch has admitted as
 * one with this rank share memory with it, as far as this rank can tell; it is the same for all
 * stripes. Without a switch, also if this rank is alone here and others are together elsewhere.
 * Takes a bounded time, in which the probe, if there is one, answers the other ranks' probes. When
 * the job goes on at another switch, the memory is made ready for that. 0, or an error.
 */
int sml_hosts_meet(struct sml_stripe *stripe, struct sml_control *control, struct sml_probe *probe,
		   struct sml_readiness *found);

/* Give up the memory of a handshake, if there is any. */
void sml_hosts_drop_met(struct sml_stripe *stripe);

#endif

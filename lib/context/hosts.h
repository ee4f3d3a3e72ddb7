/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of a job that are on this host, while the context opens: this rank says where it is,
 * learns who else is there, and proves that they share memory (lib/host/meet.h). If all ranks of
 * a job without a switch do, they send no packets. With a switch, or on several hosts, the ranks of
 * a host contribute as one; their lowest rank sends for them.
 */
#ifndef SML_LIB_HOSTS_H
#define SML_LIB_HOSTS_H

#include "lib/context/context.h"

struct sml_probe;

/* Before the stripes open. */
void sml_hosts_begin(struct sml_context *context);

/* Before the join: what to say in it. Nothing if this rank cannot share memory, or must not. */
void sml_hosts_introduce(struct sml_stripe *stripe, struct sml_application *application);

/*
 * Without a switch, after the admission: true if all ranks of this host have shown that they share
 * memory with this one, or if it is alone here, and others are together elsewhere. Takes a bounded
 * time, while the other ranks' probes are answered. 0, or the control's error.
 */
int sml_hosts_meet(struct sml_stripe *first, struct sml_probe *probe, bool *share);

/*
 * All ranks say so (or not): keep the memory in the crew, or drop it. If it was kept, or other
 * ranks keep theirs, context->n_stripes is the number of hosts. 0, or an error, told.
 */
int sml_hosts_settle(struct sml_stripe *first, bool share);

/*
 * With a switch, or several: found->shares_memory says whether all ranks that each switch has
 * admitted as one with this rank share memory with it, as far as this rank can tell; it is the same
 * for all stripes. Takes a bounded time. When the job goes on at another switch, the memory is made
 * ready for that. 0, or an error.
 */
int sml_hosts_meet_under(struct sml_stripe *stripe, struct sml_control *control,
			 struct sml_readiness *found);

/* Is this rank to send packets? */
bool sml_hosts_sends(const struct sml_stripe *stripe, const struct sml_readiness *found);

/*
 * All stripes have opened. The job starts with what their last admissions say: keep the memory, or
 * drop it. 0, or an error, told.
 */
int sml_hosts_settle_under(struct sml_context *context);

/* Frees what exists. After the lines. */
void sml_hosts_fini(struct sml_context *context);

#endif

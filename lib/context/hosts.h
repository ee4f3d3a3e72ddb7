/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks of a job that are on this host, while the context opens: this rank says where it is,
 * learns who else is there, and proves that they share memory (lib/host/meet.h). If all ranks of
 * the job do, they send no packets.
 */
#ifndef SML_LIB_HOSTS_H
#define SML_LIB_HOSTS_H

#include "lib/context/context.h"

struct sml_probe;

/* Before the join: what to say in it. Nothing if this rank cannot share memory, or must not. */
void sml_hosts_introduce(struct sml_context *context, struct sml_application *application);

/*
 * After the admission: true if all ranks of the job have shown that they share memory with this
 * one. Takes a bounded time, while the other ranks' probes are answered. 0, or the control's error.
 */
int sml_hosts_meet(struct sml_stripe *first, struct sml_probe *probe, bool *share);

/* All ranks say so (or not): keep the memory in the crew, as its only slots, or drop it. */
void sml_hosts_settle(struct sml_stripe *first, bool share);

/* Frees what exists. */
void sml_hosts_fini(struct sml_context *context);

#endif

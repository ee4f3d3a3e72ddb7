/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The form without a switch: ranks embed the stripes of their job. Rank 0 has
 * the control port, where all ranks learn the others' addresses. Each rank has
 * one socket per thread, for its packets to the other ranks' slots and their
 * packets to its own slots. Where ranks of a host share memory (hosts.h), only
 * the first one keeps its stripe and its socket.
 *
 * Such a stripe ends with its rank, so nothing is ever resumed.
 */
#ifndef SML_LIB_EMBEDDED_H
#define SML_LIB_EMBEDDED_H

#include "lib/context/context.h"

/* Where every rank takes the packets of every shard. */
struct sml_peers {
	union sml_sockaddr address[SML_MAX_SHARDS][SML_MAX_CHILDREN];
};

/*
 * Rank 0: open the control port. Returns 0 or an error, which has been reported.
 * Listens on the loopback if the master's address is one, else on all addresses:
 * the name by which others know this host may not be one that the host knows.
 * If this is not the context's first job, the port may be open still, and stays so; or it may
 * belong to rank 0 of the last one, which is about to close it, and the call waits for that, for a
 * limited time.
 */
int sml_embedded_listen(struct sml_context *context, uint64_t deadline_ns);

/* Close it, if it is open. */
void sml_embedded_close(struct sml_context *context);

/*
 * Rank 0 of a job that has a switch: open the port where those look for it that have none. Returns
 * NULL if there is none now, and for the default port: any job of this host may want that, and have
 * the same name. sml_switch_close() closes it.
 */
struct sml_switch *sml_embedded_listen_beside(struct sml_context *context);

extern const struct sml_job_form sml_form_ranks;

#endif

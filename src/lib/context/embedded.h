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

extern const struct sml_job_form sml_form_ranks;

#endif

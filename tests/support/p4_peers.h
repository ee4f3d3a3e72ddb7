/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a job's ranks, as a P4 dataplane learns them from probes. */
#ifndef SML_SUPPORT_P4_PEERS_H
#define SML_SUPPORT_P4_PEERS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "switch/p4/internal.h"

/* Rank r is at 10.0.0.16 + r, behind the switch's port `first_port` + r; rank 1 has a VLAN tag. */
static inline void p4_learn_addresses(struct sml_dataplane *dataplane, uint32_t number,
				      uint16_t first_port)
{
	struct sml_p4_job *job = sml_p4_job_of(dataplane, number);

	for (uint8_t rank = 0; rank < job->common.rules.n_ranks; rank++)
		for (uint8_t shard = 0; shard < job->common.rules.n_shards; shard++) {
			struct sml_p4_peer *peer = &job->peers[rank][shard];
			struct sockaddr_in to = {.sin_family = AF_INET,
						 .sin_port = htons(700 + shard)};

			*peer = (struct sml_p4_peer){.mac = {2, 0, 0, 0, 0, rank},
						     .port = (uint16_t)(first_port + rank),
						     .tagged = rank == 1,
						     .tci = 77,
						     .known = true,
						     .stamped = true};
			to.sin_addr.s_addr = htonl(0x0a000010u + rank);
			memcpy(&peer->path.to, &to, sizeof(to));
		}
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs of a P4 dataplane without its thread, and the addresses of their ranks, as probes tell them.
 */
#ifndef SML_SUPPORT_P4_PEERS_H
#define SML_SUPPORT_P4_PEERS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "support/test.h"
#include "switch/p4/internal.h"

static inline void p4_open(struct sml_dataplane *dataplane,
			   const struct sml_p4_target_operations *operations)
{
	memset(dataplane, 0, sizeof(*dataplane));
	sml_daemon_init(&dataplane->daemon, &(struct sml_dataplane_config){.port = 28500});
	pthread_mutex_init(&dataplane->target_mutex, NULL);
	dataplane->operations = operations;
	assert_int_equal(sml_listen_address_parse("10.0.0.1", 28500, &dataplane->own), 0);
}

/* A check that failed may have left the target locked. */
static inline void p4_close(struct sml_dataplane *dataplane)
{
	sml_daemon_fini(&dataplane->daemon);
}

/* Three ranks of two shards, with one slot of the head stream. */
static inline int p4_add(struct sml_dataplane *dataplane, uint32_t number, uint16_t data_slots)
{
	const struct sml_pool_rules rules = {.tag = 0x0102030405060708,
					     .job = number,
					     .epoch = 3,
					     .head_slots = 1,
					     .data_slots = data_slots,
					     .lanes = 64,
					     .n_ranks = 3,
					     .n_shards = 2,
					     .cookies = {11, 12, 0xfedcba9876543210}};

	return sml_dataplane_p4.add_job(dataplane, &rules);
}

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

static inline void p4_start(struct sml_dataplane *dataplane, uint32_t number, uint16_t data_slots,
			    uint16_t first_port)
{
	assert_int_equal(p4_add(dataplane, number, data_slots), 0);
	p4_learn_addresses(dataplane, number, first_port);
	assert_int_equal(sml_dataplane_p4.start_job(dataplane, number), 0);
}

#endif

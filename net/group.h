/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups for results. The switch is given the first one; each job has one of its own,
 * the first plus the job's place, so that the network carries a job's results only to where it
 * has ranks; and each shard has a port of its own, so that a thread gets only what is its.
 */
#ifndef SML_NET_GROUP_H
#define SML_NET_GROUP_H

#include <netinet/in.h>
#include <stdint.h>

#define SML_DEFAULT_GROUP_PORT 28600
#define SML_GROUP_TEXT_BYTES   64

struct sml_group {
	uint8_t address[16];
	uint8_t bytes; /* of the address: 4 or 16; 0: there is no group */
	uint16_t port; /* of shard 0 */
};

/* "GROUP", "GROUP:PORT", "[V6]:PORT", for so many jobs. 0, or -EINVAL: they are not all groups. */
int sml_group_parse(const char *text, uint32_t n_jobs, struct sml_group *group);

/* Of the job with this place. */
struct sml_group sml_group_of_job(const struct sml_group *first, uint32_t place);

/* As a socket of this family takes it. */
void sml_group_address(const struct sml_group *group, uint8_t shard, sa_family_t family,
		       struct sockaddr_in6 *to);

/* "239.77.0.1 port 28600" */
void sml_group_text(const struct sml_group *group, char text[SML_GROUP_TEXT_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups for results. The switch gets the first group. Each job has its own group, which
 * is the first one plus the job's place, so that the network carries a job's results only to its
 * ranks. Each shard has its own port, so that a thread gets only its own results.
 */
#ifndef SML_NET_GROUP_H
#define SML_NET_GROUP_H

#include <netinet/in.h>
#include <stdint.h>

#define SML_DEFAULT_GROUP_PORT 28600
#define SML_GROUP_TEXT_BYTES   64

struct sml_group {
	uint8_t address[16];
	uint8_t bytes; /* of the address: 4 or 16; 0 if there is no group */
	uint16_t port; /* of shard 0 */
};

/*
 * "GROUP", "GROUP:PORT", "[V6]:PORT", for this many jobs. 0, or -EINVAL: not all of them are
 * multicast groups.
 */
int sml_group_parse(const char *text, uint32_t n_jobs, struct sml_group *group);

/* The group of the job with this place. */
struct sml_group sml_group_of_job(const struct sml_group *first, uint32_t place);

/* The group as an address for a socket of this family. */
void sml_group_address(const struct sml_group *group, uint8_t shard, sa_family_t family,
		       struct sockaddr_in6 *to);

/* "239.77.0.1 port 28600" */
void sml_group_text(const struct sml_group *group, char text[SML_GROUP_TEXT_BYTES]);

#endif

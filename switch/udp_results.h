/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results on their way out: gathered while a batch is received, sent to every
 * rank with as few system calls as can be, from the slots' own memory. Where
 * the path refuses super-packets (UDP_SEGMENT), one packet a message.
 */
#ifndef SML_SWITCH_UDP_RESULTS_H
#define SML_SWITCH_UDP_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/wire.h"
#include "switch/udp_socket.h"

#define SML_RESULTS_MAX 128

struct sml_results {
	/* Whose results these are; NULL: none are gathered. */
	const void *job;
	uint8_t shard;
	uint8_t n_ranks;
	/* Rank r's path is at [r][shard] of the job's table. */
	const struct sml_path *paths;
	uint8_t own_rank; /* gets none, for it is in this process; UINT8_MAX: no rank is */
	struct iovec packets[SML_RESULTS_MAX];
	unsigned n;
	bool no_segmentation;
	uint64_t packets_sent, bytes_sent;
	uint64_t drops; /* the socket stayed full: end hosts will ask again */
};

void sml_results_init(struct sml_results *results, uint8_t own_rank);

/* Gather for a job and shard from now on. Nothing may be gathered. */
void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sml_path *paths, uint8_t n_ranks);

/* False: they must be flushed, and begun for this job and shard, first. */
bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length);

void sml_results_flush(struct sml_results *results, int fd);

/* One packet, now. False: it was dropped, and counted. */
bool sml_results_send_one(struct sml_results *results, int fd, const void *packet, uint32_t length,
			  const struct sml_path *path);

#endif

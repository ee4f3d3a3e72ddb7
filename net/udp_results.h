/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results on their way out: gathered while a batch is received, sent to every
 * rank with as few system calls as can be, from the slots' own memory: one by one,
 * or once to the multicast group that several of them listen to. Where the path
 * refuses super-packets (UDP_SEGMENT), one packet a message.
 */
#ifndef SML_NET_UDP_RESULTS_H
#define SML_NET_UDP_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/wire.h"
#include "net/udp_socket.h"

#define SML_RESULTS_MAX 128

/* Different addresses of ours that a job's ranks talk to: beyond, one by one. */
#define SML_WAYS_MAX 4

/* To one shard's group: by each of our addresses that ranks know, and which ranks. */
struct sml_ways {
	unsigned n;
	struct {
		struct sml_path path;
		uint64_t ranks;
	} way[SML_WAYS_MAX];
};

struct sml_results {
	/* Whose results these are; NULL: none are gathered. */
	const void *job;
	uint8_t shard;
	uint8_t n_ranks;
	uint64_t ranks; /* bits of those that get them */
	/* Rank r's path is stride x r paths behind the first. */
	const struct sml_path *paths;
	unsigned stride;
	/* NULL: no group. Bits of the ranks that a packet to it reaches, atomic. */
	const struct sml_ways *ways;
	const uint64_t *reached;
	uint8_t own_rank; /* in this process: the one after it is the first; UINT8_MAX: none is */
	struct iovec packets[SML_RESULTS_MAX];
	unsigned n;
	bool no_segmentation;
	uint64_t packets_sent, bytes_sent;
	uint64_t packets_multicast; /* of those */
	uint64_t drops;		    /* the socket stayed full: end hosts will ask again */
};

void sml_results_init(struct sml_results *results, uint8_t own_rank);

/*
 * Gather for a job and shard from now on, for all ranks but our own. Nothing may be
 * gathered. paths: [r][shard] is rank r's.
 */
void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sml_path *paths, uint8_t n_ranks);

/* After it: the job has groups. `ways` is read when results are flushed, by the same thread. */
void sml_results_use_groups(struct sml_results *results, const struct sml_ways *ways,
			    const uint64_t *reached);

/* False: they must be flushed, and begun for this job and shard, first. */
bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length);

void sml_results_flush(struct sml_results *results, int fd);

/* At once, n packets (SML_RESULTS_MAX at most) to each of these ranks; paths: [r] is rank r's. */
void sml_results_send_to(struct sml_results *results, int fd, const struct sml_path *paths,
			 uint64_t ranks, const struct iovec *packets, unsigned n);

/* One packet, now. False: it was dropped, and counted. */
bool sml_results_send_one(struct sml_results *results, int fd, const void *packet, uint32_t length,
			  const struct sml_path *path);

#endif

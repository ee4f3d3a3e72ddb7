/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends results. They are gathered while a batch is received, and sent directly from the slots'
 * memory with as few system calls as possible.
 */
#ifndef SML_NET_UDP_RESULTS_H
#define SML_NET_UDP_RESULTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/wire.h"
#include "net/udp_sender.h"
#include "net/udp_socket.h"

#define SML_RESULTS_MAX 128

struct sml_results {
	struct sml_udp_sender *sender; /* others may use it, too */
	/* The job of these results; NULL if none are gathered. */
	const void *job;
	uint8_t shard;
	uint8_t n_ranks;
	uint64_t ranks; /* bits of the ranks that get them */
	/* Rank r's path is stride x r paths after the first. */
	const struct sml_path *paths;
	unsigned stride;
	uint8_t own_rank; /* the rank in this process, so the next one is served first; UINT8_MAX:
			     none */
	struct iovec packets[SML_RESULTS_MAX];
	unsigned n;
};

void sml_results_init(struct sml_results *results, struct sml_udp_sender *sender, uint8_t own_rank);

/*
 * Gather for a job and shard from now on, for all ranks but our own. No results may be pending.
 * paths: [r][shard] is rank r's.
 */
void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sml_path *paths, uint8_t n_ranks);

/* False: first flush, and begin for this job and shard. */
bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length);

/* A result is dropped if the socket stays full: end hosts will ask again. */
void sml_results_flush(struct sml_results *results);

/*
 * Send n packets (SML_RESULTS_MAX at most) at once to each of these ranks; paths: [r] is rank r's.
 */
void sml_results_send_to(struct sml_results *results, const struct sml_path *paths, uint64_t ranks,
			 const struct iovec *packets, unsigned n);

#endif

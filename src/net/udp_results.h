/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends results. They are gathered while a batch is received, and sent directly from the slots'
 * memory with as few system calls as possible: to each rank separately, or once to the multicast
 * group of several ranks.
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

/*
 * The most addresses of ours that a job's ranks can use; ranks at further ones get results by
 * unicast.
 */
#define SML_GROUP_PATHS_MAX 4

/* Paths to one shard's group: one for each of our addresses that ranks use, and those ranks. */
struct sml_group_paths {
	unsigned n;
	struct {
		struct sml_path path;
		uint64_t ranks;
	} each[SML_GROUP_PATHS_MAX];
};

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
	/*
	 * NULL if the job has no group. `reached` has a bit for each rank that packets to the group
	 * reach; it is atomic.
	 */
	const struct sml_group_paths *group_paths;
	const uint64_t *reached;
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

/*
 * Call this after sml_results_begin() if the job has groups. The same thread reads `group_paths`
 * when it flushes results.
 */
void sml_results_use_groups(struct sml_results *results, const struct sml_group_paths *group_paths,
			    const uint64_t *reached);

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

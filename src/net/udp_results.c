/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends results: see udp_results.h. */
#include "net/udp_results.h"

#include <string.h>

void sml_results_init(struct sml_results *results, struct sml_udp_sender *sender, uint8_t own_rank)
{
	*results = (struct sml_results){.sender = sender, .own_rank = own_rank};
}

void sml_results_begin(struct sml_results *results, const void *job, uint8_t shard,
		       const struct sml_path *paths, uint8_t n_ranks)
{
	results->job = job;
	results->shard = shard;
	results->paths = paths + shard;
	results->stride = SML_MAX_SHARDS;
	results->n_ranks = n_ranks;
	results->ranks = UINT64_MAX;
	if (results->own_rank < SML_MAX_CHILDREN)
		results->ranks &= ~((uint64_t)1 << results->own_rank);
	results->n = 0;
}

bool sml_results_add(struct sml_results *results, const void *job, uint8_t shard,
		     const void *packet, uint32_t length)
{
	if (results->job != job || results->shard != shard || results->n == SML_RESULTS_MAX)
		return false;
	results->packets[results->n++] = (struct iovec){(void *)(uintptr_t)packet, length};
	return true;
}

static void add_message(struct sml_results *results, const struct iovec *packets, unsigned n,
			const struct sml_path *path)
{
	const struct sml_udp_message message = {packets, n, path};

	if (results->sender->n == SML_UDP_MESSAGES)
		sml_udp_sender_flush(results->sender, true);
	sml_udp_sender_add(results->sender, &message);
}

static void add_run(struct sml_results *results, const struct iovec *packets, unsigned n)
{
	/*
	 * Start with the rank after our own, so that stripes do not all begin with the same
	 * rank.
	 */
	for (unsigned i = 1; i <= results->n_ranks; i++) {
		unsigned rank = (results->own_rank + i) % results->n_ranks;

		if (results->ranks >> rank & 1)
			add_message(results, packets, n, &results->paths[rank * results->stride]);
	}
}

void sml_results_flush(struct sml_results *results)
{
	unsigned n;

	for (unsigned first = 0; first < results->n; first += n) {
		const struct iovec *packets = &results->packets[first];

		n = sml_udp_sender_run(results->sender, packets, results->n - first);
		add_run(results, packets, n);
	}
	sml_udp_sender_flush(results->sender, true);
	results->n = 0;
	results->job = NULL;
}

void sml_results_send_to(struct sml_results *results, const struct sml_path *paths, uint64_t ranks,
			 const struct iovec *packets, unsigned n)
{
	sml_assert(n <= SML_RESULTS_MAX);
	results->paths = paths;
	results->stride = 1;
	results->n_ranks = SML_MAX_CHILDREN;
	results->ranks = ranks;
	results->n = n;
	memcpy(results->packets, packets, n * sizeof(*packets));
	sml_results_flush(results);
}

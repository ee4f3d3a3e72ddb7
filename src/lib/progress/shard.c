/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and freeing a shard, and its counters. */

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "lib/progress/line.h"

static void *worker_memory(const struct sml_worker_config *config)
{
	/* A multiple of 64, as aligned_alloc() requires. */
	return aligned_alloc(64, (sml_worker_memory_bytes(config) + 63) & ~63ull);
}

struct sml_shard *sml_shard_new(const struct sml_worker_config *config, struct sml_line *line,
				const bool *park)
{
	struct sml_shard *shard = calloc(1, sizeof(*shard));

	if (shard)
		shard->worker_memory = worker_memory(config);
	if (shard == NULL || shard->worker_memory == NULL) {
		free(shard);
		sml_error_set(-ENOMEM, "no memory for the slots of a switch");
		return NULL;
	}
	shard->stripe = config->stripe;
	shard->index = config->shard;
	shard->line = line;
	shard->park = park;
	shard->next_sum = SML_NO_SLOT;
	sml_worker_init(&shard->worker, config, shard->worker_memory);
	line->shards[line->n_shards++] = shard;
	if (line->own)
		sml_team_add(&line->team, &shard->worker);
	return shard;
}

struct sml_worker *sml_shard_prepare(const struct sml_worker_config *config, void **memory)
{
	struct sml_worker *next = malloc(sizeof(*next));

	*memory = worker_memory(config);
	if (*memory == NULL || next == NULL) {
		free(*memory);
		*memory = NULL;
		free(next);
		return NULL;
	}
	sml_worker_init(next, config, *memory);
	return next;
}

void sml_shard_renew(struct sml_shard *shard, struct sml_worker *next, void *memory,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep)
{
	struct sml_line *line = shard->line;

	sml_resume_begin(next, &shard->worker, maps);
	if (keep) {
		free(shard->kept_memory);
		shard->kept = shard->worker;
		shard->kept_memory = shard->worker_memory;
	} else {
		free(shard->worker_memory);
	}
	shard->worker = *next;
	shard->worker_memory = memory;
	shard->held_since_ns = 0;
	shard->next_sum = SML_NO_SLOT;
	sml_line_forget_path(shard);
	free(next);
	if (line->transport)
		line->transport->ops->close(line->transport);
	line->transport = transport;
	sml_batch_clear(&line->out);
}

void sml_shard_free(struct sml_shard *shard)
{
	if (shard == NULL)
		return;
	free(shard->worker_memory);
	free(shard->kept_memory);
	free(shard);
}

/* ---- counters ---- */

#define PUBLISH(member, value) __atomic_store_n(&shard->counters.member, (value), __ATOMIC_RELAXED)

/*
 * Its own packets stay in the process: it sends and receives only what its stripe does for others.
 */
static void publish_served(struct sml_shard *shard)
{
	const struct sml_line *line = shard->line;

	PUBLISH(packets_sent, line->result_packets);
	PUBLISH(packets_received, line->served_packets);
	PUBLISH(bytes_sent, line->result_bytes);
	PUBLISH(bytes_received, line->served_bytes);
}

void sml_shard_publish(struct sml_shard *shard)
{
	const struct sml_worker_counters *from = &shard->worker.counters;
	uint64_t min_ns = shard->worker.rtt.min_ns;

	if (shard->worker.config.local) {
		publish_served(shard);
	} else {
		PUBLISH(packets_sent, from->packets_sent);
		PUBLISH(packets_received, from->packets_received);
		PUBLISH(bytes_sent, from->bytes_sent);
		PUBLISH(bytes_received, from->bytes_received);
	}
	PUBLISH(retransmits_timeout, from->retransmits_timeout);
	PUBLISH(retransmits_fast, from->retransmits_fast);
	PUBLISH(packets_ignored, from->ignored);
	PUBLISH(rtt_ns, shard->worker.rtt.smoothed_ns);
	PUBLISH(rtt_min_ns, min_ns == UINT64_MAX ? 0 : min_ns);
	PUBLISH(window, shard->worker.flight.window);
	PUBLISH(stalls, from->stalls);
	PUBLISH(send_blocked, shard->line->send_blocked);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A shard's beginning and end, its counters, and what it was waiting for when it stopped. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/context.h"

static void *worker_memory(const struct sml_worker_config *config)
{
	/* A multiple of 64, as aligned_alloc() wants it. */
	return aligned_alloc(64, (sml_worker_memory_bytes(config) + 63) & ~63ull);
}

struct sml_shard *sml_shard_new(struct sml_stripe *stripe, const struct sml_worker_config *config,
				struct sml_line *line)
{
	struct sml_shard *shard = calloc(1, sizeof(*shard));

	if (shard)
		shard->worker_memory = worker_memory(config);
	if (shard == NULL || shard->worker_memory == NULL) {
		free(shard);
		sml_error_set(-ENOMEM, "no memory for the slots of a switch");
		return NULL;
	}
	shard->stripe = stripe;
	shard->index = config->shard;
	shard->line = line;
	sml_worker_init(&shard->worker, config, shard->worker_memory);
	line->shards[line->n_shards++] = shard;
	return shard;
}

bool sml_shard_renew(struct sml_shard *shard, const struct sml_worker_config *config,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep)
{
	void *memory = worker_memory(config);
	struct sml_worker *next = malloc(sizeof(*next));
	struct sml_line *line = shard->line;

	if (memory == NULL || next == NULL) {
		free(memory);
		free(next);
		return false;
	}
	sml_worker_init(next, config, memory);
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
	free(next);
	line->transport->ops->close(line->transport);
	line->transport = transport;
	sml_batch_clear(&line->out);
	return true;
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

void sml_shard_publish(struct sml_shard *shard)
{
	const struct sml_worker_counters *from = &shard->worker.counters;
	uint64_t min_ns = shard->worker.rtt.min_ns;

	PUBLISH(packets_sent, from->packets_sent);
	PUBLISH(packets_received, from->packets_received);
	PUBLISH(bytes_sent, from->bytes_sent);
	PUBLISH(bytes_received, from->bytes_received);
	PUBLISH(retransmits_timeout, from->retransmits_timeout);
	PUBLISH(retransmits_fast, from->retransmits_fast);
	PUBLISH(packets_ignored, from->ignored);
	PUBLISH(rtt_ns, shard->worker.rtt.smoothed_ns);
	PUBLISH(rtt_min_ns, min_ns == UINT64_MAX ? 0 : min_ns);
	PUBLISH(window, shard->worker.flight.window);
	PUBLISH(stalls, from->stalls);
	PUBLISH(send_blocked, shard->line->send_blocked);
}

/* ---- what it was waiting for ---- */

static uint32_t tensor_number(const struct sml_worker *worker, enum sml_stream_id stream,
			      uint32_t chunk)
{
	for (uint32_t i = worker->oldest; i != worker->newest; i++) {
		const struct sml_tensor *tensor = worker->tensors[i % SML_WORKER_TENSORS];

		if (chunk - tensor->window[stream].first < tensor->window[stream].count)
			return tensor->number;
	}
	return UINT32_MAX;
}

/* "shard 0", or, where there are several stripes, "stripe 1 (10.0.0.2:28500), shard 0". */
static void name_shard(const struct sml_shard *shard, char *name, size_t bytes)
{
	const struct sml_stripe *stripe = shard->stripe;

	if (stripe->context->n_stripes == 1)
		snprintf(name, bytes, "shard %u", shard->index);
	else
		snprintf(name, bytes, "stripe %u (%.80s), shard %u", stripe->index,
			 sml_stripe_name(stripe), shard->index);
}

bool sml_shard_describe(const struct sml_shard *shard, char *text, size_t bytes)
{
	static const char *const names[] = {[SML_HEAD] = "head", [SML_DATA] = "data"};
	const struct sml_worker *worker = &shard->worker;
	size_t length = 0;
	char name[128];

	text[0] = '\0';
	name_shard(shard, name, sizeof(name));
	if (sml_worker_is_broken(worker))
		length = (size_t)snprintf(text, bytes,
					  "%s gave up: the switch broke the protocol (it gave "
					  "out a chunk twice)",
					  name);
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		const struct sml_list *unanswered = &worker->streams[stream].unanswered;
		uint16_t slot = unanswered->first;
		uint32_t chunk;

		if (unanswered->n == 0 || length >= bytes)
			continue;
		chunk = sml_worker_stream_chunk(worker, worker->chunks[slot]);
		length += (size_t)snprintf(
			text + length, bytes - length,
			"%s%s waits for %u result%s, first for chunk %u of the %s stream "
			"(call %u), sent %u times",
			length ? "; " : "", name, unanswered->n, unanswered->n == 1 ? "" : "s",
			chunk, names[stream], tensor_number(worker, stream, chunk),
			worker->slots[slot].sends);
	}
	return length > 0;
}

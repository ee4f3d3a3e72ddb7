/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets between workers and their transport. A thread's own; see progress.h. */
#include <stdlib.h>

#include "lib/context.h"

struct sml_line *sml_line_new(struct sml_transport *transport)
{
	struct sml_line *line = calloc(1, sizeof(*line));

	if (line == NULL)
		return NULL;
	line->out.bytes = aligned_alloc(64, SML_BATCH_BYTES);
	if (line->out.bytes == NULL) {
		free(line);
		return NULL;
	}
	line->transport = transport;
	return line;
}

void sml_line_free(struct sml_line *line)
{
	if (line == NULL)
		return;
	line->transport->ops->close(line->transport);
	free(line->out.bytes);
	free(line);
}

/* ---- in ---- */

/* A result that the worker took: of the head stream, others may have waited for it. */
static bool is_head(const struct sml_shard *shard, const struct sml_packet *packet)
{
	const struct sml_header *header = packet->bytes;

	return sml_be16(header->slot_be) < shard->worker.config.head_slots;
}

bool sml_line_receive(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
		      uint64_t *done, bool *heads)
{
	struct sml_transport *transport = line->transport;
	struct sml_shard *shard = line->shards[0];
	unsigned n = transport->ops->receive(transport, packets);
	uint64_t done_here = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct sml_packet *packet = &packets[i];
		enum sml_worker_verdict verdict =
			sml_worker_receive(&shard->worker, packet->bytes, packet->length, now_ns);

		*heads |= verdict != SML_WORKER_IGNORED && is_head(shard, packet);
		done_here += verdict == SML_WORKER_TENSOR;
	}
	if (done_here)
		__atomic_store_n(&shard->counters.tensors, shard->counters.tensors + done_here,
				 __ATOMIC_RELAXED);
	*done += done_here;
	return n > 0;
}

/* ---- out ---- */

static void fill(struct sml_line *line, struct sml_shard *shard, uint64_t now_ns)
{
	uint32_t most = SML_HEADER_BYTES + 4u * shard->worker.config.shape.lanes;
	size_t length;

	while (sml_batch_has_room(&line->out, most)) {
		length = sml_worker_send(&shard->worker, sml_batch_place(&line->out), now_ns);
		if (length == 0)
			break;
		sml_batch_add(&line->out, (uint32_t)length);
	}
}

bool sml_line_send(struct sml_line *line, uint64_t now_ns)
{
	struct sml_transport *transport = line->transport;
	unsigned taken;

	if (!sml_line_is_full(line)) {
		sml_batch_clear(&line->out);
		for (unsigned i = 0; i < line->n_shards; i++)
			fill(line, line->shards[i], now_ns);
		if (line->out.n == 0)
			return false;
	}
	taken = transport->ops->send(transport, &line->out);
	if (sml_line_is_full(line))
		line->send_blocked++;
	return taken > 0;
}

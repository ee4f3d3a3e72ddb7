/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/trace/trace.h"

#include <stdlib.h>

struct sml_trace *sml_trace_new(unsigned shard)
{
	struct sml_trace *trace = calloc(1, sizeof(*trace));

	if (trace == NULL)
		return NULL;
	trace->shard = shard;
	trace->events = malloc(SML_TRACE_EVENTS * sizeof(*trace->events));
	trace->calls = malloc(SML_TRACE_CALLS * sizeof(*trace->calls));
	if (trace->events == NULL || trace->calls == NULL) {
		sml_trace_free(trace);
		return NULL;
	}
	return trace;
}

void sml_trace_free(struct sml_trace *trace)
{
	if (trace == NULL)
		return;
	free(trace->events);
	free(trace->calls);
	free(trace);
}

/* What a slot is doing. */
static struct sml_trace_event describe(const struct sml_worker *worker, uint16_t slot)
{
	const struct sml_worker_slot *state = &worker->slots[slot];

	return (struct sml_trace_event){
		.begin_ns = state->first_sent_ns,
		.epoch = worker->config.epoch,
		.use = state->use,
		.chunk = sml_worker_stream_chunk(worker, worker->chunks[slot]),
		.call = state->tensor->number,
		.slot = sml_worker_slot_number(worker, slot),
		.stripe = worker->config.stripe,
		.sends = state->sends,
		.is_head = sml_worker_stream_of(worker, slot) == SML_HEAD,
		.timed_out = state->timed_out,
	};
}

bool sml_trace_note_result(struct sml_trace_event *event, const struct sml_worker *worker,
			   const void *packet, size_t length, uint64_t now_ns)
{
	const struct sml_header *header = packet;
	uint16_t slot;

	if (length < SML_HEADER_BYTES || header->kind != SML_PACKET_RESULT)
		return false;
	slot = sml_worker_slot_of_number(worker, sml_be16(header->slot_be));
	if (slot == SML_NO_SLOT || worker->slots[slot].place == SML_WAITING)
		return false;
	*event = describe(worker, slot);
	event->kind = SML_TRACE_SLOT;
	event->end_ns = now_ns;
	/* In a tree, the number is one of this rank's switch, and no rank. */
	event->was_last = header->rank == worker->config.number;
	return true;
}

void sml_trace_sent(struct sml_trace *trace, const struct sml_worker *worker, const void *packet,
		    uint64_t now_ns)
{
	const struct sml_header *header = packet;
	uint16_t slot = sml_worker_slot_of_number(worker, sml_be16(header->slot_be));
	struct sml_trace_event event;

	if (slot == SML_NO_SLOT || worker->slots[slot].sends < 2)
		return;
	event = describe(worker, slot);
	event.kind = SML_TRACE_RESENT;
	event.begin_ns = event.end_ns = now_ns;
	sml_trace_add(trace, &event);
}

void sml_trace_stalled(struct sml_trace *trace, const struct sml_worker *worker, uint64_t now_ns)
{
	const struct sml_trace_event event = {
		.begin_ns = now_ns,
		.end_ns = now_ns,
		.epoch = worker->config.epoch,
		.kind = SML_TRACE_STALL,
		.stripe = worker->config.stripe,
	};

	sml_trace_add(trace, &event);
}

void sml_trace_call(struct sml_trace *trace, const struct sml_tensor *tensor, uint64_t begin_ns,
		    uint64_t end_ns, bool unfinished)
{
	trace->calls[trace->n_calls++ % SML_TRACE_CALLS] = (struct sml_trace_call){
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.count = tensor->spec.count,
		.number = tensor->number,
		.collective = (uint8_t)tensor->spec.collective,
		.type = (uint8_t)tensor->spec.type,
		.op = (uint8_t)tensor->spec.op,
		.wire = (uint8_t)tensor->spec.wire,
		.unfinished = unfinished,
	};
}

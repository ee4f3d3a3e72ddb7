/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line without packets: the slots are in memory that all ranks share (lib/host/slots.h). "In"
 * takes results, and adds up what is complete; "out" writes this rank's rows.
 */
#include <stdlib.h>

#include "lib/control/client.h"
#include "lib/progress/line.h"
#include "lib/progress/shard.h"

struct sml_line *sml_line_new_shared(struct sml_host *host, struct sml_control *control)
{
	struct sml_line *line = calloc(1, sizeof(*line));

	if (line == NULL)
		return NULL;
	line->host = host;
	line->control = control;
	return line;
}

/* The slot's number in the job, and what this rank has sent there. */
static struct sml_contribution sent_in(const struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = worker->slots[slot].sent;

	in.slot = sml_worker_slot_number(worker, slot);
	in.use = worker->slots[slot].use;
	in.chunk = sml_worker_stream_chunk(worker, worker->chunks[slot]);
	return in;
}

/* Rank 0 asks both, and numbers the slots as the admission does. */
static void tell_mismatch(struct sml_line *line, const struct sml_worker *worker,
			  const struct sml_contribution *in, uint8_t other)
{
	const struct sml_disagreement found = {
		.slot = in->slot < worker->config.head_slots ? 0 : SML_MAX_SLOTS,
		.use = in->use,
		.chunk = in->chunk,
		.ranks = {other, line->host->rank},
	};

	if (line->mismatch_told)
		return;
	line->mismatch_told = true;
	sml_control_mismatch(line->control, &found);
}

static void take(struct sml_line *line, struct sml_shard *shard, uint16_t slot, uint64_t now_ns,
		 struct sml_news *news)
{
	struct sml_worker *worker = &shard->worker;
	struct sml_contribution in = sent_in(worker, slot);
	uint32_t ticket;
	const void *lanes = sml_host_result(line->host, in.slot, in.use, &ticket);
	enum sml_worker_verdict verdict = sml_worker_take(worker, slot, ticket, lanes, now_ns);

	sml_line_note(shard, verdict, false, news);
}

/* If it is complete, and no other rank does. */
static bool add(struct sml_line *line, struct sml_worker *worker, uint16_t slot)
{
	struct sml_contribution in = sent_in(worker, slot);
	uint8_t other = line->host->rank;

	if (sml_host_add(line->host, &in, &other))
		return true;
	if (other != line->host->rank)
		tell_mismatch(line, worker, &in, other);
	return false;
}

bool sml_host_line_receive(struct sml_line *line, uint64_t now_ns, struct sml_news *news)
{
	struct sml_shard *shard = line->shards[0];
	struct sml_worker *worker = &shard->worker;
	uint16_t slot = worker->in_flight.first, next;
	bool any = false;

	for (; slot != SML_NO_SLOT; slot = next) {
		enum sml_host_state state = sml_host_look(
			line->host, sml_worker_slot_number(worker, slot), worker->slots[slot].use);

		next = worker->send_links[slot].next;
		if (state != SML_HOST_DONE && (state != SML_HOST_FULL || !add(line, worker, slot)))
			continue;
		take(line, shard, slot, now_ns, news);
		any = true;
		if (worker->frozen)
			break;
	}
	sml_host_tell(line->host);
	return any;
}

bool sml_host_line_send(struct sml_line *line, uint64_t now_ns)
{
	struct sml_worker *worker = &line->shards[0]->worker;
	bool any = false;
	uint16_t slot;

	while ((slot = sml_worker_choose(worker, now_ns)) != SML_NO_SLOT) {
		struct sml_contribution in = sent_in(worker, slot);
		uint8_t other;

		sml_worker_fill(worker, slot, sml_host_row(line->host, in.slot, in.use));
		other = sml_host_arrive(line->host, &in);
		if (other != line->host->rank)
			tell_mismatch(line, worker, &in, other);
		any = true;
	}
	return any;
}

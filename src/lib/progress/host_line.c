/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines whose slots are in memory that ranks share (lib/host/slots.h). Without a transport, "in"
 * takes results, and adds up what is complete; "out" writes this rank's rows. The leader of a host
 * whose sums go up has a transport: to the switch, its worker stands for the whole host. When the
 * rows of a slot have been added up, their sum is a packet, which line.c sends.
 */
#include <string.h>

#include "lib/control/client.h"
#include "lib/progress/line.h"

static struct sml_host *host_of(const struct sml_shard *shard)
{
	const struct sml_line *line = shard->line;

	return line->n_shards > 1 ? &line->host[shard->stripe] : line->host;
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

/* As the admission numbers slots: without a switch, there are fewer here, but of each stream. */
static uint16_t number_for(const struct sml_shard *shard, uint16_t slot)
{
	if (host_of(shard)->memory.terms.goes_up)
		return slot;
	return slot < shard->worker.config.head_slots ? 0 : SML_MAX_SLOTS;
}

/* The switch, or rank 0, asks both. */
static void report_mismatch(struct sml_shard *shard, const struct sml_contribution *in,
			    uint8_t other)
{
	const struct sml_host *host = host_of(shard);
	const struct sml_disagreement found = {
		.slot = number_for(shard, in->slot),
		.use = in->use,
		.chunk = in->chunk,
		.ranks = {host->job_ranks[other], host->job_ranks[host->rank]},
	};

	sml_control_mismatch(shard->line->control, &found);
}

/* Does the chunk need no sum? All ranks know it alike: of other calls, the digest differs. */
static bool is_inserted(struct sml_shard *shard, uint16_t slot)
{
	return !host_of(shard)->memory.terms.goes_up &&
	       sml_tensor_is_inserted(shard->worker.slots[slot].tensor);
}

/* If it is complete, and no other rank does. */
static bool add_up(struct sml_shard *shard, uint16_t slot)
{
	struct sml_contribution in = sent_in(&shard->worker, slot);
	struct sml_host *host = host_of(shard);
	uint8_t other = host->rank;

	if (sml_host_add(host, &in, is_inserted(shard, slot), &other))
		return true;
	if (other != host->rank)
		report_mismatch(shard, &in, other);
	return false;
}

static enum sml_host_state look_at_slot(struct sml_shard *shard, uint16_t slot)
{
	const struct sml_host *host = host_of(shard);
	uint32_t number = sml_worker_slot_number(&shard->worker, slot);
	uint32_t use = shard->worker.slots[slot].use;
	enum sml_host_state state = sml_host_look(host, number, use);

	if (state == SML_HOST_FULL && add_up(shard, slot))
		state = sml_host_look(host, number, use);
	return state;
}

static void contribute(struct sml_shard *shard, uint16_t slot, uint64_t now_ns)
{
	struct sml_contribution in = sent_in(&shard->worker, slot);
	struct sml_host *host = host_of(shard);
	uint8_t other;

	if (is_inserted(shard, slot))
		sml_worker_insert(&shard->worker, slot, sml_host_result_row(host, in.slot, in.use));
	else
		sml_worker_fill(&shard->worker, slot, sml_host_row(host, in.slot, in.use));
	other = sml_host_arrive(host, &in, now_ns);
	if (other != host->rank)
		report_mismatch(shard, &in, other);
}

/* ---- the leader ---- */

void sml_host_line_publish(struct sml_shard *shard, const void *packet, uint32_t length)
{
	const struct sml_header *header = packet;
	/* What the worker ignores is not for the others either. */
	uint16_t slot = sml_worker_answered(&shard->worker, packet, length);
	struct sml_contribution in;

	if (slot == SML_NO_SLOT)
		return;
	in = sent_in(&shard->worker, slot);
	sml_host_publish(host_of(shard), &in, sml_be32(header->chunk_be), sml_worker_lanes(packet));
}

void sml_host_line_wake(const struct sml_line *line)
{
	for (unsigned i = 0; i < line->n_shards; i++)
		sml_host_wake_sleepers(host_of(line->shards[i]));
}

static size_t write_packet(struct sml_shard *shard, uint16_t slot, void *packet)
{
	struct sml_worker *worker = &shard->worker;
	const void *sum = sml_host_result_row(host_of(shard), sml_worker_slot_number(worker, slot),
					      worker->slots[slot].use);
	size_t length = sml_worker_write_header(worker, slot, packet, sum);

	memcpy((uint8_t *)packet + SML_HEADER_BYTES, sum, length - SML_HEADER_BYTES);
	return length;
}

/* The next complete sum, in the order in which this rank has contributed; SML_NO_SLOT: none. */
static uint16_t find_sum(struct sml_shard *shard)
{
	struct sml_worker *worker = &shard->worker;
	uint16_t slot = shard->next_sum == SML_NO_SLOT ? worker->gathering.first : shard->next_sum;

	shard->next_sum = SML_NO_SLOT;
	while (slot != SML_NO_SLOT && !worker->frozen) {
		uint16_t next = worker->send_links[slot].next;

		if (look_at_slot(shard, slot) == SML_HOST_SUMMED) {
			shard->next_sum = next;
			return slot;
		}
		slot = next;
	}
	/* Sums that this rank has added up: they wait for nobody else. */
	host_of(shard)->has_sum = false;
	return SML_NO_SLOT;
}

size_t sml_host_line_next(struct sml_shard *shard, void *packet, uint64_t now_ns)
{
	struct sml_worker *worker = &shard->worker;
	uint16_t slot;

	/* Rows first: the other ranks of the host wait for them. */
	while ((slot = sml_worker_choose(worker, now_ns)) != SML_NO_SLOT) {
		if (worker->slots[slot].place == SML_IN_FLIGHT)
			return write_packet(shard, slot, packet);
		contribute(shard, slot, now_ns);
	}
	slot = find_sum(shard);
	if (slot == SML_NO_SLOT)
		return 0;
	sml_worker_launch(worker, slot, now_ns);
	return write_packet(shard, slot, packet);
}

/* ---- the others, which send no packets ---- */

static void take_result(struct sml_shard *shard, uint16_t slot, uint64_t now_ns,
			struct sml_wakeups *wakeups)
{
	struct sml_contribution in = sent_in(&shard->worker, slot);
	uint32_t ticket;
	const void *lanes = sml_host_result(host_of(shard), in.slot, in.use, &ticket);
	enum sml_worker_verdict verdict =
		sml_worker_take(&shard->worker, slot, ticket, lanes, now_ns);

	sml_line_note(shard, verdict, false, wakeups);
}

bool sml_host_line_receive(struct sml_line *line, uint64_t now_ns, struct sml_wakeups *wakeups)
{
	struct sml_shard *shard = line->shards[0];
	struct sml_worker *worker = &shard->worker;
	uint16_t slot = worker->in_flight.first, next;
	bool any = false;

	for (; slot != SML_NO_SLOT && !worker->frozen; slot = next) {
		next = worker->send_links[slot].next;
		if (look_at_slot(shard, slot) != SML_HOST_DONE)
			continue;
		take_result(shard, slot, now_ns, wakeups);
		any = true;
	}
	sml_host_line_wake(line);
	return any;
}

bool sml_host_line_send(struct sml_line *line, uint64_t now_ns)
{
	struct sml_shard *shard = line->shards[0];
	bool any = false;
	uint16_t slot;

	while ((slot = sml_worker_choose(&shard->worker, now_ns)) != SML_NO_SLOT) {
		contribute(shard, slot, now_ns);
		any = true;
	}
	return any;
}

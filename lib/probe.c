/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A probe is a header and as many lanes as it asks about; the switch sends it
 * back as long as it came. The first round asks for the full width alone, which
 * is all that a healthy path needs; later rounds ask for every width that has
 * not been answered, so that lost packets and a narrow path are told apart.
 */
#include "lib/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/clock.h"
#include "lib/error.h"

#define ROUNDS	       7
#define FIRST_ROUND_NS (50 * SML_NS_PER_MS)
#define ROUND_NS       (250 * SML_NS_PER_MS)
#define MAX_WIDTHS     16

struct probe {
	const struct sml_admission *admission;
	uint8_t rank;
	struct sml_transport *const *transports;
	struct sml_batch batch;
	struct sml_packet packets[SML_RECEIVE_PACKETS];
	uint16_t widths[MAX_WIDTHS]; /* descending */
	unsigned n_widths;
	unsigned answered[SML_MAX_SHARDS]; /* bit i: widths[i] came back */
};

static void list_widths(struct probe *probe, uint16_t lanes)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	unsigned n = sizeof(counts) / sizeof(counts[0]) - 1;

	/* The job's own width, should the switch have made it none of the list. */
	probe->widths[probe->n_widths++] = lanes;
	while (n-- > 0)
		if (counts[n] < lanes)
			probe->widths[probe->n_widths++] = counts[n];
}

static void send_probe(struct probe *probe, uint8_t shard, uint16_t lanes)
{
	struct sml_transport *transport = probe->transports[shard];
	uint32_t length = SML_HEADER_BYTES + 4u * lanes;
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(probe->admission->job_number),
		.key_be = sml_be64(probe->admission->cookie),
		.epoch_be = sml_be32(probe->admission->epoch),
		.rank = probe->rank,
		.shard = shard,
		.lanes_be = sml_be16(lanes),
	};

	sml_batch_clear(&probe->batch);
	memcpy(probe->batch.bytes, &header, sizeof(header));
	memset(probe->batch.bytes + sizeof(header), 0, length - sizeof(header));
	sml_batch_add(&probe->batch, length);
	/* A full socket is a lost probe: the next round asks again. */
	transport->ops->send(transport, &probe->batch);
}

static void send_round(struct probe *probe, unsigned round)
{
	for (uint8_t shard = 0; shard < probe->admission->shards; shard++) {
		unsigned n = round == 0 ? 1 : probe->n_widths;

		if (probe->answered[shard] & 1)
			continue;
		for (unsigned i = 0; i < n; i++)
			if (!(probe->answered[shard] & 1u << i))
				send_probe(probe, shard, probe->widths[i]);
	}
}

static void take_reply(struct probe *probe, uint8_t shard, const struct sml_packet *packet)
{
	const struct sml_header *header = packet->bytes;
	uint16_t lanes = sml_be16(header->lanes_be);

	if (packet->length != SML_HEADER_BYTES + 4u * lanes ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION ||
	    header->kind != SML_PACKET_PROBE_REPLY ||
	    header->key_be != sml_be64(probe->admission->tag) ||
	    header->job_be != sml_be32(probe->admission->job_number))
		return;
	for (unsigned i = 0; i < probe->n_widths; i++)
		if (probe->widths[i] == lanes)
			probe->answered[shard] |= 1u << i;
}

static void receive_replies(struct probe *probe)
{
	for (uint8_t shard = 0; shard < probe->admission->shards; shard++) {
		struct sml_transport *transport = probe->transports[shard];
		unsigned n = transport->ops->receive(transport, probe->packets);

		for (unsigned i = 0; i < n; i++)
			take_reply(probe, shard, &probe->packets[i]);
	}
}

/* Widths that came back on every shard. */
static unsigned answered_by_all(const struct probe *probe)
{
	unsigned all = ~0u;

	for (unsigned shard = 0; shard < probe->admission->shards; shard++)
		all &= probe->answered[shard];
	return all;
}

static int run_round(struct probe *probe, struct sml_control *control, unsigned round,
		     uint64_t deadline_ns)
{
	uint64_t until_ns = sml_now_ns() + (round == 0 ? FIRST_ROUND_NS : ROUND_NS);
	int fds[SML_MAX_SHARDS], error = 0;

	if (until_ns > deadline_ns)
		until_ns = deadline_ns;
	for (unsigned i = 0; i < probe->admission->shards; i++)
		fds[i] = probe->transports[i]->poll_fd;
	send_round(probe, round);
	while (error == 0 && !(answered_by_all(probe) & 1) && sml_now_ns() < until_ns) {
		error = sml_control_pump(control, fds, probe->admission->shards, until_ns);
		receive_replies(probe);
	}
	return error;
}

int sml_probe(struct sml_control *control, const struct sml_admission *admission, uint8_t rank,
	      struct sml_transport *const *transports, const char *where, uint16_t *lanes,
	      uint64_t deadline_ns)
{
	struct probe *probe = calloc(1, sizeof(*probe));
	unsigned answered;
	int error = -ENOMEM;

	if (probe == NULL || (probe->batch.bytes = malloc(SML_BATCH_BYTES)) == NULL) {
		free(probe);
		return sml_error_set(error, "no memory for a probe of the path");
	}
	probe->admission = admission;
	probe->rank = rank;
	probe->transports = transports;
	list_widths(probe, *lanes);
	error = 0;
	for (unsigned round = 0; error == 0 && round < ROUNDS; round++) {
		if ((answered_by_all(probe) & 1) || sml_now_ns() >= deadline_ns)
			break;
		error = run_round(probe, control, round, deadline_ns);
	}
	answered = answered_by_all(probe);
	if (error == 0 && answered == 0)
		error = sml_error_set(SML_ERROR_UNREACHABLE,
				      "TCP to the switch at %s works, but UDP port %u there does "
				      "not answer: does a firewall let UDP pass, both ways?",
				      where, admission->data_port);
	else if (error == 0)
		*lanes = probe->widths[__builtin_ctz(answered)];
	free(probe->batch.bytes);
	free(probe);
	return error;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No result comes, though the timer expires again and again. Another rank may only be late; then
 * this changes nothing. But there are two other causes:
 *
 * - A NAT on the way has given this rank's packets another source port, and the switch still
 *   answers the old one. The rank tells the switch a number over the control connection, and sends
 *   it in probes (core/renewal.h).
 * - The path takes only shorter packets than when the job began. So each probe has another length:
 *   a full packet's, then shorter ones, and then again. What comes back is for people only.
 */
#include <string.h>
#include <sys/random.h>

#include "core/renewal.h"
#include "lib/control/client.h"
#include "lib/progress/line.h"

/* Timeouts in a row: fewer are ordinary losses. */
#define MANY_TIMEOUTS 4

static const uint16_t counts[] = SML_LANE_COUNTS;

static unsigned count_shorter(uint16_t full)
{
	unsigned n = 0;

	while (counts[n] && counts[n] < full)
		n++;
	return n;
}

/* The lanes of the n-th probe. */
static uint16_t width_of(uint16_t full, uint32_t n)
{
	const unsigned n_shorter = count_shorter(full);

	n %= n_shorter + 1;
	return n == 0 ? full : counts[n_shorter - n];
}

/* Full packets were asked about twice, and only shorter ones came back. */
static void judge_width(struct sml_shard *shard)
{
	const uint16_t full = shard->worker.config.shape.lanes;
	const bool is_narrow = shard->renewal.asked > count_shorter(full) + 1 &&
			       shard->renewal.passed < SML_HEADER_BYTES + 4u * full;

	__atomic_store_n(&shard->renewal.narrow, is_narrow ? shard->renewal.passed : 0,
			 __ATOMIC_RELAXED);
}

/* If only shorter results have come, the path may still be narrow. Full packets are first again. */
static void ask_anew(struct sml_shard *shard)
{
	const unsigned n_widths = count_shorter(shard->worker.config.shape.lanes) + 1;

	shard->renewal.asked = shard->renewal.narrow > 0 ? 2 * n_widths : 0;
	shard->renewal.passed = shard->renewal.narrow;
}

static uint64_t results_of(const struct sml_shard *shard)
{
	return shard->worker.counters.packets_received - shard->worker.counters.ignored;
}

void sml_line_note_time(struct sml_shard *shard)
{
	if (shard->renewal.narrow > 0)
		judge_width(shard);
}

void sml_line_forget_path(struct sml_shard *shard)
{
	shard->renewal.n_silent = 0;
	__atomic_store_n(&shard->renewal.narrow, 0, __ATOMIC_RELAXED);
	ask_anew(shard);
}

void sml_line_note_timeout(struct sml_shard *shard)
{
	uint64_t results = results_of(shard);
	uint32_t n = 1;

	judge_width(shard);
	if (results == shard->renewal.results)
		n = shard->renewal.n_silent + 1;
	else
		ask_anew(shard);
	shard->renewal.results = results;
	shard->renewal.n_silent = n;
	if (n < MANY_TIMEOUTS || !shard->line->transport)
		return;
	if (shard->line->renews && sml_renewal_is_due(n) &&
	    getrandom(&shard->renewal.number, sizeof(shard->renewal.number), 0) > 0)
		sml_control_renew(shard->line->control, (uint8_t)shard->index,
				  shard->renewal.number |= 1);
	/* The number may reach the switch after the first of its probes. */
	shard->renewal.probes = true;
}

size_t sml_line_renewal_probe(struct sml_shard *shard, void *packet)
{
	const struct sml_worker_config *config = &shard->worker.config;
	const uint16_t lanes = width_of(config->shape.lanes, shard->renewal.asked);
	const struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(config->job),
		.key_be = sml_be64(config->cookie),
		.epoch_be = sml_be32(config->epoch),
		.use_be = sml_be32(shard->renewal.number),
		.rank = config->number,
		.shard = config->shard,
		.lanes_be = sml_be16(lanes),
	};

	if (!shard->renewal.probes)
		return 0;
	shard->renewal.probes = false;
	shard->renewal.asked++;
	memcpy(packet, &header, sizeof(header));
	memset((uint8_t *)packet + sizeof(header), 0, 4u * lanes);
	return sizeof(header) + 4u * lanes;
}

void sml_line_note_probe_reply(struct sml_shard *shard, const struct sml_header *header,
			       uint32_t length)
{
	const struct sml_worker_config *config = &shard->worker.config;

	if (header->job_be == sml_be32(config->job) &&
	    header->epoch_be == sml_be32(config->epoch) &&
	    header->key_be == sml_be64(config->tag) && header->shard == config->shard)
		sml_shard_note_passed(shard, length);
}

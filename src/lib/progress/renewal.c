/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No result comes, though the timer expires again and again: a NAT on the way may have given this
 * rank's packets another source port, and the switch still answers the old one. The rank tells the
 * switch a number over the control connection, and sends it in probes (core/renewal.h). If another
 * rank is only late, this changes nothing.
 */
#include <string.h>
#include <sys/random.h>

#include "core/renewal.h"
#include "lib/control/client.h"
#include "lib/progress/line.h"
#include "lib/progress/shard.h"

/* Timeouts in a row: fewer are ordinary losses. */
#define MANY_TIMEOUTS 4

void sml_line_note_timeout(struct sml_shard *shard)
{
	const struct sml_worker_counters *counters = &shard->worker.counters;
	uint64_t results = counters->packets_received - counters->ignored;
	uint32_t n = 1;

	if (results == shard->renewal.results)
		n = shard->renewal.n_silent + 1;
	shard->renewal.results = results;
	shard->renewal.n_silent = n;
	if (n < MANY_TIMEOUTS || !shard->line->renews)
		return;
	if (sml_renewal_is_due(n) &&
	    getrandom(&shard->renewal.number, sizeof(shard->renewal.number), 0) > 0)
		sml_control_renew(shard->line->control, (uint8_t)shard->index,
				  shard->renewal.number |= 1);
	/* The number may reach the switch after the first of its probes. */
	shard->renewal.probes = true;
}

size_t sml_line_renewal_probe(struct sml_shard *shard, void *packet)
{
	const struct sml_worker_config *config = &shard->worker.config;
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
	};

	if (!shard->renewal.probes)
		return 0;
	shard->renewal.probes = false;
	memcpy(packet, &header, sizeof(header));
	return sizeof(header);
}

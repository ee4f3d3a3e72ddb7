/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A probe is a header and as many lanes as it asks about; the switch sends it back at the same
 * length. The first round asks only for the full width, which is enough for a healthy path. Later
 * rounds ask for the narrowest, too, and once it has come back, for every unanswered width: a path
 * is narrow, or packets were lost. So ranks that do not run, or have no time to answer, are not
 * sent all widths by all others. A target that does not answer at all may be suspended, and has
 * one heartbeat to begin.
 */
#include "lib/context/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/least.h"

/* After an answer to some width, this many rounds for a wider one. */
#define ROUNDS	       6
#define FIRST_ROUND_NS (50 * SML_NS_PER_MS)
#define ROUND_NS       (250 * SML_NS_PER_MS)
#define MAX_WIDTHS     16
/* The switch itself gives up a job whose ranks have probed for 20 s. */
#define MAX_SILENCE_MS 15000u
struct sml_probe {
	struct sml_probe_config config;
	struct sml_batch batch;
	struct sml_packet packets[SML_RECEIVE_PACKETS];
	uint16_t widths[MAX_WIDTHS]; /* descending */
	unsigned n_widths;
	unsigned *answered; /* of each target; bit i: widths[i] came back */
};

static void list_widths(struct sml_probe *probe, uint16_t lanes)
{
	static const uint16_t counts[] = SML_LANE_COUNTS;
	unsigned n = sizeof(counts) / sizeof(counts[0]) - 1;

	/* The job's own width, in case the switch chose one that is not in the list. */
	probe->widths[probe->n_widths++] = lanes;
	while (n-- > 0)
		if (counts[n] < lanes)
			probe->widths[probe->n_widths++] = counts[n];
}

/* ---- out ---- */

/* The batch has one packet. A full socket is a lost probe: the next round asks again. */
static void send_batch(struct sml_probe *probe, struct sml_transport *transport)
{
	transport->ops->send(transport, &probe->batch);
}

static void send_probe(struct sml_probe *probe, const struct sml_probe_target *target,
		       uint16_t lanes)
{
	uint32_t length = SML_HEADER_BYTES + 4u * lanes;
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(target->job),
		.key_be = sml_be64(target->cookie),
		.epoch_be = sml_be32(probe->config.epoch),
		.rank = probe->config.rank,
		.shard = target->shard,
		.lanes_be = sml_be16(lanes),
	};

	sml_batch_clear(&probe->batch);
	memcpy(probe->batch.bytes, &header, sizeof(header));
	memset(probe->batch.bytes + sizeof(header), 0, length - sizeof(header));
	sml_batch_add(&probe->batch, length, target->peer);
	send_batch(probe, target->transport);
}

static void send_round(struct sml_probe *probe, unsigned round)
{
	for (unsigned t = 0; t < probe->config.n_targets; t++) {
		unsigned n = round == 0 ? 1 : probe->n_widths;

		if (probe->answered[t] & 1)
			continue;
		for (unsigned i = 0; i < n; i++)
			if (!(probe->answered[t] & 1u << i) &&
			    (i == 0 || i + 1 == n || probe->answered[t] != 0))
				send_probe(probe, &probe->config.targets[t], probe->widths[i]);
	}
}

/* ---- in ---- */

static void take_reply(struct sml_probe *probe, unsigned t, const struct sml_header *header)
{
	/*
	 * A path that takes this width takes all narrower ones, which are not probed then: another
	 * target may need one of them.
	 */
	for (unsigned i = 0; i < probe->n_widths; i++)
		if (probe->widths[i] <= sml_be16(header->lanes_be))
			probe->answered[t] |= 1u << i;
}

static void find_target(struct sml_probe *probe, const struct sml_transport *transport,
			const struct sml_header *header)
{
	for (unsigned t = 0; t < probe->config.n_targets; t++) {
		const struct sml_probe_target *target = &probe->config.targets[t];

		if (target->transport == transport && header->job_be == sml_be32(target->job) &&
		    header->key_be == sml_be64(target->tag))
			take_reply(probe, t, header);
	}
}

/* One packet answers one of the same length; it goes to the address that the sender announced. */
static void answer(struct sml_probe *probe, struct sml_transport *transport,
		   const struct sml_packet *packet)
{
	const struct sml_pool_rules *own = probe->config.own;
	struct sml_header header;

	memcpy(&header, packet->bytes, sizeof(header));
	if (own == NULL || header.job_be != sml_be32(own->job) ||
	    sml_pool_check_probe(own, &header) != SML_VERDICT_ABSORBED)
		return;
	header.kind = SML_PACKET_PROBE_REPLY;
	header.key_be = sml_be64(own->tag);
	sml_batch_clear(&probe->batch);
	memset(probe->batch.bytes, 0, packet->length);
	memcpy(probe->batch.bytes, &header, sizeof(header));
	sml_batch_add(&probe->batch, packet->length, header.rank);
	send_batch(probe, transport);
}

static void take_packet(struct sml_probe *probe, struct sml_transport *transport,
			const struct sml_packet *packet)
{
	const struct sml_header *header = packet->bytes;

	if (packet->length < SML_HEADER_BYTES ||
	    packet->length != SML_HEADER_BYTES + 4u * sml_be16(header->lanes_be) ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION)
		return;
	if (header->kind == SML_PACKET_PROBE_REPLY)
		find_target(probe, transport, header);
	else if (header->kind == SML_PACKET_PROBE)
		answer(probe, transport, packet);
}

void sml_probe_serve(struct sml_probe *probe)
{
	for (unsigned i = 0; i < probe->config.n_transports; i++) {
		struct sml_transport *transport = probe->config.transports[i];
		unsigned n = transport->ops->receive(transport, probe->packets);

		for (unsigned p = 0; p < n; p++)
			take_packet(probe, transport, &probe->packets[p]);
	}
}

/* ---- rounds ---- */

/* Widths that came back from every target. */
static unsigned answered_by_all(const struct sml_probe *probe)
{
	unsigned all = ~0u;

	for (unsigned t = 0; t < probe->config.n_targets; t++)
		all &= probe->answered[t];
	return all;
}

static int run_round(struct sml_probe *probe, struct sml_control *control, unsigned round,
		     uint64_t deadline_ns)
{
	uint64_t round_ns = round == 0 ? FIRST_ROUND_NS : ROUND_NS;
	uint64_t until_ns = sml_earlier(sml_now_ns() + round_ns, deadline_ns);
	int fds[SML_MAX_SHARDS], error = 0;

	for (unsigned i = 0; i < probe->config.n_transports; i++)
		fds[i] = probe->config.transports[i]->poll_fd;
	send_round(probe, round);
	while (error == 0 && !(answered_by_all(probe) & 1) && sml_now_ns() < until_ns) {
		error = sml_control_pump(control, fds, probe->config.n_transports, until_ns);
		sml_probe_serve(probe);
	}
	return error;
}

/* ---- widths ---- */

/* The first target that has not answered at all, or not with a width that all others have. */
static int report_silence(const struct sml_probe *probe)
{
	const struct sml_probe_target *target = probe->config.targets;

	for (unsigned t = 0; t < probe->config.n_targets; t++)
		if (probe->answered[t] == 0) {
			target = &probe->config.targets[t];
			break;
		}
	if (target->is_rank)
		return sml_error_set(
			SML_ERROR_UNREACHABLE,
			"no UDP packet of this rank comes back from %s, port %u: does a firewall "
			"let UDP pass in both directions? (SWITCHML_PORTS says which ports ranks "
			"open)",
			target->where, target->port);
	return sml_error_set(
		SML_ERROR_UNREACHABLE,
		"TCP to the switch at %s works, but UDP port %u there does not "
		"answer: does a firewall let UDP pass in both directions? (SWITCHML_PORTS "
		"says which ports this rank opens)",
		target->where, target->port);
}

/* Its ends take that width, so nothing else names the cause. */
static void log_narrow_path(const struct sml_probe *probe, uint16_t lanes)
{
	unsigned t = 0;

	while (t + 1 < probe->config.n_targets && (probe->answered[t] & 1))
		t++;
	sml_log(probe->config.log, SML_LOG_WARN,
		"UDP packets of %u bytes do not come back from %s, but packets of %u bytes do: "
		"the path there has a smaller MTU than the interfaces at its ends. The job uses "
		"the shorter packets. Raise the MTU on that path, or set SWITCHML_MTU to it on all "
		"ranks",
		(unsigned)SML_HEADER_BYTES + 4u * probe->widths[0], probe->config.targets[t].where,
		(unsigned)SML_HEADER_BYTES + 4u * lanes);
}

int sml_probe_run(struct sml_probe *probe, struct sml_control *control, uint16_t *lanes,
		  uint64_t deadline_ns)
{
	uint32_t silence_ms = sml_least(probe->config.silence_ms, MAX_SILENCE_MS);
	uint64_t silent_until_ns =
		sml_earlier(sml_now_ns() + silence_ms * SML_NS_PER_MS, deadline_ns);
	unsigned answered = 0, narrow_rounds = 0;
	int error = 0;

	list_widths(probe, *lanes);
	for (unsigned round = 0; error == 0 && !(answered & 1); round++) {
		if (answered ? narrow_rounds++ == ROUNDS : sml_now_ns() >= silent_until_ns)
			break;
		error = run_round(probe, control, round, deadline_ns);
		answered = answered_by_all(probe);
	}
	if (error == 0 && answered == 0)
		error = report_silence(probe);
	else if (error == 0)
		*lanes = probe->widths[__builtin_ctz(answered)];
	if (error == 0 && *lanes < probe->widths[0])
		log_narrow_path(probe, *lanes);
	return error;
}

/* ---- set-up ---- */

struct sml_probe *sml_probe_new(const struct sml_probe_config *config)
{
	struct sml_probe *probe = calloc(1, sizeof(*probe));

	if (probe) {
		probe->config = *config;
		probe->batch.bytes = malloc(SML_BATCH_BYTES);
		probe->answered = calloc(config->n_targets + 1, sizeof(*probe->answered));
	}
	if (probe == NULL || !probe->batch.bytes || !probe->answered) {
		sml_probe_free(probe);
		sml_error_set(-ENOMEM, "no memory for a probe of the path");
		return NULL;
	}
	return probe;
}

void sml_probe_free(struct sml_probe *probe)
{
	if (probe == NULL)
		return;
	free(probe->batch.bytes);
	free(probe->answered);
	free(probe);
}

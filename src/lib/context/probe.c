/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A probe is a header and as many lanes as it asks about; the switch sends it back at the same
 * length. The first round asks only for the full width, which is enough for a healthy path. Later
 * rounds ask for the narrowest, too, and once it has come back, for every unanswered width: a path
 * is narrow, or packets were lost. So ranks that do not run, or have no time to answer, are not
 * sent all widths by all others. A target that does not answer at all may be suspended, and has
 * one heartbeat to begin.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/least.h"
#include "lib/context/membership.h"
#include "lib/progress/line.h"

/* After an answer to some width, this many rounds for a wider one. */
#define ROUNDS	       6
#define FIRST_ROUND_NS (50 * SML_NS_PER_MS)
#define ROUND_NS       (250 * SML_NS_PER_MS)
#define MAX_WIDTHS     16
/* The switch itself gives up a job whose ranks have probed for 20 s. */
#define MAX_SILENCE_MS 15000u
/* The time that a replacement switch has to answer, if there are other candidates. */
#define OTHERS_WAIT_MS 3000u

/* One shard of one switch, or of a rank's stripe. */
struct target {
	const struct sml_stripe *stripe;
	uint8_t shard;
	unsigned answered; /* bit i: widths[i] came back */
};

struct sml_probe {
	const struct sml_stripe *stripe; /* whose admission says who this rank is */
	struct sml_transport *const *transports;
	const struct sml_pool_rules *own;
	struct sml_batch batch;
	struct sml_packet packets[SML_RECEIVE_PACKETS];
	uint16_t widths[MAX_WIDTHS]; /* descending */
	unsigned n_widths;
	struct target *targets;
	unsigned n_targets;
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

static void send_probe(struct sml_probe *probe, const struct target *target, uint16_t lanes)
{
	const struct sml_admission *admission = &target->stripe->admission;
	struct sml_transport *transport = probe->transports[target->shard];
	uint32_t length = SML_HEADER_BYTES + 4u * lanes;
	struct sml_header header = {
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(admission->job_number),
		.key_be = sml_be64(admission->cookie),
		.epoch_be = sml_be32(admission->epoch),
		.rank = probe->stripe->admission.number,
		.shard = target->shard,
		.lanes_be = sml_be16(lanes),
	};

	sml_batch_clear(&probe->batch);
	memcpy(probe->batch.bytes, &header, sizeof(header));
	memset(probe->batch.bytes + sizeof(header), 0, length - sizeof(header));
	sml_batch_add(&probe->batch, length, target->stripe->index);
	/* A full socket is a lost probe: the next round asks again. */
	transport->ops->send(transport, &probe->batch);
}

static void send_round(struct sml_probe *probe, unsigned round)
{
	for (unsigned t = 0; t < probe->n_targets; t++) {
		const struct target *target = &probe->targets[t];
		unsigned n = round == 0 ? 1 : probe->n_widths;

		if (target->answered & 1)
			continue;
		for (unsigned i = 0; i < n; i++)
			if (!(target->answered & 1u << i) &&
			    (i == 0 || i + 1 == n || target->answered != 0))
				send_probe(probe, target, probe->widths[i]);
	}
}

/* ---- in ---- */

static void take_reply(struct sml_probe *probe, struct target *target,
		       const struct sml_header *header)
{
	/*
	 * A path that takes this width takes all narrower ones, which are not probed then: another
	 * target may need one of them.
	 */
	for (unsigned i = 0; i < probe->n_widths; i++)
		if (probe->widths[i] <= sml_be16(header->lanes_be))
			target->answered |= 1u << i;
}

static void find_target(struct sml_probe *probe, unsigned shard, const struct sml_header *header)
{
	for (unsigned t = 0; t < probe->n_targets; t++) {
		struct target *target = &probe->targets[t];
		const struct sml_admission *admission = &target->stripe->admission;

		if (target->shard == shard && header->job_be == sml_be32(admission->job_number) &&
		    header->key_be == sml_be64(admission->tag))
			take_reply(probe, target, header);
	}
}

static void take_packet(struct sml_probe *probe, unsigned shard, const struct sml_packet *packet)
{
	const struct sml_header *header = packet->bytes;

	if (packet->length < SML_HEADER_BYTES ||
	    packet->length != SML_HEADER_BYTES + 4u * sml_be16(header->lanes_be) ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION)
		return;
	if (header->kind == SML_PACKET_PROBE_REPLY)
		find_target(probe, shard, header);
	else if (header->kind == SML_PACKET_PROBE && probe->own)
		sml_line_answer_probe(probe->transports[shard], probe->own, packet);
}

void sml_probe_serve(struct sml_probe *probe)
{
	for (unsigned i = 0; i < probe->stripe->admission.shards; i++) {
		struct sml_transport *transport = probe->transports[i];
		unsigned n = transport->ops->receive(transport, probe->packets);

		for (unsigned p = 0; p < n; p++)
			take_packet(probe, i, &probe->packets[p]);
	}
}

/* ---- rounds ---- */

/* Widths that came back from every target. */
static unsigned answered_by_all(const struct sml_probe *probe)
{
	unsigned all = ~0u;

	for (unsigned t = 0; t < probe->n_targets; t++)
		all &= probe->targets[t].answered;
	return all;
}

static int run_round(struct sml_probe *probe, struct sml_control *control, unsigned round,
		     uint64_t deadline_ns)
{
	uint64_t round_ns = round == 0 ? FIRST_ROUND_NS : ROUND_NS;
	uint64_t until_ns = sml_earlier(sml_now_ns() + round_ns, deadline_ns);
	unsigned n = probe->stripe->admission.shards;
	int fds[SML_MAX_SHARDS], error = 0;

	for (unsigned i = 0; i < n; i++)
		fds[i] = probe->transports[i]->poll_fd;
	send_round(probe, round);
	while (error == 0 && !(answered_by_all(probe) & 1) && sml_now_ns() < until_ns) {
		error = sml_control_pump(control, fds, n, until_ns);
		sml_probe_serve(probe);
	}
	return error;
}

/* ---- widths ---- */

static bool is_of_rank(const struct target *target)
{
	return !target->stripe->context->form->has_switches;
}

static unsigned port_of(const struct target *target)
{
	const struct sml_stripe *stripe = target->stripe;

	return is_of_rank(target)
		       ? ntohs(stripe->context->peers->address[target->shard][stripe->index]
				       .v4.sin_port)
		       : stripe->admission.data_port;
}

/* The first target that has not answered at all, or not with a width that all others have. */
static int report_silence(const struct sml_probe *probe)
{
	const struct target *target = probe->targets;

	for (unsigned t = 0; t < probe->n_targets; t++)
		if (probe->targets[t].answered == 0) {
			target = &probe->targets[t];
			break;
		}
	if (is_of_rank(target))
		return sml_error_set(
			SML_ERROR_UNREACHABLE,
			"no UDP packet of this rank comes back from %s, port %u: does a firewall "
			"let UDP pass in both directions? (SWITCHML_PORTS says which ports ranks "
			"open)",
			sml_stripe_name(target->stripe), port_of(target));
	return sml_error_set(
		SML_ERROR_UNREACHABLE,
		"TCP to the switch at %s works, but UDP port %u there does not "
		"answer: does a firewall let UDP pass in both directions? (SWITCHML_PORTS "
		"says which ports this rank opens)",
		sml_stripe_name(target->stripe), port_of(target));
}

/* Its ends take that width, so nothing else names the cause. */
static void log_narrow_path(const struct sml_probe *probe, uint16_t lanes)
{
	unsigned t = 0;

	while (t + 1 < probe->n_targets && (probe->targets[t].answered & 1))
		t++;
	sml_log(&probe->stripe->context->settings.log, SML_LOG_WARN,
		"UDP packets of %u bytes do not come back from %s, but packets of %u bytes do: "
		"the path there has a smaller MTU than the interfaces at its ends. The job uses "
		"the shorter packets. Raise the MTU on that path, or set SWITCHML_MTU to it on all "
		"ranks",
		(unsigned)SML_HEADER_BYTES + 4u * probe->widths[0],
		sml_stripe_name(probe->targets[t].stripe), (unsigned)SML_HEADER_BYTES + 4u * lanes);
}

/* A frozen switch has one heartbeat to answer, or less if the rank can try another switch. */
static uint32_t silence_ms(const struct sml_stripe *stripe)
{
	uint32_t heartbeat_ms = (uint32_t)stripe->context->settings.config.heartbeat_ms;

	if (stripe->context->shape.lanes > 0 && stripe->endpoints->n > 1)
		heartbeat_ms = sml_least(heartbeat_ms, OTHERS_WAIT_MS);
	return sml_least(heartbeat_ms, MAX_SILENCE_MS);
}

int sml_probe_run(struct sml_probe *probe, struct sml_control *control, uint16_t *lanes,
		  uint64_t deadline_ns)
{
	uint64_t silent_until_ns =
		sml_earlier(sml_now_ns() + silence_ms(probe->stripe) * SML_NS_PER_MS, deadline_ns);
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

/* This stripe's switch; or all ranks that have a stripe, but for this one. */
static void list_targets(struct sml_probe *probe)
{
	const struct sml_context *context = probe->stripe->context;

	for (unsigned i = 0; i < context->n_stripes; i++) {
		const struct sml_stripe *stripe = &context->stripes[i];

		if (context->form->has_switches ? stripe != probe->stripe
						: i == context->settings.rank)
			continue;
		for (uint8_t shard = 0; shard < probe->stripe->admission.shards; shard++)
			probe->targets[probe->n_targets++] = (struct target){stripe, shard, 0};
	}
}

struct sml_probe *sml_probe_new(const struct sml_stripe *stripe,
				struct sml_transport *const *transports,
				const struct sml_pool_rules *own)
{
	struct sml_probe *probe = calloc(1, sizeof(*probe));
	size_t most = (size_t)stripe->context->n_stripes * stripe->admission.shards;

	if (probe) {
		probe->stripe = stripe;
		probe->transports = transports;
		probe->own = own;
		probe->batch.bytes = malloc(SML_BATCH_BYTES);
		probe->targets = calloc(most, sizeof(*probe->targets));
	}
	if (probe == NULL || !probe->batch.bytes || !probe->targets) {
		sml_probe_free(probe);
		sml_error_set(-ENOMEM, "no memory for a probe of the path");
		return NULL;
	}
	list_targets(probe);
	return probe;
}

void sml_probe_free(struct sml_probe *probe)
{
	if (probe == NULL)
		return;
	free(probe->batch.bytes);
	free(probe->targets);
	free(probe);
}

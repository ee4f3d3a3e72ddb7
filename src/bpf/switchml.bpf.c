/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The switch in the driver's path: the slot's step as an XDP program. Packets that it cannot handle
 * (probes, other jobs' packets, all foreign packets) go to the stack unchanged, where the daemon's
 * UDP socket and the box's bridge are.
 *
 *	frame -> parse -> probe, or a parent's answer? learn the address --> stack
 *	                  the job admits it? -- no ---------------------> stack
 *	                  checksum right? ----- no ---------------------> drop
 *	         lock, step, lanes, unlock
 *	           absorbed, duplicate, stale, … ------------------------> drop
 *	           resend ----- stamp --> devmap ------------> exit program
 *	           completed -- stamp --> devmap broadcast --> exit program, once
 *	                                  for each rank, addresses the clone
 *	           full, resend-up: as resend, by the devmap of parents
 *	           (all to the daemon's socket where ports can't transmit)
 *
 * At a leaf, a parent's result takes the same way, with sml_slot_accept() as its step.
 *
 * The kernel checks at most a million instructions of a program, on all of its ways together, and
 * rounding takes most of them. So lanes of 8 bits have an entry program of their own: the first one
 * ends in it (by a tail call), and it does the same from the start. All other packets cost what
 * they would cost without it. A width is an argument, and a constant in both programs.
 *
 * The job's devmap has one entry for each rank, so a port that leads to several ranks is in it
 * several times. Workers on separate ports, workers behind one NIC, and all mixtures use the same
 * path.
 *
 * The invariant is slot.h's; each buffer of a slot has a spin lock. No helper is called under it,
 * so it is held for one pass over the lanes.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_helpers.h>

#include "bpf/lanes.h"
#include "bpf/send.h"
#include "bpf/verifier.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before the program is loaded. */
const volatile uint16_t sml_port_be = 0;
/* Virtual interfaces deliver packets whose checksum was left to hardware that does not exist. */
const volatile bool sml_accept_partial = false;

static __always_inline uint64_t header_sum(const struct sml_header *header)
{
	const uint32_t *words = (const uint32_t *)header;
	uint64_t sum = 0;

#pragma clang loop unroll(full)
	for (uint32_t i = 0; i < SML_HEADER_BYTES / 4; i++)
		sum += words[i];
	return sum;
}

/*
 * The kernel has not checked this packet yet. The check is a separate pass before the step, because
 * a wrong packet must not touch the slot, and MAX cannot be undone.
 */
static __always_inline bool checksum_is_right(const struct frame *frame, struct sml_header *header,
					      void *end, uint32_t lanes)
{
	const struct udphdr *udp = (const struct udphdr *)header - 1;
	uint64_t pseudo = (uint64_t)frame->addresses_sum + udp->len;
	uint16_t check = udp->check;
	uint64_t sum;

	if (check == 0)
		return !frame->v6; /* the sender made none, which IPv4 allows */
	if (sml_accept_partial && check == sum_fold(pseudo))
		return true;
	sum = pseudo + udp->source + udp->dest + udp->len + check + header_sum(header);
	hide(sum); /* otherwise its parts wait on the stack, too */
	return sum_fold(sum + lanes_sum((uint32_t *)(header + 1), end, lanes)) == 0xffff;
}

/* Is it a probe of one of the job's ranks? */
static __always_inline bool is_probe(const struct sml_xdp_job *job, const struct sml_header *header)
{
	return header->magic_be == sml_be16(SML_WIRE_MAGIC) &&
	       header->version == SML_WIRE_VERSION && header->job_be == sml_be32(job->rules.job) &&
	       sml_pool_check_probe(&job->rules, header) == SML_VERDICT_ABSORBED;
}

/*
 * A probe with the rank's cookie tells where the rank's socket is. At a leaf, the answer to its own
 * probe, with the parent's tag and from the parent's address, tells where the parent is.
 */
static __always_inline void learn(struct xdp_md *ctx, const struct frame *frame,
				  struct sml_header *header, const struct sml_xdp_job *job,
				  bool is_parent)
{
	uint8_t rank = is_parent ? SML_XDP_PARENT : header->rank, shard = header->shard;
	uint32_t lanes = sml_be16(header->lanes_be);
	struct sml_xdp_counters *counters;
	struct sml_xdp_peer *peer;
	uint32_t *renewal;

	if ((job->started && is_parent) || shard >= SML_MAX_SHARDS || lanes > SML_XDP_LANES ||
	    frame->length != SML_HEADER_BYTES + 4 * lanes)
		return;
	if (!is_parent && !is_probe(job, header))
		return;
	if (is_parent &&
	    (sml_pool_check_reply(&job->rules, header, frame->length) != SML_VERDICT_ABSORBED ||
	     !frame_is_from(ctx, frame, &job->parent)))
		return;
	counters = counters_of(job);
	peer = peer_of(job->index, rank, shard);
	renewal = renewal_of(job->index, rank, shard);
	if (!counters || !peer || !renewal)
		return;
	/* From then on, a renewal tells it. The job's devmaps keep the port. */
	if (job->started && (*renewal == 0 || header->use_be != sml_be32(*renewal) ||
			     peer->ifindex != ctx->ingress_ifindex))
		return;
	*renewal = 0;
	if (!checksum_is_right(frame, header, frame_end(ctx), lanes))
		count(counters, SML_XDP_FATE_BAD_CHECKSUM);
	else if (peer_learn(peer, ctx, frame))
		count(counters, SML_XDP_FATE_LEARNED);
}

struct step_result {
	enum sml_verdict verdict;
	uint32_t lanes;	      /* of the slot */
	uint32_t n_seen;      /* there */
	uint64_t payload_sum; /* COMPLETED and FULL */
	struct sml_xdp_event event;
};

/*
 * Step the slot and combine the lanes, under its lock. COMPLETED: the packet has become the result.
 * FULL: it has become the contribution to the parent.
 */
static __always_inline void step(uint32_t width, struct sml_xdp_job *job,
				 struct sml_xdp_slot *buffer, const struct sml_contribution *in,
				 struct sml_header *header, void *end, struct step_result *result)
{
	uint64_t all = sml_pool_all_ranks(&job->rules);
	uint32_t *tickets = &job->tickets[sml_pool_stream_of(&job->rules, in->slot)];
	enum sml_lane_step lane_step = SML_LANES_FIRST;
	uint32_t both;

	bpf_spin_lock(&buffer->lock);
	result->verdict =
		sml_slot_step(&buffer->slot, in, all, job->rules.is_leaf, tickets, &lane_step);
	/* Otherwise the verifier would follow all lanes again for each way through the step. */
	both = forget(&buffer->forgotten, (uint32_t)result->verdict << 8 | lane_step);
	result->verdict = both >> 8;
	lane_step = both & 0xff;
	if (result->verdict == SML_VERDICT_ABSORBED || result->verdict == SML_VERDICT_COMPLETED ||
	    result->verdict == SML_VERDICT_FULL)
		result->payload_sum = lanes_combine(width, &buffer->slot, lane_step, buffer->lanes,
						    (uint32_t *)(header + 1), end);
	if (result->verdict == SML_VERDICT_COMPLETED)
		sml_pool_write_header(&job->rules, &buffer->slot, in, header);
	else if (result->verdict == SML_VERDICT_FULL)
		sml_pool_write_header_up(&job->rules, &buffer->slot, in, header);
	result->lanes = buffer->slot.lanes;
	result->n_seen = buffer->slot.n_seen;
	result->event.seen = buffer->slot.seen;
	result->event.chunk = buffer->slot.chunk;
	bpf_spin_unlock(&buffer->lock);
}

static __always_inline void report_mismatch(const struct sml_xdp_job *job,
					    const struct sml_contribution *in,
					    struct sml_xdp_event *event)
{
	event->job = job->rules.job;
	event->use = in->use;
	event->slot = in->slot;
	event->rank = in->rank;
	event->reserved = 0;
	bpf_ringbuf_output(&sml_events, event, sizeof(*event), 0);
}

/*
 * Copy what is stored into the packet: the result, or a leaf's sum for its parent. False: the slot
 * has gone on in between.
 */
static __always_inline bool copy_stored(struct sml_xdp_job *job, struct sml_xdp_slot *buffer,
					const struct sml_contribution *in,
					struct sml_header *header, void *end,
					struct step_result *result)
{
	bool up = result->verdict == SML_VERDICT_RESEND_UP, still;

	bpf_spin_lock(&buffer->lock);
	still = buffer->slot.state == (up ? SML_SLOT_FULL : SML_SLOT_COMPLETE) &&
		buffer->slot.use == in->use && buffer->slot.lanes == result->lanes;
	if (still) {
		result->payload_sum =
			lanes_copy(buffer->lanes, (uint32_t *)(header + 1), end, result->lanes);
		if (up)
			sml_pool_write_header_up(&job->rules, &buffer->slot, in, header);
		else
			sml_pool_write_header(&job->rules, &buffer->slot, in, header);
	}
	bpf_spin_unlock(&buffer->lock);
	return still;
}

/* Must precede the sum over the header. */
static __always_inline void mark_for_daemon(const struct sml_xdp_job *job,
					    struct sml_header *header, uint8_t kind)
{
	header->kind = kind;
	header->key_be = sml_be64(job->daemon_key);
}

static __always_inline int resend(struct xdp_md *ctx, struct frame *frame, struct sml_xdp_job *job,
				  struct sml_xdp_counters *counters, struct sml_xdp_slot *buffer,
				  const struct sml_contribution *in, struct step_result *result)
{
	uint8_t to = result->verdict == SML_VERDICT_RESEND_UP ? SML_XDP_PARENT : in->rank;
	struct sml_header *header;
	uint16_t sum;

	/* Only a broken worker sends another length; do not bother the stack with it. */
	if (result->lanes > SML_XDP_LANES || (job->daemon_key && result->lanes != in->lanes) ||
	    !frame_set_length(ctx, frame, SML_HEADER_BYTES + 4 * result->lanes))
		return XDP_DROP;
	header = frame_header(ctx, frame);
	if (!header || !copy_stored(job, buffer, in, header, frame_end(ctx), result))
		return XDP_DROP;
	if (job->daemon_key)
		mark_for_daemon(job, header, (uint8_t)(SML_XDP_KIND_TO_RANK + to));
	sum = sum_fold(header_sum(header) + result->payload_sum);
	return send_to(ctx, frame, job, counters, to, sum);
}

/* The packet has become what goes to all ranks, or to the parent. */
static __always_inline int send_sum(struct xdp_md *ctx, const struct frame *frame,
				    const struct sml_xdp_job *job,
				    struct sml_xdp_counters *counters, struct sml_header *header,
				    const struct step_result *result)
{
	bool up = result->verdict == SML_VERDICT_FULL;

	if (job->daemon_key)
		mark_for_daemon(job, header,
				up ? SML_XDP_KIND_TO_RANK + SML_XDP_PARENT : SML_PACKET_RESULT);
	return send_to(ctx, frame, job, counters, up ? SML_XDP_PARENT : SML_XDP_ALL,
		       sum_fold(header_sum(header) + result->payload_sum));
}

static __always_inline struct sml_xdp_slot *buffer_of(const struct sml_xdp_job *job,
						      const struct sml_contribution *in)
{
	uint32_t row = job->first_buffer + 2u * in->slot + (in->use & 1u);

	return bpf_map_lookup_elem(&sml_slots, &row);
}

/*
 * The header of a packet that the job accepts, once the checksum of the whole packet is right.
 * Must precede the step. from: the rank that sent it, or SML_NO_RANK. NULL: drop the packet.
 */
static __always_inline struct sml_header *checked_header(struct xdp_md *ctx, struct frame *frame,
							 struct sml_xdp_counters *counters,
							 const struct sml_contribution *in,
							 uint8_t from)
{
	struct sml_header *header;

	if (!frame_set_length(ctx, frame, frame->length))
		return (void *)0;
	header = frame_header(ctx, frame);
	if (!header || checksum_is_right(frame, header, frame_end(ctx), in->lanes))
		return header;
	count_received(counters, SML_XDP_FATE_BAD_CHECKSUM, from, frame->length);
	return (void *)0;
}

/*
 * After a step, because a lock allows no helper: another CPU may have stepped the slot since. The
 * coarse clock costs next to nothing.
 */
static __always_inline void count_wait(struct sml_xdp_job *job, struct sml_xdp_slot *buffer,
				       struct sml_xdp_counters *counters, uint32_t rank,
				       const struct step_result *result)
{
	if (result->verdict == sml_slot_last_verdict(job->rules.is_leaf))
		counters->waited_ns[sml_below(rank, SML_MAX_CHILDREN)] += sml_waited(
			buffer->slot.half_ns, &job->waited_until_ns, bpf_ktime_get_coarse_ns());
	else if (result->verdict == SML_VERDICT_ABSORBED &&
		 result->n_seen == sml_half_of(job->rules.n_ranks))
		buffer->slot.half_ns = bpf_ktime_get_coarse_ns();
}

/* A contribution that the job accepts. */
static __always_inline int contribute(uint32_t width, struct xdp_md *ctx, struct frame *frame,
				      struct sml_xdp_job *job, struct sml_xdp_counters *counters,
				      const struct sml_contribution *in)
{
	struct sml_header *header = checked_header(ctx, frame, counters, in, in->rank);
	struct sml_xdp_slot *buffer = buffer_of(job, in);
	struct step_result result = {0};

	if (!header || !buffer)
		return XDP_DROP;
	step(width, job, buffer, in, header, frame_end(ctx), &result);
	count_received(counters, result.verdict, in->rank, frame->length);
	count_wait(job, buffer, counters, in->rank, &result);
	if (result.verdict == SML_VERDICT_COMPLETED || result.verdict == SML_VERDICT_FULL)
		return send_sum(ctx, frame, job, counters, header, &result);
	if (result.verdict == SML_VERDICT_RESEND || result.verdict == SML_VERDICT_RESEND_UP)
		return resend(ctx, frame, job, counters, buffer, in, &result);
	if (result.verdict == SML_VERDICT_MISMATCH)
		report_mismatch(job, in, &result.event);
	return XDP_DROP;
}

/* At a leaf: a result of the parent that the job accepts. */
static __always_inline int accept(struct xdp_md *ctx, struct frame *frame, struct sml_xdp_job *job,
				  struct sml_xdp_counters *counters,
				  const struct sml_contribution *in)
{
	struct sml_header *header = checked_header(ctx, frame, counters, in, SML_NO_RANK);
	struct sml_xdp_slot *buffer = buffer_of(job, in);
	struct step_result result = {0};

	if (!header || !buffer)
		return XDP_DROP;
	bpf_spin_lock(&buffer->lock);
	result.verdict = sml_slot_accept(&buffer->slot, in, job->rules.parent.rank);
	if (result.verdict == SML_VERDICT_COMPLETED) {
		result.payload_sum = lanes_keep(buffer->lanes, (uint32_t *)(header + 1),
						frame_end(ctx), in->lanes);
		sml_pool_write_header(&job->rules, &buffer->slot, in, header);
	}
	bpf_spin_unlock(&buffer->lock);
	count_received(counters, result.verdict, SML_NO_RANK, frame->length);
	if (result.verdict != SML_VERDICT_COMPLETED)
		return XDP_DROP;
	return send_sum(ctx, frame, job, counters, header, &result);
}

/* 0: not for us. */
__noinline uint64_t sml_parse(struct xdp_md *ctx)
{
	struct frame frame = {0};

	return frame_parse(ctx, sml_port_be, &frame) ? frame_pack(&frame) : 0;
}

static __always_inline int receive(uint32_t width, struct xdp_md *ctx)
{
	struct sml_contribution in = {0};
	struct sml_xdp_counters *counters;
	struct sml_header *header;
	struct sml_xdp_job *job;
	enum sml_verdict verdict;
	struct frame frame;
	uint64_t packed;
	bool is_parents;

	packed = sml_parse(ctx);
	if (packed == 0)
		return XDP_PASS;
	frame_unpack(&frame, packed);
	header = frame_header(ctx, &frame);
	if (!header || frame.length > (uint32_t)(frame_end(ctx) - (void *)header))
		return XDP_PASS;
	job = header->kind == SML_PACKET_RESULT || header->kind == SML_PACKET_PROBE_REPLY
		      ? leaf_job_of(header)
		      : (void *)0;
	is_parents = job;
	if (!job)
		job = job_of(header);
	if (!job)
		return XDP_PASS;
	if (header->kind == SML_PACKET_PROBE ||
	    (is_parents && header->kind == SML_PACKET_PROBE_REPLY)) {
		learn(ctx, &frame, header, job, is_parents);
		return XDP_PASS;
	}
	if (!is_parents && header->job_be != sml_be32(job->rules.job))
		return XDP_PASS;
	counters = counters_of(job);
	if (!counters)
		return XDP_PASS;
	/* Only this program makes the job's results, and replies leave through other ports. */
	if (header->kind != SML_PACKET_CONTRIBUTION && !is_parents) {
		count(counters, SML_VERDICT_MALFORMED);
		return XDP_DROP;
	}
	verdict = is_parents ? sml_pool_check_result(&job->rules, header, frame.length, &in)
			     : sml_pool_check(&job->rules, header, frame.length, &in);
	if (verdict == SML_VERDICT_ABSORBED && is_parents &&
	    !frame_is_from(ctx, &frame, &job->parent))
		verdict = SML_VERDICT_WRONG_COOKIE;
	/* So it is: the job takes no packets without lanes. The compiler then leaves them out. */
	in.omitted = 0;
	if (verdict == SML_VERDICT_ABSORBED && in.lanes > SML_XDP_LANES)
		verdict = SML_VERDICT_OUT_OF_RANGE;
	if (verdict == SML_VERDICT_ABSORBED && !job->started)
		verdict = SML_VERDICT_EARLY_USE;
	if (verdict == SML_VERDICT_ABSORBED && is_parents)
		return accept(ctx, &frame, job, counters, &in);
	if (verdict == SML_VERDICT_ABSORBED && width == sml_rounded_width(in.lane_kind))
		return contribute(width, ctx, &frame, job, counters, &in);
	if (verdict == SML_VERDICT_ABSORBED) {
		if (width != 8)
			bpf_tail_call(ctx, &sml_int8, 0);
		return XDP_DROP;
	}
	/*
	 * Without the cookie, it may be for another switch behind this box, so the stack gets it.
	 */
	count(counters, verdict);
	return is_parents && verdict == SML_VERDICT_MALFORMED ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int sml_entry(struct xdp_md *ctx)
{
	return receive(16, ctx);
}

SEC("xdp")
int sml_entry_int8(struct xdp_md *ctx)
{
	return receive(8, ctx);
}

/* Turn the stamp into headers. */
static __always_inline int leave(struct xdp_md *ctx, uint32_t ifindex)
{
	struct sml_xdp_stamp *place = frame_data(ctx), stamp;
	struct sml_header *header;
	struct sml_xdp_peer *peer;
	struct udphdr *udp;
	struct frame frame;
	uint32_t length;
	uint8_t rank;

	if ((void *)(place + 1) > frame_end(ctx))
		return XDP_DROP;
	stamp = *place;
	frame.udp = stamp.udp & 63u;
	udp = frame_udp(ctx, &frame);
	header = frame_header(ctx, &frame);
	if (!udp || !header)
		return XDP_DROP;
	rank = stamp.rank == SML_XDP_ALL ? rank_of_clone(&stamp, ifindex) : stamp.rank;
	peer = peer_of(stamp.index, rank, header->shard);
	if (rank > SML_XDP_PARENT || !peer || peer->ifindex == 0)
		return XDP_DROP;
	length = SML_HEADER_BYTES + 4u * sml_be16(header->lanes_be);
	return peer_address(peer, ctx, frame.udp, length, udp->check) ? XDP_PASS : XDP_DROP;
}

SEC("xdp/devmap")
int sml_exit(struct xdp_md *ctx)
{
	return leave(ctx, ctx->egress_ifindex);
}

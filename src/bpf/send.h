/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * eBPF: how a frame that holds a result leaves. It goes through the job's devmap, to one rank's
 * port or as clones to all, and the exit program addresses each. If a port cannot transmit, it goes
 * up to the daemon's socket.
 */
#ifndef SML_BPF_SEND_H
#define SML_BPF_SEND_H

#include "bpf/job.h"
#include "bpf/peer.h"

static __always_inline bool put_stamp(struct xdp_md *ctx, const struct frame *frame, uint32_t index,
				      struct sml_xdp_counters *counters, uint8_t rank,
				      uint16_t payload_sum)
{
	struct sml_xdp_stamp *stamp = frame_data(ctx);
	struct udphdr *udp = frame_udp(ctx, frame);

	if (!udp || (void *)(stamp + 1) > frame_end(ctx))
		return false;
	*stamp = (struct sml_xdp_stamp){.number = ++counters->stamp,
					.index = (uint16_t)index,
					.udp = (uint16_t)frame->udp,
					.rank = rank};
	udp->check = payload_sum;
	return true;
}

/* As if the worker had sent the result to the daemon, which sends it on. */
static __always_inline int send_to_daemon(struct xdp_md *ctx, const struct frame *frame,
					  uint16_t payload_sum)
{
	struct udphdr *udp = frame_udp(ctx, frame);
	uint16_t check;

	if (!udp)
		return XDP_DROP;
	check = (uint16_t)~sum_fold((uint64_t)frame->addresses_sum + udp->source + udp->dest +
				    2u * udp->len + payload_sum);
	udp->check = check ? check : 0xffff;
	return XDP_PASS;
}

/*
 * To one rank, to SML_XDP_PARENT, or to SML_XDP_ALL. Never by XDP_TX, even back through the same
 * port: it does not wake a veth whose peer has GRO but no XDP program.
 */
static __always_inline int send_to(struct xdp_md *ctx, const struct frame *frame,
				   const struct sml_xdp_job *job, struct sml_xdp_counters *counters,
				   uint8_t rank, uint16_t payload_sum)
{
	uint32_t index = job->index;
	void *group;

	if (job->daemon_key)
		return send_to_daemon(ctx, frame, payload_sum);
	count_sent(counters, rank == SML_XDP_ALL ? job->rules.n_ranks : 1, frame->length);
	group = bpf_map_lookup_elem(&sml_groups, &index);
	if (!group || !put_stamp(ctx, frame, index, counters, rank, payload_sum))
		return XDP_DROP;
	if (rank == SML_XDP_PARENT)
		return (int)bpf_redirect_map(&sml_parents, index, 0);
	if (rank == SML_XDP_ALL)
		return (int)bpf_redirect_map(group, 0, BPF_F_BROADCAST);
	return (int)bpf_redirect_map(group, rank, 0);
}

/* Which rank is this clone for? The clones of a stamp come one after the other. */
static __always_inline uint8_t rank_of_clone(struct sml_xdp_stamp *stamp, uint32_t ifindex)
{
	struct sml_xdp_port_key key = {.index = stamp->index, .ifindex = ifindex};
	struct sml_xdp_port *port = bpf_map_lookup_elem(&sml_ports, &key);
	uint32_t next;

	if (!port)
		return SML_XDP_ALL;
	next = port->stamp == stamp->number ? port->next : 0;
	if (next >= port->n_ranks)
		return SML_XDP_ALL;
	port->stamp = stamp->number;
	port->next = (uint8_t)(next + 1);
	hide(next);
	return port->ranks[next % SML_MAX_CHILDREN];
}

#endif

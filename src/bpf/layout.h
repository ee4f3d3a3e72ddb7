/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * The contents of the maps, shared by the eBPF program and user space. bpf/maps.h declares the
 * maps.
 */
#ifndef SML_BPF_LAYOUT_H
#define SML_BPF_LAYOUT_H

#include <linux/bpf.h>

#include "core/pool.h"

/*
 * The most lanes of a frame that fits in a page of 4 KiB with XDP's headroom and tail, and thus in
 * one buffer: 3,506 bytes of MTU with veth.
 */
#define SML_XDP_LANES 832

/* The most blocks of a packet whose lanes are rounded: sml_rounded_blocks(), as constants. */
#define SML_XDP_INT16_BLOCKS 25
#define SML_XDP_INT8_BLOCKS  51
#define SML_XDP_LANES_OF(width, blocks)                                                            \
	((blocks) * (SML_ROUNDED_BLOCK / 32 * (width)) + ((blocks) + 3) / 4)
#define SML_XDP_ARE_MOST(width, blocks)                                                            \
	(SML_XDP_LANES_OF(width, blocks) <= SML_XDP_LANES &&                                       \
	 SML_XDP_LANES_OF(width, (blocks) + 1) > SML_XDP_LANES)
_Static_assert(SML_XDP_ARE_MOST(16, SML_XDP_INT16_BLOCKS) &&
		       SML_XDP_ARE_MOST(8, SML_XDP_INT8_BLOCKS),
	       "as many blocks as fit into SML_XDP_LANES");

/* A job's place in sml_jobs: the low bits of its number. */
#define SML_XDP_JOB_PLACES 256

/* Of a leaf: its parent, beside the ranks in the table of peers and in stamps. */
#define SML_XDP_PARENT SML_MAX_CHILDREN

/* Rows that a job has in the table of peers. */
#define SML_XDP_PEERS_PER_JOB ((SML_MAX_CHILDREN + 1) * SML_MAX_SHARDS)

/* The offset of IP in a frame without a VLAN tag. */
#define SML_XDP_UNTAGGED 14

/* Ethernet, two VLAN tags, IPv6, UDP. */
#define SML_XDP_MAX_HEADERS 72

/* Outcomes that only this dataplane has, counted after the verdicts. */
#define SML_XDP_FATE_LIST(X)                                                                       \
	X(BAD_CHECKSUM, "bad-checksum", "of a wrong UDP checksum")                                 \
	X(LEARNED, "learned", "a probe that told its sender's address")

enum sml_xdp_fate {
	SML_XDP_FATE_FIRST = SML_VERDICTS - 1,
#define SML_XDP_FATE_ENUM(name, text, meaning) SML_XDP_FATE_##name,
	SML_XDP_FATE_LIST(SML_XDP_FATE_ENUM)
#undef SML_XDP_FATE_ENUM
		SML_XDP_FATES
};

/* Of a leaf's parent, as an IPv6 address: IPv4's are mapped. */
struct sml_xdp_endpoint {
	uint32_t address_be[4];
	uint16_t port_be;
	uint16_t reserved;
};

/*
 * jobs: by number % places. A free place has n_ranks 0, which accepts no rank. Only what
 * begins with the tickets and `started` change.
 */
struct sml_xdp_job {
	struct sml_pool_rules rules;
	uint32_t index; /* its row in peers, counters, ports and groups */
	uint32_t first_buffer;
	uint32_t started; /* addresses are fixed, contributions are accepted */
	uint32_t reserved;
	/*
	 * In generic mode, and if a port cannot transmit for XDP, the daemon sends results. The
	 * program then puts this key into them instead of the tag. Ranks know the tag, so only the
	 * key proves that a result was summed here. 0: the ports transmit.
	 */
	uint64_t daemon_key;
	struct sml_xdp_endpoint parent; /* of a leaf: where its packets come from */
	uint32_t tickets[SML_STREAMS] __attribute__((aligned(64)));
	uint64_t waited_until_ns; /* sml_waited() */
};

/* slots: by first_buffer + 2 x slot + (use & 1). */
struct sml_xdp_slot {
	struct bpf_spin_lock lock;
	uint32_t forgotten; /* under the lock: forget() */
	struct sml_slot slot;
	/* See bpf/lanes.h. Sums that are rounded take the most room. */
	uint64_t lanes[SML_XDP_INT8_BLOCKS * SML_ROUNDED_BLOCK / 2];
};

/*
 * peers: where a worker's socket is, by (index x (ranks + 1) + rank) x shards + shard. Learned from
 * the worker's probe: packets go back the way that it came. A leaf's last rows are its parent's,
 * learned from the answers to the leaf's own probes.
 */
struct sml_xdp_peer {
	uint32_t ifindex;	/* 0: not known yet */
	uint16_t headers_bytes; /* Ethernet to UDP */
	uint16_t l3;		/* the offset of IP in them */
	uint16_t ip_sum;	/* sum over the IPv4 header without length and checksum */
	uint16_t udp_sum;	/* of addresses, ports and protocol */
	uint8_t v6;
	uint8_t reserved[3];
	uint8_t headers[SML_XDP_MAX_HEADERS]; /* lengths and checksums are 0 */
	/* Verifiers before Linux 6.8 forget that l3 is at most 22, and know only its mask. */
	uint8_t room[8];
};

/* ports: by job and port, per CPU. */
struct sml_xdp_port_key {
	uint32_t index;
	uint32_t ifindex;
};

/*
 * The job's ranks behind one port. The clones of one result leave on one CPU, in the order of the
 * job's group: the n-th clone of a stamp is for the n-th rank.
 */
struct sml_xdp_port {
	uint32_t stamp;
	uint8_t next;
	uint8_t n_ranks;
	uint8_t reserved[2];
	uint8_t ranks[SML_MAX_CHILDREN];
};

/* Counters of packets that end here, and of results; bytes are UDP payload. */
struct sml_xdp_traffic {
	uint64_t fates[SML_XDP_FATES];
	uint64_t packets_received, bytes_received;
	uint64_t packets_sent, bytes_sent;
};

/* counters: by index, per CPU. One row has all counters, so that a packet needs one lookup. */
struct sml_xdp_counters {
	struct sml_xdp_traffic traffic;
	uint64_t contributions[SML_MAX_CHILDREN];
	uint64_t resends[SML_MAX_CHILDREN];
	uint64_t waited_ns[SML_MAX_CHILDREN];
	uint32_t stamp; /* of this CPU's last result */
	uint32_t reserved;
};

/*
 * events: the first mismatch that a packet reveals; the control plane then asks the ranks to
 * describe their calls.
 */
struct sml_xdp_event {
	uint64_t seen; /* ranks that had contributed before */
	uint32_t job;
	uint32_t use;
	uint32_t chunk;
	uint16_t slot;
	uint8_t rank; /* the rank whose digest differs */
	uint8_t reserved;
};

/*
 * On the way from the entry program to the exit program, a result carries this instead of its MAC
 * addresses, and the sum over its payload instead of its UDP checksum. It never leaves the box like
 * that.
 */
struct sml_xdp_stamp {
	uint32_t number;
	uint16_t index;
	uint16_t udp; /* the offset of its header */
	uint8_t rank; /* the receiver; SML_XDP_PARENT, or SML_XDP_ALL: all ranks, in turn */
	uint8_t reserved[3];
};

#define SML_XDP_ALL 0xff

/*
 * A result that the daemon must send goes to its socket as if the worker had sent it there, with
 * the job's daemon_key: unchanged if it is for all ranks, and with this + rank as its kind if it is
 * for one rank.
 */
#define SML_XDP_KIND_TO_RANK 0x80

#endif

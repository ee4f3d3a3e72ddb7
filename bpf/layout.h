/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * What lies in the maps: shared by the eBPF program and user space. Where they
 * are, and who writes them: bpf/maps.h.
 */
#ifndef SML_BPF_LAYOUT_H
#define SML_BPF_LAYOUT_H

#include <linux/bpf.h>

#include "core/pool.h"

/* The most lanes of a 1500-byte frame: such a frame is linear on every driver. */
#define SML_XDP_LANES 352

/* A job's place in sml_jobs: the low bits of its number. */
#define SML_XDP_JOB_PLACES 256

/* Rows that a job has in the table of peers. */
#define SML_XDP_PEERS_PER_JOB (SML_MAX_RANKS * SML_MAX_SHARDS)

/* Where IP begins in a frame without a VLAN tag. */
#define SML_XDP_UNTAGGED 14

/* Ethernet, two VLAN tags, IPv6, UDP. */
#define SML_XDP_MAX_HEADERS 72

/* Fates that only this dataplane knows, counted behind the verdicts. */
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

/*
 * jobs: by number % places; where there is none, n_ranks is 0, which admits
 * nobody. Only tickets and `started` change.
 */
struct sml_xdp_job {
	struct sml_pool_rules rules;
	uint32_t index; /* its row in peers, counters, ports and groups */
	uint32_t first_buffer;
	uint32_t started; /* addresses stay, contributions are taken */
	uint32_t reserved;
	/*
	 * Generic mode, and ports that can't transmit for XDP: the daemon sends results. The
	 * program puts this into them, in the tag's place: ranks know the tag, and only what
	 * bears this has been summed here. 0: the ports transmit.
	 */
	uint64_t daemon_key;
	uint32_t tickets[SML_STREAMS] __attribute__((aligned(64)));
};

/* slots: by first_buffer + 2 x slot + (use & 1). */
struct sml_xdp_slot {
	struct bpf_spin_lock lock;
	uint32_t reserved;
	struct sml_slot slot;
	uint64_t lanes[SML_XDP_LANES / 2]; /* bpf/lanes.h says how */
};

/*
 * peers: where a worker's socket is, by (index x ranks + rank) x shards + shard.
 * Learned from the worker's probe: the way back is the way that it came.
 */
struct sml_xdp_peer {
	uint32_t ifindex;	/* 0: not known yet */
	uint16_t headers_bytes; /* Ethernet to UDP */
	uint16_t l3;		/* where IP begins in them */
	uint16_t ip_sum;	/* of the IPv4 header without length and checksum */
	uint16_t udp_sum;	/* of addresses, ports and protocol */
	uint8_t v6;
	uint8_t reserved[3];
	uint8_t headers[SML_XDP_MAX_HEADERS]; /* lengths and checksums are 0 */
};

/* ports: by job and port, per CPU. */
struct sml_xdp_port_key {
	uint32_t index;
	uint32_t ifindex;
};

/*
 * The job's ranks behind one port. The clones of one result leave in the order
 * of the job's group, on one CPU: the n-th clone of a stamp is for the n-th rank.
 */
struct sml_xdp_port {
	uint32_t stamp;
	uint8_t next;
	uint8_t n_ranks;
	uint8_t reserved[2];
	uint8_t ranks[SML_MAX_RANKS];
};

/* Of packets that end here, and results; bytes are of UDP's payload. */
struct sml_xdp_traffic {
	uint64_t fates[SML_XDP_FATES];
	uint64_t packets_received, bytes_received;
	uint64_t packets_sent, bytes_sent;
};

/* counters: by index, per CPU: one row has all, so that a packet looks for one alone. */
struct sml_xdp_counters {
	struct sml_xdp_traffic traffic;
	uint64_t contributions[SML_MAX_RANKS];
	uint64_t resends[SML_MAX_RANKS];
	uint32_t stamp; /* of this CPU's last result */
	uint32_t reserved;
};

/* events: the first mismatch that a packet shows; the control plane asks the ranks for words. */
struct sml_xdp_event {
	uint64_t seen; /* who was in before */
	uint32_t job;
	uint32_t use;
	uint32_t chunk;
	uint16_t slot;
	uint8_t rank; /* who believes otherwise */
	uint8_t reserved;
};

/*
 * A result on its way from the program at the entry to the one at the exit
 * bears this in the place of its MAC addresses, and the sum over its payload in
 * the place of its UDP checksum. It never leaves the box like that.
 */
struct sml_xdp_stamp {
	uint32_t number;
	uint16_t index;
	uint16_t udp; /* where its header lies */
	uint8_t rank; /* for whom; SML_XDP_ALL: for all, in turn */
	uint8_t reserved[3];
};

#define SML_XDP_ALL 0xff

/*
 * A result that the daemon is to send goes to its socket as if the worker had
 * sent it there, with the job's daemon_key: for all as it is, for one rank with this + rank
 * as its kind.
 */
#define SML_XDP_KIND_TO_RANK 0x80

#endif

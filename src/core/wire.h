/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/*
 * Packets of the data path, worker to switch and back. docs/internals/protocol.md draws them byte
 * by byte. All fields are big-endian, and lanes begin at a fixed offset, so that a pipeline of
 * match-action stages can process them as they arrive.
 */
#ifndef SML_CORE_WIRE_H
#define SML_CORE_WIRE_H

#include "core/base.h"

#define SML_WIRE_MAGIC	 0x534d /* "SM" */
#define SML_WIRE_VERSION 1

enum sml_packet_kind {
	SML_PACKET_CONTRIBUTION = 0, /* worker to switch */
	SML_PACKET_RESULT = 1,	     /* switch to workers */
	SML_PACKET_PROBE = 2,	    /* worker to switch, at join: is the path open, and how wide? */
	SML_PACKET_PROBE_REPLY = 3, /* switch to worker: the answer to a probe */
	SML_PACKET_KINDS
};

/* What the switch does to lanes. It knows nothing else about numbers. */
enum sml_lane_op {
	SML_LANE_SUM = 0,
	SML_LANE_MAX = 1,
	/* Of floats alone. The switch whose results go to the ranks divides; its leaves only add.
	 */
	SML_LANE_AVG = 2
};
enum sml_lane_kind {
	SML_LANE_INT32 = 0,
	SML_LANE_INT16_PAIR = 1,
	/* Two int16, or four int8, whose sums the switch rounds (rounding.h). They have no MAX. */
	SML_LANE_INT16_ROUNDED = 2,
	SML_LANE_INT8_ROUNDED = 3,
	/* Floats that the switch adds without an error, and rounds once (exact.h). No MAX. */
	SML_LANE_FLOAT32 = 4,
	SML_LANE_FLOAT16 = 5, /* two */
	SML_LANE_BFLOAT16 = 6 /* two */
};

static inline bool sml_lane_is_float(uint8_t lane_kind)
{
	return lane_kind >= SML_LANE_FLOAT32 && lane_kind <= SML_LANE_BFLOAT16;
}

/*
 * A flag in lane_kind, beside the kind: all lanes are zero, and do not travel. The packet ends with
 * its header, which says how many lanes there would be. Zeros of floats are +0. Packets of MAX do
 * not have the flag, and others only where the switch takes it. A result has it if all
 * contributions had it.
 */
#define SML_LANES_OMITTED 0x80

/* Receive buffers, files and tests have a packet as bytes: it may alias them. */
struct sml_header {
	uint16_t magic_be;
	uint8_t version;
	uint8_t kind;
	uint32_t job_be;
	uint64_t key_be; /* to the switch: the worker's cookie; from it: the epoch's tag */
	uint32_t epoch_be;
	uint32_t use_be;
	uint32_t chunk_be; /* to the switch: only for readers of traces; in results: the ticket */
	uint32_t digest_be;
	uint16_t slot_be;
	uint8_t rank; /* in results: the rank that contributed last, or SML_NO_RANK */
	uint8_t op;
	uint8_t lane_kind;
	uint8_t shard;	   /* which of a worker's sockets, and of a switch's threads, serves it */
	uint16_t lanes_be; /* 32-bit lanes that follow */
} __attribute__((packed, aligned(4), may_alias));

#define SML_HEADER_BYTES 40
_Static_assert(sizeof(struct sml_header) == SML_HEADER_BYTES, "the header has no holes");

#define SML_MAX_CHILDREN 64   /* the most ranks and leaves that a job has at one switch */
#define SML_MAX_WORLD	 4096 /* the most ranks of a job: 64 leaves of 64 ranks each */
#define SML_NO_RANK	 0xff
#define SML_MAX_SHARDS	 16
/* A job's streams are divided among at most this many switches: each child can embed one. */
#define SML_MAX_STRIPES SML_MAX_CHILDREN
#define SML_MAX_SLOTS	4096
/* The most lanes in a 9000-byte IPv6 frame, as a multiple of 32: docs/internals/protocol.md. */
#define SML_MAX_LANES	     2208
#define SML_MAX_PACKET_BYTES (SML_HEADER_BYTES + 4 * SML_MAX_LANES)

/* How many bytes the lanes take in a packet. omitted is SML_LANES_OMITTED, or 0. */
static inline uint32_t sml_lane_bytes(uint32_t lanes, uint8_t omitted)
{
	return omitted ? 0 : 4 * lanes;
}

/*
 * Can any packet have this length? Packets of other lengths are dropped on receipt, before any code
 * reads them, because all receive buffers are sized for valid lengths.
 */
static inline bool sml_packet_length_is_valid(uint32_t length)
{
	return length >= SML_HEADER_BYTES && length <= SML_MAX_PACKET_BYTES && length % 4 == 0;
}

/* A datagram that is segmented carries at most this much, in both directions. */
#define SML_SUPER_PACKET_BYTES	 64512
#define SML_SUPER_PACKET_PACKETS 64

#define SML_DEFAULT_PORT 28500

/*
 * The lane counts that a job's full packets can have, ascending and ending with 0. There are few,
 * so that hardware can hold one program for each. The smallest has room for an element of every
 * form: one of the int64 wire is three lanes.
 */
#define SML_MIN_LANES 32
#define SML_LANE_COUNTS                                                                            \
	{                                                                                          \
		SML_MIN_LANES, 40, 64, 128, 256, 352, 358, 480, 832, 992, SML_MAX_LANES, 0         \
	}

/*
 * A tensor's last packet is rounded up to a power of two of at least 8 lanes, and at most to a full
 * packet.
 */
static inline uint32_t sml_lanes_round(uint32_t lanes, uint32_t full)
{
	uint32_t rounded = 8;

	if (lanes == 0)
		return 0;
	while (rounded < lanes)
		rounded *= 2;
	return rounded < full ? rounded : full;
}

#endif

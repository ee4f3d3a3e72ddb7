/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one list of what core/ and the P4 programs must have in common: the fields of the header in
 * order, and the numbers of kinds, operations, verdicts and limits. p4/constants.c prints it as P4
 * source, so the P4 programs contain none of these numbers.
 */
#ifndef SML_P4_CONSTANTS_H
#define SML_P4_CONSTANTS_H

#include "core/pool.h"
#include "core/rounding.h"
#include "job/dataplane.h"

/* What only the P4 programs and their daemon say to each other. */
enum {
	/* From the program to the daemon: two ranks disagree. */
	SML_P4_KIND_MISMATCH = 8,
	/* In the lane_kind of a probe: the program has written where the probe came from. */
	SML_P4_STAMPED = 0x50,
	/* Counted after the verdicts: a contribution with a wrong UDP checksum. */
	SML_P4_FATE_BAD_CHECKSUM = SML_VERDICTS,
	/* Counters of a job; its place is the upper part of a counter's index. */
	SML_P4_FATES = 16,
	/* How wide a job's place, a fate and a rank are where an index is joined of bits. */
	SML_P4_JOB_BITS = 8,
	SML_P4_FATE_BITS = 4,
	SML_P4_CHILD_BITS = 6,
	/* The multicast group of everything that is flooded, and the first job's. */
	SML_P4_FLOOD_GROUP = 1,
	SML_P4_FIRST_GROUP = 2,
};
_Static_assert((int)SML_P4_FATE_BAD_CHECKSUM < (int)SML_P4_FATES, "every fate has a counter");
_Static_assert((int)SML_P4_FATES == 1 << SML_P4_FATE_BITS, "joined bits are the index");
_Static_assert(SML_MAX_JOBS == 1 << SML_P4_JOB_BITS, "joined bits are the index");
_Static_assert(SML_MAX_CHILDREN == 1 << SML_P4_CHILD_BITS, "joined bits are the index");
_Static_assert((int)SML_P4_KIND_MISMATCH >= (int)SML_PACKET_KINDS, "no other packet has this kind");

/* The lanes that a program with blocks can have: what follows from them is printed for each. */
#define SML_P4_LANE_COUNTS                                                                         \
	{                                                                                          \
		32, 64, 128, 256                                                                   \
	}

/* X(field of struct sml_header, name in P4) */
#define SML_P4_FIELDS(X)                                                                           \
	X(magic_be, magic)                                                                         \
	X(version, version)                                                                        \
	X(kind, kind)                                                                              \
	X(job_be, job)                                                                             \
	X(key_be, key)                                                                             \
	X(epoch_be, epoch)                                                                         \
	X(use_be, use)                                                                             \
	X(chunk_be, chunk)                                                                         \
	X(digest_be, digest)                                                                       \
	X(slot_be, slot)                                                                           \
	X(rank, rank)                                                                              \
	X(op, op)                                                                                  \
	X(lane_kind, lane_kind)                                                                    \
	X(shard, shard)                                                                            \
	X(lanes_be, lanes)

/* X(bits, name): the value is that of the C constant. */
#define SML_P4_CONSTANTS(X)                                                                        \
	X(16, SML_WIRE_MAGIC)                                                                      \
	X(8, SML_WIRE_VERSION)                                                                     \
	X(8, SML_PACKET_CONTRIBUTION)                                                              \
	X(8, SML_PACKET_RESULT)                                                                    \
	X(8, SML_PACKET_PROBE)                                                                     \
	X(8, SML_PACKET_PROBE_REPLY)                                                               \
	X(8, SML_P4_KIND_MISMATCH)                                                                 \
	X(8, SML_P4_STAMPED)                                                                       \
	X(8, SML_LANE_SUM)                                                                         \
	X(8, SML_LANE_MAX)                                                                         \
	X(8, SML_LANE_INT32)                                                                       \
	X(8, SML_LANE_INT16_PAIR)                                                                  \
	X(8, SML_LANE_INT16_ROUNDED)                                                               \
	X(8, SML_LANE_INT8_ROUNDED)                                                                \
	X(8, SML_ROUNDED_SHIFT_BITS)                                                               \
	X(16, SML_HEADER_BYTES)                                                                    \
	X(8, SML_VERDICT_ABSORBED)                                                                 \
	X(8, SML_VERDICT_COMPLETED)                                                                \
	X(8, SML_VERDICT_RESEND)                                                                   \
	X(8, SML_VERDICT_MISMATCH)                                                                 \
	X(8, SML_VERDICT_DUPLICATE)                                                                \
	X(8, SML_VERDICT_STALE_USE)                                                                \
	X(8, SML_VERDICT_EARLY_USE)                                                                \
	X(8, SML_VERDICT_MALFORMED)                                                                \
	X(8, SML_VERDICT_WRONG_EPOCH)                                                              \
	X(8, SML_VERDICT_WRONG_COOKIE)                                                             \
	X(8, SML_VERDICT_OUT_OF_RANGE)                                                             \
	X(8, SML_P4_FATE_BAD_CHECKSUM)                                                             \
	X(32, SML_P4_FATES)                                                                        \
	X(8, SML_P4_JOB_BITS)                                                                      \
	X(8, SML_P4_FATE_BITS)                                                                     \
	X(8, SML_P4_CHILD_BITS)                                                                    \
	X(32, SML_MAX_CHILDREN)                                                                    \
	X(32, SML_MAX_JOBS)                                                                        \
	X(16, SML_P4_FLOOD_GROUP)

#endif

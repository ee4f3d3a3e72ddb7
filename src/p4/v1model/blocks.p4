/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Narrow lanes whose sums the switch rounds (core/rounding.h). A packet has the most blocks that fit
 * into SML_LANES, and after them a byte for each block, its shift. constants.p4 has their numbers.
 * Blocks are numbered in octal.
 */
#ifndef SML_P4_BLOCKS
#define SML_P4_BLOCKS

#define EACH_BLOCK_OF_1(X) X(0)
#define EACH_BLOCK_OF_3(X) EACH_BLOCK_OF_1(X) X(1) X(2)
#define EACH_BLOCK_OF_7(X) EACH_BLOCK_OF_3(X) X(3) X(4) X(5) X(6)
#define EACH_BLOCK_OF_15(X)                                                                        \
    EACH_BLOCK_OF_7(X) X(7) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define EACH_BLOCK_OF_(n) EACH_BLOCK_OF_##n
#define EACH_BLOCK_OF(n) EACH_BLOCK_OF_(n)

#if SML_INT8_BLOCKS > 0
#define SML_ROUNDS_INT8
#define EACH_INT8_BLOCK(X) EACH_BLOCK_OF(SML_INT8_BLOCKS)(X)
#else
#error no block fits into so few lanes
#endif
#if SML_INT16_BLOCKS > 0
#define SML_ROUNDS_INT16
#define EACH_INT16_BLOCK(X) EACH_BLOCK_OF(SML_INT16_BLOCKS)(X)
#endif

#define SHIFT_FIELD(n) bit<8> s##n;
// Zeros after the shifts, up to a whole lane.
#if SML_INT8_BLOCKS == 1
#define INT8_REST bit<24>
#else
#define INT8_REST bit<8>
#endif
#if SML_INT16_BLOCKS == 1
#define INT16_REST bit<24>
#else
#define INT16_REST bit<8>
#endif

// UDP's length of full packets.
#define INT8_DATAGRAM_BYTES (UDP_BYTES + SML_HEADER_BYTES + 4 * SML_INT8_LANES)
#define INT16_DATAGRAM_BYTES (UDP_BYTES + SML_HEADER_BYTES + 4 * SML_INT16_LANES)

// Of a contribution's shift, these bits count.
#define SHIFT_OF(shift) (shift & SML_ROUNDED_SHIFT_BITS)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes of a packet as fields of 32 bits, with one register for each lane, as on hardware: an
 * operation on a lane is one access to its register. Lanes are numbered in octal, because the
 * preprocessor counts by joining digits.
 */
#ifndef SML_P4_LANES
#define SML_P4_LANES

#define EACH_8(X, d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7)
#define EACH_32(X, d) EACH_8(X, d##0) EACH_8(X, d##1) EACH_8(X, d##2) EACH_8(X, d##3)
#define EACH_64(X, d)                                                                              \
    EACH_32(X, d) EACH_8(X, d##4) EACH_8(X, d##5) EACH_8(X, d##6) EACH_8(X, d##7)
#if SML_LANES == 32
#define EACH_LANE(X) EACH_32(X, 0)
#elif SML_LANES == 64
#define EACH_LANE(X) EACH_64(X, 0)
#elif SML_LANES == 128
#define EACH_LANE(X) EACH_64(X, 0) EACH_64(X, 1)
#elif SML_LANES == 256
#define EACH_LANE(X) EACH_64(X, 0) EACH_64(X, 1) EACH_64(X, 2) EACH_64(X, 3)
#else
#error the form with a register for each lane has 32, 64, 128 or 256 lanes
#endif

#define LANE_FIELD(i) bit<32> l##i;
header lanes_t {
    EACH_LANE(LANE_FIELD)
}

// The rest of a list of fields.
#define LANE_IN_LIST(i) , hdr.lanes.l##i
#define AND_LANES EACH_LANE(LANE_IN_LIST)

// Lanes that are rounded: the two last digits are an element's place in its block.
#define INT8_FIELD(i) bit<8> e##i;
#define INT8_IN_LIST(i) , hdr.int8.e##i
#define INT8_BLOCK_FIELDS(n) EACH_64(INT8_FIELD, n)
#define INT8_BLOCK_IN_LIST(n) EACH_64(INT8_IN_LIST, n)
#define INT8_SHIFT_IN_LIST(n) , hdr.int8.s##n
#define AND_INT8                                                                                   \
    EACH_INT8_BLOCK(INT8_BLOCK_IN_LIST) EACH_INT8_BLOCK(INT8_SHIFT_IN_LIST), hdr.int8.rest
header int8_t {
    EACH_INT8_BLOCK(INT8_BLOCK_FIELDS)
    EACH_INT8_BLOCK(SHIFT_FIELD)
    INT8_REST rest;
}

#ifdef SML_ROUNDS_INT16
#define INT16_FIELD(i) bit<16> e##i;
#define INT16_IN_LIST(i) , hdr.int16.e##i
#define INT16_BLOCK_FIELDS(n) EACH_64(INT16_FIELD, n)
#define INT16_BLOCK_IN_LIST(n) EACH_64(INT16_IN_LIST, n)
#define INT16_SHIFT_IN_LIST(n) , hdr.int16.s##n
#define AND_INT16                                                                                  \
    EACH_INT16_BLOCK(INT16_BLOCK_IN_LIST) EACH_INT16_BLOCK(INT16_SHIFT_IN_LIST), hdr.int16.rest
header int16_t {
    EACH_INT16_BLOCK(INT16_BLOCK_FIELDS)
    EACH_INT16_BLOCK(SHIFT_FIELD)
    INT16_REST rest;
}
#endif

const bit<32> HIGH16 = 0x80008000;

#define LANE_REGISTER(i) register<bit<32>>(2 * SML_SLOTS) lane_##i;

#define STEP_OF_LANE(i)                                                                            \
    lane_##i.read(stored, buffer);                                                                 \
    arrived = lanes.l##i;                                                                          \
    if (step == STEP_ADD32) {                                                                      \
        arrived = stored + arrived;                                                                \
    } else if (step == STEP_ADD16) {                                                               \
        arrived = ((stored ^ arrived) & HIGH16) ^ ((stored & ~HIGH16) + (arrived & ~HIGH16));      \
    } else if (step == STEP_MAX) {                                                                 \
        if ((int<32>)stored > (int<32>)arrived) {                                                  \
            arrived = stored;                                                                      \
        }                                                                                          \
    } else if (step == STEP_MAX16) {                                                               \
        if ((int<16>)stored[31:16] > (int<16>)arrived[31:16]) {                                    \
            arrived[31:16] = stored[31:16];                                                        \
        }                                                                                          \
        if ((int<16>)stored[15:0] > (int<16>)arrived[15:0]) {                                      \
            arrived[15:0] = stored[15:0];                                                          \
        }                                                                                          \
    } else if (step == STEP_LOAD) {                                                                \
        arrived = stored;                                                                          \
    }                                                                                              \
    lanes.l##i = arrived;                                                                          \
    lane_##i.write(buffer, arrived);

control Lanes(inout lanes_t lanes, in bit<32> buffer, in bit<8> step) {
    EACH_LANE(LANE_REGISTER)
    bit<32> stored;
    bit<32> arrived;

    apply {
        EACH_LANE(STEP_OF_LANE)
    }
}

#endif

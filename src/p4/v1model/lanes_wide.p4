/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lanes of a packet as words of 64 lanes, the most that fit into BMv2's widest field (2048
 * bits). An operation on all lanes of a word is a few operations on the word, as in a SIMD
 * register: `high` has the highest bit of each lane, which keeps lanes from carrying into each
 * other.
 */
#ifndef SML_P4_LANES
#define SML_P4_LANES

#if SML_LANES == 32
#define WORD bit<1024>
#else
#define WORD bit<2048>
#endif

#if SML_LANES == 32 || SML_LANES == 64
#define EACH_WORD(X) X(0)
#elif SML_LANES == 128
#define EACH_WORD(X) X(0) X(1)
#elif SML_LANES == 256
#define EACH_WORD(X) X(0) X(1) X(2) X(3)
#else
#error the wide form has 32, 64, 128 or 256 lanes
#endif

// Named after the number of lanes.
const bit<32> HIGH32_1 = 0x80000000;
const bit<64> HIGH32_2 = HIGH32_1 ++ HIGH32_1;
const bit<128> HIGH32_4 = HIGH32_2 ++ HIGH32_2;
const bit<256> HIGH32_8 = HIGH32_4 ++ HIGH32_4;
const bit<512> HIGH32_16 = HIGH32_8 ++ HIGH32_8;
const bit<1024> HIGH32_32 = HIGH32_16 ++ HIGH32_16;
const bit<2048> HIGH32_64 = HIGH32_32 ++ HIGH32_32;
const bit<32> HIGH16_1 = 0x80008000;
const bit<64> HIGH16_2 = HIGH16_1 ++ HIGH16_1;
const bit<128> HIGH16_4 = HIGH16_2 ++ HIGH16_2;
const bit<256> HIGH16_8 = HIGH16_4 ++ HIGH16_4;
const bit<512> HIGH16_16 = HIGH16_8 ++ HIGH16_8;
const bit<1024> HIGH16_32 = HIGH16_16 ++ HIGH16_16;
@noWarn("unused") const bit<2048> HIGH16_64 = HIGH16_32 ++ HIGH16_32;

#if SML_LANES == 32
const WORD HIGH32 = HIGH32_32;
const WORD HIGH16 = HIGH16_32;
#else
const WORD HIGH32 = HIGH32_64;
const WORD HIGH16 = HIGH16_64;
#endif

#define WORD_FIELD(i) WORD w##i;
header lanes_t {
    EACH_WORD(WORD_FIELD)
}

// The rest of a list of fields.
#define WORD_IN_LIST(i) , hdr.lanes.w##i
#define AND_LANES EACH_WORD(WORD_IN_LIST)

// Lanes that are rounded: each block is a field.
#define INT8_BLOCK_FIELD(n) bit<512> b##n;
#define INT8_BLOCK_IN_LIST(n) , hdr.int8.b##n
#define INT8_SHIFT_IN_LIST(n) , hdr.int8.s##n
#define AND_INT8                                                                                   \
    EACH_INT8_BLOCK(INT8_BLOCK_IN_LIST) EACH_INT8_BLOCK(INT8_SHIFT_IN_LIST), hdr.int8.rest
header int8_t {
    EACH_INT8_BLOCK(INT8_BLOCK_FIELD)
    EACH_INT8_BLOCK(SHIFT_FIELD)
    INT8_REST rest;
}

#ifdef SML_ROUNDS_INT16
#define INT16_BLOCK_FIELD(n) bit<1024> b##n;
#define INT16_BLOCK_IN_LIST(n) , hdr.int16.b##n
#define INT16_SHIFT_IN_LIST(n) , hdr.int16.s##n
#define AND_INT16                                                                                  \
    EACH_INT16_BLOCK(INT16_BLOCK_IN_LIST) EACH_INT16_BLOCK(INT16_SHIFT_IN_LIST), hdr.int16.rest
header int16_t {
    EACH_INT16_BLOCK(INT16_BLOCK_FIELD)
    EACH_INT16_BLOCK(SHIFT_FIELD)
    INT16_REST rest;
}
#endif

#define WORD_REGISTER(i) register<WORD>(2 * SML_SLOTS) lanes_##i;

#define STEP_OF_WORD(i)                                                                            \
    lanes_##i.read(stored, buffer);                                                                \
    arrived = lanes.w##i;                                                                          \
    COMBINE                                                                                        \
    lanes.w##i = arrived;                                                                          \
    if (step != STEP_LOAD) {                                                                       \
        lanes_##i.write(buffer, arrived);                                                          \
    }

control Lanes(inout lanes_t lanes, in bit<32> buffer, in bit<8> step) {
    EACH_WORD(WORD_REGISTER)
    WORD stored;
    WORD arrived;
    WORD a;
    WORD b;

    action add32() {
        arrived = ((stored ^ arrived) & HIGH32) ^ ((stored & ~HIGH32) + (arrived & ~HIGH32));
    }

    action add16() {
        arrived = ((stored ^ arrived) & HIGH16) ^ ((stored & ~HIGH16) + (arrived & ~HIGH16));
    }

    // Signed: with the highest bits flipped, the greater number is the greater one unsigned.
    action take_greater() {
        a = stored ^ HIGH32;
        b = arrived ^ HIGH32;
        // The highest bit of each lane: is the stored number at least as great?
        a = ((a & ~b) | (~(a ^ b) & ((a | HIGH32) - (b & ~HIGH32)))) & HIGH32;
        // All bits of each such lane.
        a = (a - (a >> 31)) | a;
        arrived = (stored & a) | (arrived & ~a);
    }

    // The same of halves.
    action take_greater_halves() {
        a = stored ^ HIGH16;
        b = arrived ^ HIGH16;
        a = ((a & ~b) | (~(a ^ b) & ((a | HIGH16) - (b & ~HIGH16)))) & HIGH16;
        a = (a - (a >> 15)) | a;
        arrived = (stored & a) | (arrived & ~a);
    }

    action load() {
        arrived = stored;
    }

    apply {
#define COMBINE                                                                                    \
    if (step == STEP_ADD32) {                                                                      \
        add32();                                                                                   \
    } else if (step == STEP_ADD16) {                                                               \
        add16();                                                                                   \
    } else if (step == STEP_MAX) {                                                                 \
        take_greater();                                                                            \
    } else if (step == STEP_MAX16) {                                                               \
        take_greater_halves();                                                                     \
    } else if (step == STEP_LOAD) {                                                                \
        load();                                                                                    \
    }
        EACH_WORD(STEP_OF_WORD)
    }
}

#endif

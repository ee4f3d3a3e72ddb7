/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of lanes that are rounded, in 32 bits each: a block's 64 are a word, BMv2's widest field,
 * and an operation on all of them is a few on the word, as in lanes_wide.p4. The elements of a lane
 * are far apart in the word, because a block is one however its elements are ordered.
 *
 * The sums stay in their registers when a use is complete. A result that is sent again is rounded
 * again, from the same sums.
 */
#ifndef SML_P4_SUMS
#define SML_P4_SUMS

#include "shift.p4"

#define SUMS bit<2048>

const bit<512> LOW8 = 512w0xff
#define AND_LOW8(n) | (512w0xff << (32 * n))
    AND_LOW8(1) AND_LOW8(2) AND_LOW8(3) AND_LOW8(4) AND_LOW8(5) AND_LOW8(6) AND_LOW8(7)
    AND_LOW8(8) AND_LOW8(9) AND_LOW8(10) AND_LOW8(11) AND_LOW8(12) AND_LOW8(13) AND_LOW8(14)
    AND_LOW8(15);
const SUMS HIGH = HIGH32_64;
const SUMS ONES = HIGH32_64 >> 31;
#ifdef SML_ROUNDS_INT16
const bit<1024> LOW16 = (HIGH32_32 >> 15) - (HIGH32_32 >> 31);
#endif

#define SUMS_REGISTER(n) register<SUMS>(2 * SML_SLOTS) sums_##n;

#define STEP_OF_BLOCK(kind, n)                                                                     \
    sums_##n.read(stored, buffer);                                                                 \
    shift = SHIFT_OF(hdr.kind.s##n);                                                               \
    spread_##kind(hdr.kind.b##n);                                                                  \
    scale();                                                                                       \
    if (step == STEP_ADD32) {                                                                      \
        add();                                                                                     \
    } else if (step == STEP_LOAD) {                                                                \
        load();                                                                                    \
    }                                                                                              \
    sums_##n.write(buffer, sums);                                                                  \
    if (ends) {                                                                                    \
        take_magnitudes();                                                                         \
        fold_to_512();                                                                             \
        fold_to_128();                                                                             \
        fold_to_32();                                                                              \
        find_shift.apply(magnitudes, width, shift);                                                \
        take_half();                                                                               \
        add_half();                                                                                \
        round();                                                                                   \
        pack_##kind(hdr.kind.b##n);                                                                \
        hdr.kind.s##n = shift;                                                                     \
    }
#define STEP_OF_INT8_BLOCK(n) STEP_OF_BLOCK(int8, n)
#define STEP_OF_INT16_BLOCK(n) STEP_OF_BLOCK(int16, n)

// ends: the sums are complete, and are rounded.
control Sums(inout headers_t hdr, in bit<32> buffer, in bit<8> step, in bool ends) {
    EACH_INT8_BLOCK(SUMS_REGISTER)
    FindShift() find_shift;
    SUMS stored;
    SUMS sums;
    SUMS a;
    bit<512> of_512;
    bit<128> of_128;
    bit<32> magnitudes;
    bit<8> shift;
    bit<8> width;

    // The bytes of each lane, without a sign yet.
    action spread_int8(in bit<512> block) {
        sums = ((block >> 24) & LOW8) ++ ((block >> 16) & LOW8) ++ ((block >> 8) & LOW8) ++
                 (block & LOW8);
    }

    // And back. The sums have no other bits.
    action pack_int8(out bit<512> block) {
        block = sums[2047:1536] << 24 | sums[1535:1024] << 16 | sums[1023:512] << 8 | sums[511:0];
    }

#ifdef SML_ROUNDS_INT16
    action spread_int16(in bit<1024> block) {
        sums = ((block >> 16) & LOW16) ++ (block & LOW16);
    }

    action pack_int16(out bit<1024> block) {
        block = sums[2047:1024] << 16 | sums[1023:0];
    }
#endif

    // Give numbers of `width` bits their signs, and shift them. With the sign's bit flipped, they
    // are greater by `a`, and have no sign.
    action scale() {
        a = ONES << (width - 1);
        sums = (((sums ^ a) << shift) + (HIGH - (a << shift))) ^ HIGH;
    }

    action add() {
        sums = ((stored ^ sums) & HIGH) ^ ((stored & ~HIGH) + (sums & ~HIGH));
    }

    action load() {
        sums = stored;
    }

    // What follows takes several actions, because p4c puts the expression that a variable has within
    // an action wherever it is used, and expressions would double with each step.

    // sml_rounded_magnitude() of all sums,
    action take_magnitudes() {
        a = sums & HIGH;
        a = sums ^ ((a - (a >> 31)) | a);
    }

    // by "or".
    action fold_to_512() {
        of_512 = a[2047:1536] | a[1535:1024] | a[1023:512] | a[511:0];
    }

    action fold_to_128() {
        of_128 = of_512[511:384] | of_512[383:256] | of_512[255:128] | of_512[127:0];
    }

    action fold_to_32() {
        magnitudes = of_128[127:96] | of_128[95:64] | of_128[63:32] | of_128[31:0];
    }

    // sml_rounded() of all sums: half a unit is added, or one less,
    action take_half() {
        a = shift == 0 ? (SUMS)0 : (ONES << (shift - 1)) - ONES + ((sums >> shift) & ONES);
    }

    action add_half() {
        sums = ((sums ^ a) & HIGH) ^ ((sums & ~HIGH) + (a & ~HIGH));
    }

    // and what became 2^(width - 1) does not fit.
    action round() {
        a = (sums >> (shift + width - 1)) & ~(sums >> 31) & ONES;
        sums = ((sums >> shift) & ((ONES << width) - ONES)) - a;
    }

    apply {
#ifdef SML_ROUNDS_INT16
        if (hdr.int16.isValid()) {
            width = 16;
            EACH_INT16_BLOCK(STEP_OF_INT16_BLOCK)
            hdr.int16.rest = 0;
        } else
#endif
        if (hdr.int8.isValid()) {
            width = 8;
            EACH_INT8_BLOCK(STEP_OF_INT8_BLOCK)
            hdr.int8.rest = 0;
        }
    }
}

#endif

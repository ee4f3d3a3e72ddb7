/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of lanes that are rounded, with one register of 32 bits for each, as lanes_registers.p4
 * has them for lanes.
 *
 * The sums stay in their registers when a use is complete. A result that is sent again is rounded
 * again, from the same sums.
 */
#ifndef SML_P4_SUMS
#define SML_P4_SUMS

#include "shift.p4"

#define SUM_REGISTER(i) register<bit<32>>(2 * SML_SLOTS) sum_##i;
#define SUM_REGISTERS(n) EACH_64(SUM_REGISTER, n)

// With the sign's bit flipped, a narrow number is greater by that bit, and has no sign.
#define ADD(kind, i)                                                                               \
    sum_##i.read(stored, buffer);                                                                  \
    sum = (((bit<32>)hdr.kind.e##i ^ sign) - sign) << shift;                                       \
    sum = (sum & arrives) + (stored & stays);                                                      \
    sum_##i.write(buffer, sum);                                                                    \
    magnitudes = magnitudes | (sum ^ (0 - (sum >> 31)));
// sml_rounded(): what became 2^(width - 1) does not fit.
#define ROUND(kind, type, i)                                                                       \
    sum_##i.read(sum, buffer);                                                                     \
    sum = sum + half + ((sum >> shift) & odd);                                                     \
    hdr.kind.e##i = (type)((sum >> shift) - ((sum >> (shift + width - 1)) & ~(sum >> 31) & 1));
#define ADD_INT8(i) ADD(int8, i)
#define ADD_INT16(i) ADD(int16, i)
#define ROUND_INT8(i) ROUND(int8, bit<8>, i)
#define ROUND_INT16(i) ROUND(int16, bit<16>, i)

// An action for each 8 elements, because p4c puts the expression that a variable has within an action
// wherever it is used, and the one of `magnitudes` grows with each element.
#define ACTIONS_OF_8(kind, KIND, d)                                                                \
    action add_##kind##_##d() {                                                                    \
        EACH_8(ADD_##KIND, d)                                                                      \
    }                                                                                              \
    action round_##kind##_##d() {                                                                  \
        EACH_8(ROUND_##KIND, d)                                                                    \
    }
#define ACTIONS_OF_BLOCK(kind, KIND, n)                                                            \
    ACTIONS_OF_8(kind, KIND, n##0) ACTIONS_OF_8(kind, KIND, n##1) ACTIONS_OF_8(kind, KIND, n##2)   \
    ACTIONS_OF_8(kind, KIND, n##3) ACTIONS_OF_8(kind, KIND, n##4) ACTIONS_OF_8(kind, KIND, n##5)   \
    ACTIONS_OF_8(kind, KIND, n##6) ACTIONS_OF_8(kind, KIND, n##7)
#define ACTIONS_OF_INT8(n) ACTIONS_OF_BLOCK(int8, INT8, n)
#define ACTIONS_OF_INT16(n) ACTIONS_OF_BLOCK(int16, INT16, n)

#define CALL_8(what, n)                                                                            \
    what##_##n##0(); what##_##n##1(); what##_##n##2(); what##_##n##3();                            \
    what##_##n##4(); what##_##n##5(); what##_##n##6(); what##_##n##7();
#define STEP_OF_BLOCK(kind, n)                                                                     \
    begin_block(SHIFT_OF(hdr.kind.s##n));                                                          \
    CALL_8(add_##kind, n)                                                                          \
    if (ends) {                                                                                    \
        find_shift.apply(magnitudes, width, shift);                                                \
        prepare();                                                                                 \
        CALL_8(round_##kind, n)                                                                    \
        hdr.kind.s##n = shift;                                                                     \
    }
#define STEP_OF_INT8_BLOCK(n) STEP_OF_BLOCK(int8, n)
#define STEP_OF_INT16_BLOCK(n) STEP_OF_BLOCK(int16, n)

// ends: the sums are complete, and are rounded.
control Sums(inout headers_t hdr, in bit<32> buffer, in bit<8> step, in bool ends) {
    EACH_INT8_BLOCK(SUM_REGISTERS)
    FindShift() find_shift;
    bit<32> stored;
    bit<32> sum;
    bit<32> sign;
    bit<32> arrives; // all bits, or none
    bit<32> stays;
    bit<32> magnitudes;
    bit<32> half;
    bit<32> odd;
    bit<8> shift;
    bit<8> width;

    action begin(in bit<8> bits) {
        width = bits;
        sign = 32w1 << (bits - 1);
        arrives = step == STEP_LOAD ? 32w0 : 32w0xffffffff;
        stays = step == STEP_STORE ? 32w0 : 32w0xffffffff;
    }

    action begin_block(in bit<8> sent) {
        shift = sent;
        magnitudes = 0;
    }

    EACH_INT8_BLOCK(ACTIONS_OF_INT8)
#ifdef SML_ROUNDS_INT16
    EACH_INT16_BLOCK(ACTIONS_OF_INT16)
#endif

    action prepare() {
        half = shift == 0 ? 32w0 : (32w1 << (shift - 1)) - 1;
        odd = shift == 0 ? 32w0 : 32w1;
    }

    apply {
#ifdef SML_ROUNDS_INT16
        if (hdr.int16.isValid()) {
            begin(16);
            EACH_INT16_BLOCK(STEP_OF_INT16_BLOCK)
            hdr.int16.rest = 0;
        } else
#endif
        if (hdr.int8.isValid()) {
            begin(8);
            EACH_INT8_BLOCK(STEP_OF_INT8_BLOCK)
            hdr.int8.rest = 0;
        }
    }
}

#endif

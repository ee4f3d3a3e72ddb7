/* SPDX-License-Identifier: BSD-3-Clause */
/* How far the sums of a block are shifted: sml_find_rounding() of core/rounding.h. */
#ifndef SML_P4_SHIFT
#define SML_P4_SHIFT

// Of sums with these magnitudes (sml_rounded_magnitude(), by "or"), into lanes of `width` bits.
control FindShift(in bit<32> magnitudes, in bit<8> width, out bit<8> shift) {
    bit<32> rest;
    bit<8> place; // of the highest bit

    action begin() {
        rest = magnitudes | ((32w1 << (width - 1)) - 1);
        place = 0;
    }

    action skip(in bit<8> bits) {
        rest = rest >> bits;
        place = place + bits;
    }

    action finish() {
        shift = place - (width - 2);
    }

    apply {
        begin();
        if (rest > 0xffff) {
            skip(16);
        }
        if (rest > 0xff) {
            skip(8);
        }
        if (rest > 0xf) {
            skip(4);
        }
        if (rest > 3) {
            skip(2);
        }
        if (rest > 1) {
            skip(1);
        }
        finish();
    }
}

#endif

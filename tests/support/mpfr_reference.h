/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference of sums of floats: MPFR's. */
#ifndef SML_TESTS_MPFR_REFERENCE_H
#define SML_TESTS_MPFR_REFERENCE_H

#include <mpfr.h>

#include "switchml.h"

/* By type. MPFR's numbers lie in [2^(lowest - 1), 2^highest). */
static const struct {
	int bits, lowest, highest;
} formats[] = {[SML_FLOAT32] = {24, -148, 128},
	       [SML_FLOAT16] = {11, -23, 16},
	       [SML_BFLOAT16] = {8, -132, 128},
	       [SML_FLOAT64] = {53, -1073, 1024}};

/* sum / divisor, rounded once to the type. */
static inline double rounded_once(enum sml_type type, mpfr_t sum, unsigned divisor)
{
	mpfr_exp_t lowest = mpfr_get_emin(), highest = mpfr_get_emax();
	mpfr_t result;
	double value;
	int way;

	mpfr_init2(result, formats[type].bits);
	mpfr_set_emin(formats[type].lowest);
	mpfr_set_emax(formats[type].highest);
	way = mpfr_div_ui(result, sum, divisor, MPFR_RNDN);
	way = mpfr_check_range(result, way, MPFR_RNDN);
	mpfr_subnormalize(result, way, MPFR_RNDN);
	value = mpfr_get_d(result, MPFR_RNDN);
	mpfr_set_emin(lowest);
	mpfr_set_emax(highest);
	mpfr_clear(result);
	return value;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The reference of sums of floats: MPFR's. */
#ifndef SML_TESTS_MPFR_REFERENCE_H
#define SML_TESTS_MPFR_REFERENCE_H

#include <mpfr.h>

/* sum / divisor, rounded once to a type: its bits, and its lowest and highest exponent. */
static inline double rounded_once(mpfr_prec_t bits, mpfr_exp_t type_lowest, mpfr_exp_t type_highest,
				  mpfr_t sum, unsigned divisor)
{
	mpfr_exp_t lowest = mpfr_get_emin(), highest = mpfr_get_emax();
	mpfr_t result;
	double value;
	int way;

	mpfr_init2(result, bits);
	mpfr_set_emin(type_lowest);
	mpfr_set_emax(type_highest);
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

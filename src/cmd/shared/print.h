/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers for people. */
#ifndef SML_CMD_SHARED_PRINT_H
#define SML_CMD_SHARED_PRINT_H

/* 0 where the value would be printed as -0.0. unit: 1 in the last digit, as 0.1. */
static inline double sml_without_minus_zero(double value, double unit)
{
	return value < 0 && value >= -unit / 2 ? 0 : value;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The elements of test tensors, in any type, and their results. */
#ifndef SML_TESTS_ELEMENTS_H
#define SML_TESTS_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switchml.h"

/* Element i of a rank: small whole numbers, which every type holds exactly. */
int element_value(int rank, size_t i, unsigned salt);

void element_put(void *buffer, enum sml_type type, size_t i, int value);
double element_get(const void *buffer, enum sml_type type, size_t i);

/* All n elements get this value; do they have it? */
void elements_fill(int32_t *data, size_t n, int32_t value);
bool elements_are(const int32_t *data, size_t n, int32_t value);

/* Element i of all n ranks combined, in double precision. */
double element_expected(int n, enum sml_type type, enum sml_op op, size_t i, unsigned salt);

/*
 * Half a step of the wire for each rank, plus the rounding to the type. Elements are at most
 * 100.
 */
double element_tolerance(int n, enum sml_type type, enum sml_op op, enum sml_wire wire);

#endif

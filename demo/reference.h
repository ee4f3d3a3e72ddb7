/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The correct gradient: the same perceptron in float64. It also gives, for every element, a
 * bound on the error of any float32 computation.
 *
 * What to remember: the bound is a theorem, not a tolerance. It holds for any order of the
 * sums, so it also holds for sums over shards. reference.c derives it.
 */
#ifndef SML_DEMO_REFERENCE_H
#define SML_DEMO_REFERENCE_H

#include "demo/model.h"

/*
 * The gradient of the mean loss of these rows at the model's parameters, and its error
 * bound. Both have the layout of the model's gradient. The model does not change. Returns 0
 * or -ENOMEM.
 */
int demo_reference_compute(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows, double *gradient, double *bound);

/* Only the mean loss, for a finite difference. NaN: no memory. */
double demo_reference_loss(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a gradient should be: the same perceptron in float64, and with it, for
 * every element, how far any float32 computation of it may be off.
 *
 * What to remember: the bound is a theorem, not a tolerance. It holds for any
 * order of the sums, so also for sums over shards; reference.c derives it.
 */
#ifndef SML_DEMO_REFERENCE_H
#define SML_DEMO_REFERENCE_H

#include "demo/model.h"

/*
 * The gradient of the mean loss of these rows at the model's parameters, and
 * the bound, both laid out as the model's gradient. The model is not changed.
 * Returns 0 or -ENOMEM.
 */
int demo_reference_compute(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows, double *gradient, double *bound);

/* The mean loss alone: what a finite difference needs. NaN: no memory. */
double demo_reference_loss(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows);

#endif

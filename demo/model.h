/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A multi-layer perceptron in float32: ReLU between the layers, softmax and cross entropy at
 * the end, stochastic gradient descent with momentum. It knows nothing of ranks. A callback
 * tells when a layer's gradient is ready to be sent.
 *
 * Parameters, gradient and velocity are one array each. A layer's part of each array is its
 * weights (n_in rows of n_out), then its n_out biases:
 *
 *	| W0 ... | b0 | W1 ... | b1 | ...
 *	^ layers[0].offset, .count
 */
#ifndef SML_DEMO_MODEL_H
#define SML_DEMO_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define DEMO_MAX_LAYERS 4

struct demo_layer {
	int n_in, n_out;
	size_t offset, count;
};

struct demo_model {
	int n_layers;
	int max_rows; /* the largest number for one forward pass */
	size_t n_parameters;
	struct demo_layer layers[DEMO_MAX_LAYERS];
	float *parameters, *gradient, *velocity;
	float *outputs[DEMO_MAX_LAYERS]; /* after ReLU; for the last layer: logits */
	float *deltas[DEMO_MAX_LAYERS];	 /* derivatives of the loss by ReLU's inputs */
};

/*
 * sizes: n_layers + 1 numbers, pixels first. The parameters are drawn from the seed. Returns
 * 0 or -ENOMEM. demo_model_fini() also accepts a model that is all zeros.
 */
int demo_model_init(struct demo_model *model, const int *sizes, int n_layers, int max_rows,
		    uint64_t seed);
void demo_model_fini(struct demo_model *model);

/* Compute outputs from `rows` rows of layers[0].n_in pixels. */
void demo_model_forward(struct demo_model *model, const float *pixels, int rows);

/*
 * After a forward pass: returns the sum of the rows' losses. Stores the derivatives of
 * `scale` times that sum in the last deltas.
 */
double demo_model_loss(struct demo_model *model, const uint8_t *labels, int rows, float scale);

/* Called when a layer's part of the gradient is final. */
typedef void demo_ready_fn(void *context, int layer);

/* After a loss: computes the gradient, last layer first. ready may be NULL. */
void demo_model_backward(struct demo_model *model, const float *pixels, int rows,
			 demo_ready_fn *ready, void *context);

/* Update one layer with `gradient`, which has the same layout as the model's gradient. */
void demo_model_update(struct demo_model *model, int layer, const float *gradient, float rate,
		       float momentum);

/* The number of rows that the model recognizes. */
int demo_model_count_right(struct demo_model *model, const float *pixels, const uint8_t *labels,
			   int rows);

#endif

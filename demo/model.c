/* SPDX-License-Identifier: BSD-3-Clause */
/* The perceptron. CBLAS computes matrix products; all matrices are in row order. */
#include "demo/model.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/random.h"

/*
 * OpenBLAS only: use one thread. There is already one process per core, and threads that
 * started before a fork() do not exist in the child.
 */
void openblas_set_num_threads(int n) __attribute__((weak));

/* Uniform in +-sqrt(6 / n_in) (He): this keeps the size of activations from layer to layer. */
static void draw_parameters(struct demo_model *model, uint64_t seed)
{
	struct demo_random random = {seed};

	for (int l = 0; l < model->n_layers; l++) {
		const struct demo_layer *layer = &model->layers[l];
		float *weights = model->parameters + layer->offset;
		float width = sqrtf(6.0f / (float)layer->n_in);

		for (size_t i = 0; i < (size_t)layer->n_in * (size_t)layer->n_out; i++)
			weights[i] = width * demo_random_float(&random);
	}
}

static void lay_out(struct demo_model *model, const int *sizes)
{
	for (int l = 0; l < model->n_layers; l++) {
		struct demo_layer *layer = &model->layers[l];

		layer->n_in = sizes[l];
		layer->n_out = sizes[l + 1];
		layer->offset = model->n_parameters;
		layer->count = (size_t)(layer->n_in + 1) * (size_t)layer->n_out;
		model->n_parameters += layer->count;
	}
}

int demo_model_init(struct demo_model *model, const int *sizes, int n_layers, int max_rows,
		    uint64_t seed)
{
	*model = (struct demo_model){.n_layers = n_layers, .max_rows = max_rows};
	lay_out(model, sizes);
	model->parameters = calloc(model->n_parameters, sizeof(float));
	model->gradient = calloc(model->n_parameters, sizeof(float));
	model->velocity = calloc(model->n_parameters, sizeof(float));
	if (!model->parameters || !model->gradient || !model->velocity)
		goto err_free;
	for (int l = 0; l < n_layers; l++) {
		size_t count = (size_t)max_rows * (size_t)sizes[l + 1];

		model->outputs[l] = calloc(count, sizeof(float));
		model->deltas[l] = calloc(count, sizeof(float));
		if (!model->outputs[l] || !model->deltas[l])
			goto err_free;
	}
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
	draw_parameters(model, seed);
	return 0;

err_free:
	demo_model_fini(model);
	return -ENOMEM;
}

void demo_model_fini(struct demo_model *model)
{
	for (int l = 0; l < DEMO_MAX_LAYERS; l++) {
		free(model->outputs[l]);
		free(model->deltas[l]);
	}
	free(model->parameters);
	free(model->gradient);
	free(model->velocity);
	*model = (struct demo_model){0};
}

static void relu(float *values, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = values[i] > 0.0f ? values[i] : 0.0f;
}

void demo_model_forward(struct demo_model *model, const float *pixels, int rows)
{
	const float *input = pixels;

	for (int l = 0; l < model->n_layers; l++) {
		const struct demo_layer *layer = &model->layers[l];
		const float *weights = model->parameters + layer->offset;
		const float *biases = weights + (size_t)layer->n_in * (size_t)layer->n_out;
		size_t width = (size_t)layer->n_out;

		for (size_t row = 0; row < (size_t)rows; row++)
			memcpy(model->outputs[l] + row * width, biases, width * sizeof(float));
		cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, layer->n_out,
			    layer->n_in, 1.0f, input, layer->n_in, weights, layer->n_out, 1.0f,
			    model->outputs[l], layer->n_out);
		if (l < model->n_layers - 1)
			relu(model->outputs[l], (size_t)rows * width);
		input = model->outputs[l];
	}
}

/*
 * For one row: probabilities minus the truth, times scale. Returns the loss. The largest
 * logit is subtracted first. So no exponential overflows, and the sum is at least 1, so
 * there is no division by zero for any logits.
 */
static double softmax_row(const float *logits, int n, int label, float scale, float *delta)
{
	float largest = logits[0], sum = 0.0f;

	for (int i = 1; i < n; i++)
		largest = fmaxf(largest, logits[i]);
	for (int i = 0; i < n; i++) {
		delta[i] = expf(logits[i] - largest);
		sum += delta[i];
	}
	for (int i = 0; i < n; i++)
		delta[i] = scale * (delta[i] / sum - (i == label ? 1.0f : 0.0f));
	return (double)largest - (double)logits[label] + log((double)sum);
}

double demo_model_loss(struct demo_model *model, const uint8_t *labels, int rows, float scale)
{
	int last = model->n_layers - 1;
	int n = model->layers[last].n_out;
	double loss = 0;

	for (int row = 0; row < rows; row++)
		loss += softmax_row(model->outputs[last] + row * n, n, labels[row], scale,
				    model->deltas[last] + row * n);
	return loss;
}

/*
 * The gradient of a layer: weights get its inputs times its deltas, biases the sum of the
 * deltas.
 */
static void layer_gradient(struct demo_model *model, int l, const float *input, int rows)
{
	const struct demo_layer *layer = &model->layers[l];
	const float *delta = model->deltas[l];
	float *weights = model->gradient + layer->offset;
	float *biases = weights + (size_t)layer->n_in * (size_t)layer->n_out;

	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, layer->n_in, layer->n_out, rows, 1.0f,
		    input, layer->n_in, delta, layer->n_out, 0.0f, weights, layer->n_out);
	memset(biases, 0, (size_t)layer->n_out * sizeof(float));
	for (int row = 0; row < rows; row++) {
		for (int i = 0; i < layer->n_out; i++)
			biases[i] += delta[row * layer->n_out + i];
	}
}

/* The deltas of the layer below l: back through the weights, where ReLU let the value pass. */
static void pass_back(struct demo_model *model, int l, int rows)
{
	const struct demo_layer *layer = &model->layers[l];
	const float *outputs = model->outputs[l - 1];
	float *below = model->deltas[l - 1];

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, layer->n_in, layer->n_out, 1.0f,
		    model->deltas[l], layer->n_out, model->parameters + layer->offset, layer->n_out,
		    0.0f, below, layer->n_in);
	for (size_t i = 0; i < (size_t)rows * (size_t)layer->n_in; i++)
		below[i] = outputs[i] > 0.0f ? below[i] : 0.0f;
}

void demo_model_backward(struct demo_model *model, const float *pixels, int rows,
			 demo_ready_fn *ready, void *context)
{
	for (int l = model->n_layers - 1; l >= 0; l--) {
		layer_gradient(model, l, l > 0 ? model->outputs[l - 1] : pixels, rows);
		if (ready)
			ready(context, l);
		if (l > 0)
			pass_back(model, l, rows);
	}
}

void demo_model_update(struct demo_model *model, int layer, const float *gradient, float rate,
		       float momentum)
{
	size_t offset = model->layers[layer].offset;
	float *parameters = model->parameters + offset;
	float *velocity = model->velocity + offset;

	gradient += offset;
	for (size_t i = 0; i < model->layers[layer].count; i++) {
		velocity[i] = momentum * velocity[i] + gradient[i];
		parameters[i] -= rate * velocity[i];
	}
}

static int largest_of(const float *values, int n)
{
	int largest = 0;

	for (int i = 1; i < n; i++)
		largest = values[i] > values[largest] ? i : largest;
	return largest;
}

int demo_model_count_right(struct demo_model *model, const float *pixels, const uint8_t *labels,
			   int rows)
{
	int n = model->layers[model->n_layers - 1].n_out, right = 0;

	demo_model_forward(model, pixels, rows);
	for (int row = 0; row < rows; row++)
		right +=
			largest_of(model->outputs[model->n_layers - 1] + row * n, n) == labels[row];
	return right;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forward and backward in float64, each matrix with a companion that bounds
 * the float32 program's error element by element (a running error analysis;
 * Higham, Accuracy and Stability of Numerical Algorithms, section 3.3).
 *
 * Let u = 2^-24. A float32 sum of k products, in any order, with or without
 * fused operations, differs from the exact one by at most g(k) times the sum
 * of the products' sizes, g(k) = k u / (1 - k u) (Higham, 3.1). So, if the
 * program's A and D are off by at most eA and eD, its product A D is off by
 *
 *	|A| eD + eA (|D| + eD) + g (|A| + eA)(|D| + eD).
 *
 * ReLU does not change an error, except that the error becomes 0 where
 * z + eZ <= 0. In the backward pass, ReLU passes a gradient on or stops it.
 * Where |z| <= eZ, the program may have done either, so the error is as large
 * as the gradient that might have passed. The softmax is in softmax_row().
 * This file's own float64 errors are 2^-29 of those: one more unit in k covers
 * them. Results below float32's normal range may lose all their digits: adding
 * `tiny` to each sum's bound covers that.
 */
#include "demo/reference.h"

#include <cblas.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Units in addition to the k of the sum: alpha and beta of BLAS, bias, scaling, float64. */
#define SLACK 8

static const double unit = 0x1p-24;
static const double tiny = 0x1p-100;

/* Values, their error bounds, and memory for a product; rows x columns. */
struct matrix {
	double *value, *error;
};

struct work {
	const struct demo_model *model;
	int rows;
	double *memory, *next;
	struct matrix input, weights[DEMO_MAX_LAYERS];
	struct matrix outputs[DEMO_MAX_LAYERS]; /* before ReLU */
	struct matrix active[DEMO_MAX_LAYERS];	/* after ReLU */
	struct matrix deltas[DEMO_MAX_LAYERS];
	double *left, *right; /* large enough for any matrix */
};

static double growth(int k)
{
	double ku = (k + SLACK) * unit;

	return ku / (1 - ku);
}

static double *take(struct work *work, size_t count)
{
	double *memory = work->next;

	work->next += count;
	return memory;
}

static struct matrix take_matrix(struct work *work, size_t count)
{
	return (struct matrix){take(work, count), take(work, count)};
}

static int work_init(struct work *work, const struct demo_model *model, const float *pixels,
		     int rows)
{
	size_t n_input = (size_t)rows * (size_t)model->layers[0].n_in;
	size_t n_outputs = 0, largest = n_input;

	for (int l = 0; l < model->n_layers; l++) {
		size_t count = (size_t)rows * (size_t)model->layers[l].n_out;

		n_outputs += count;
		largest = count > largest ? count : largest;
		largest = model->layers[l].count > largest ? model->layers[l].count : largest;
	}
	*work = (struct work){.model = model, .rows = rows};
	work->memory = calloc(2 * (n_input + 3 * n_outputs + model->n_parameters + largest),
			      sizeof(double));
	if (!work->memory)
		return -ENOMEM;
	work->next = work->memory;
	work->input = take_matrix(work, n_input);
	for (size_t i = 0; i < n_input; i++)
		work->input.value[i] = (double)pixels[i];
	for (int l = 0; l < model->n_layers; l++) {
		const struct demo_layer *layer = &model->layers[l];
		size_t count = (size_t)rows * (size_t)layer->n_out;

		work->outputs[l] = take_matrix(work, count);
		work->active[l] = take_matrix(work, count);
		work->deltas[l] = take_matrix(work, count);
		work->weights[l] = take_matrix(work, layer->count);
		for (size_t i = 0; i < layer->count; i++)
			work->weights[l].value[i] = (double)model->parameters[layer->offset + i];
	}
	work->left = take(work, largest);
	work->right = take(work, largest);
	return 0;
}

/* a |value| + b error, for each element. */
static const double *blend(double *to, struct matrix m, size_t count, double a, double b)
{
	for (size_t i = 0; i < count; i++)
		to[i] = a * fabs(m.value[i]) + b * m.error[i];
	return to;
}

/* c += a b; a is m x k, b is k x n, each after transposition if requested. */
static void multiply(int a_turned, int b_turned, int m, int n, int k, const double *a,
		     const double *b, double *c)
{
	cblas_dgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
		    b_turned ? CblasTrans : CblasNoTrans, m, n, k, 1.0, a, a_turned ? m : k, b,
		    b_turned ? k : n, 1.0, c, n);
}

static void relu(struct work *work, int l, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double z = work->outputs[l].value[i], error = work->outputs[l].error[i];

		work->active[l].value[i] = z > 0 ? z : 0;
		work->active[l].error[i] = z + error > 0 ? error : 0;
	}
}

static void forward(struct work *work)
{
	struct matrix input = work->input;

	for (int l = 0; l < work->model->n_layers; l++) {
		const struct demo_layer *layer = &work->model->layers[l];
		size_t n = (size_t)layer->n_out, n_weights = (size_t)layer->n_in * n;
		size_t n_inputs = (size_t)work->rows * (size_t)layer->n_in;
		const double *biases = work->weights[l].value + n_weights;
		double g = growth(layer->n_in);

		for (size_t i = 0; i < (size_t)work->rows * n; i++) {
			work->outputs[l].value[i] = biases[i % n];
			work->outputs[l].error[i] = g * fabs(biases[i % n]) + tiny;
		}
		multiply(0, 0, work->rows, layer->n_out, layer->n_in, input.value,
			 work->weights[l].value, work->outputs[l].value);
		multiply(0, 0, work->rows, layer->n_out, layer->n_in,
			 blend(work->left, input, n_inputs, g, 1 + g),
			 blend(work->right, work->weights[l], n_weights, 1, 0),
			 work->outputs[l].error);
		relu(work, l, (size_t)work->rows * n);
		input = work->active[l];
	}
}

/*
 * The deltas of one row, (p - truth) / rows. If the logits' errors are at most e, each p
 * changes by a factor between exp(-2e) and exp(2e). The subtraction before exp() adds u
 * times its result's size, which is at most `range`. exp() itself (assumed good to 4 u), the
 * sum and the division add units. Then p - truth and the scaling round once each, and the
 * scale itself was rounded.
 */
static double softmax_row(const double *z, const double *error, int n, int label, int rows,
			  double *delta, double *delta_error)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the caller's array exists */
	double largest = z[0], smallest = z[0], worst = error[0], sum = 0;

	for (int i = 1; i < n; i++) {
		largest = fmax(largest, z[i]);
		smallest = fmin(smallest, z[i]);
		worst = fmax(worst, error[i]);
	}
	for (int i = 0; i < n; i++)
		sum += exp(z[i] - largest);
	for (int i = 0; i < n; i++) {
		double range = largest - smallest + 2 * worst;
		double p = exp(z[i] - largest) / sum, truth = i == label ? 1 : 0;
		double p_error = p * expm1(2 * worst + (2 * range + n + 2 * SLACK) * unit) + tiny;

		delta[i] = (p - truth) / rows;
		delta_error[i] = (p_error + growth(3) * (fabs(p - truth) + p_error)) / rows;
	}
	return largest - z[label] + log(sum);
}

static double softmax(struct work *work, const uint8_t *labels)
{
	int last = work->model->n_layers - 1;
	int n = work->model->layers[last].n_out;
	double loss = 0;

	for (int row = 0; row < work->rows; row++)
		loss += softmax_row(work->outputs[last].value + row * n,
				    work->outputs[last].error + row * n, n, labels[row], work->rows,
				    work->deltas[last].value + row * n,
				    work->deltas[last].error + row * n);
	return loss / work->rows;
}

/* Layer l's part of the gradient. Value and bound start as zeros. */
static void layer_gradient(struct work *work, int l, double *value, double *bound)
{
	const struct demo_layer *layer = &work->model->layers[l];
	struct matrix input = l > 0 ? work->active[l - 1] : work->input, delta = work->deltas[l];
	size_t n_inputs = (size_t)work->rows * (size_t)layer->n_in;
	size_t n = (size_t)layer->n_out, n_deltas = (size_t)work->rows * n;
	size_t n_weights = (size_t)layer->n_in * n;
	double g = growth(work->rows);

	multiply(1, 0, layer->n_in, layer->n_out, work->rows, input.value, delta.value, value);
	multiply(1, 0, layer->n_in, layer->n_out, work->rows,
		 blend(work->left, input, n_inputs, g, 1 + g),
		 blend(work->right, delta, n_deltas, 1, 1), bound);
	multiply(1, 0, layer->n_in, layer->n_out, work->rows,
		 blend(work->left, input, n_inputs, 1, 0),
		 blend(work->right, delta, n_deltas, 0, 1), bound);
	for (size_t i = 0; i < n_deltas; i++) {
		double size = fabs(delta.value[i]), error = delta.error[i];

		value[n_weights + i % n] += delta.value[i];
		bound[n_weights + i % n] += error + g * (size + error);
	}
	for (size_t i = 0; i < layer->count; i++)
		bound[i] += tiny;
}

static void pass_back(struct work *work, int l)
{
	const struct demo_layer *layer = &work->model->layers[l];
	struct matrix above = work->deltas[l], below = work->deltas[l - 1];
	size_t n_above = (size_t)work->rows * (size_t)layer->n_out;
	size_t n_below = (size_t)work->rows * (size_t)layer->n_in;
	size_t n_weights = (size_t)layer->n_in * (size_t)layer->n_out;
	double g = growth(layer->n_out);

	multiply(0, 1, work->rows, layer->n_in, layer->n_out, above.value, work->weights[l].value,
		 below.value);
	multiply(0, 1, work->rows, layer->n_in, layer->n_out,
		 blend(work->left, above, n_above, g, 1 + g),
		 blend(work->right, work->weights[l], n_weights, 1, 0), below.error);
	for (size_t i = 0; i < n_below; i++) {
		double z = work->outputs[l - 1].value[i], doubt = work->outputs[l - 1].error[i];
		double passed = below.value[i];

		below.value[i] = z > 0 ? passed : 0;
		if (fabs(z) <= doubt)
			below.error[i] += fabs(passed) + tiny;
		else
			below.error[i] = z > 0 ? below.error[i] + tiny : 0;
	}
}

int demo_reference_compute(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows, double *gradient, double *bound)
{
	struct work work;

	if (work_init(&work, model, pixels, rows) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < model->n_parameters; i++)
		gradient[i] = bound[i] = 0;
	forward(&work);
	softmax(&work, labels);
	for (int l = model->n_layers - 1; l >= 0; l--) {
		size_t offset = model->layers[l].offset;

		layer_gradient(&work, l, gradient + offset, bound + offset);
		if (l > 0)
			pass_back(&work, l);
	}
	free(work.memory);
	return 0;
}

double demo_reference_loss(const struct demo_model *model, const float *pixels,
			   const uint8_t *labels, int rows)
{
	struct work work;
	double loss;

	if (work_init(&work, model, pixels, rows) < 0)
		return (double)NAN;
	forward(&work);
	loss = softmax(&work, labels);
	free(work.memory);
	return loss;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The demo's model: the gradient is the loss's slope, on one rank and on several. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/data.h"
#include "demo/model.h"
#include "demo/random.h"
#include "support/test.h"

#define LAYERS 3
static const int small_sizes[LAYERS + 1] = {DEMO_PIXELS, 9, 7, DEMO_CLASSES};

static struct demo_digits digits;
static struct demo_model model;

static void load_digits(void)
{
	assert_int_equal(demo_digits_load(&digits), 0);
}

static void end(void)
{
	demo_model_fini(&model);
}

TEST_WITH(softmax_bears_any_logits, NULL, end)
{
	static const float sizes[] = {0, 1, 88, 89, 1e4f, 1e30f};
	uint8_t label = 3;

	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, 1, 1), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		float *logits = model.outputs[LAYERS - 1], *deltas = model.deltas[LAYERS - 1];
		double loss, sum = 0;

		for (int digit = 0; digit < DEMO_CLASSES; digit++)
			logits[digit] = digit == 5 ? sizes[i] : -sizes[i];
		loss = demo_model_loss(&model, &label, 1, 1);
		assert_true(isfinite(loss) && loss >= 2 * (double)sizes[i]);
		for (int digit = 0; digit < DEMO_CLASSES; digit++) {
			assert_true(isfinite(deltas[digit]));
			assert_true(digit == label ? deltas[digit] < 0 : deltas[digit] >= 0);
			sum += (double)deltas[digit];
		}
		assert_true(fabs(sum) < 1e-6);
	}
}

/* Random values for all parameters: with biases of zero, their gradient would hardly be tested. */
static void draw_biases(void)
{
	struct demo_random random = {11};

	for (int l = 0; l < model.n_layers; l++) {
		const struct demo_layer *layer = &model.layers[l];
		size_t n_out = (size_t)layer->n_out;

		for (size_t i = layer->count - n_out; i < layer->count; i++)
			model.parameters[layer->offset + i] = 0.1f * demo_random_float(&random);
	}
}

/* The mean loss of the first rows at the model's parameters. */
static double loss_of(int rows)
{
	demo_model_forward(&model, digits.pixels[0], rows);
	return demo_model_loss(&model, digits.labels, rows, 1.0f / (float)rows) / rows;
}

/*
 * Central differences: their error is that of float32's loss, 2^-24 of about 3, over the step.
 * With a larger step, ReLUs switch within it.
 */
TEST_WITH(gradient_is_the_loss_s_slope, NULL, end)
{
	enum { ROWS = 20 };
	const float step = 0x1p-12f;
	double worst = 0, largest = 0;

	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, ROWS, 5), 0);
	draw_biases();
	loss_of(ROWS);
	demo_model_backward(&model, digits.pixels[0], ROWS, NULL, NULL);
	for (size_t i = 0; i < model.n_parameters; i++) {
		float middle = model.parameters[i];
		double rise;

		model.parameters[i] = middle + step;
		rise = loss_of(ROWS);
		model.parameters[i] = middle - step;
		rise -= loss_of(ROWS);
		model.parameters[i] = middle;
		worst = fmax(worst, fabs(rise / (2 * (double)step) - (double)model.gradient[i]));
		largest = fmax(largest, fabs((double)model.gradient[i]));
	}
	assert_true(worst < 0.01 * largest);
}

/* The gradient of the batch as n_shards ranks compute it, added. */
static void sum_shards(int n_shards, double *sums)
{
	memset(sums, 0, model.n_parameters * sizeof(double));
	for (int shard = 0; shard < n_shards; shard++) {
		int first, end;

		demo_shard(DEMO_BATCH_ROWS, shard, n_shards, &first, &end);
		demo_model_forward(&model, digits.pixels[first], end - first);
		demo_model_loss(&model, digits.labels + first, end - first, 1.0f / DEMO_BATCH_ROWS);
		demo_model_backward(&model, digits.pixels[first], end - first, NULL, NULL);
		for (size_t i = 0; i < model.n_parameters; i++)
			sums[i] += (double)model.gradient[i];
	}
}

TEST_WITH(shards_add_up_to_the_gradient_of_the_batch, NULL, end)
{
	double *whole, *sums;

	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, DEMO_BATCH_ROWS, 5), 0);
	draw_biases();
	whole = calloc(model.n_parameters, sizeof(double));
	sums = calloc(model.n_parameters, sizeof(double));
	sum_shards(1, whole);
	for (int n_shards = 2; n_shards <= 7; n_shards++) {
		sum_shards(n_shards, sums);
		for (size_t i = 0; i < model.n_parameters; i++)
			assert_true(fabs(sums[i] - whole[i]) < 1e-6);
	}
	free(whole);
	free(sums);
}

struct call_record {
	int n, layers[LAYERS];
};

static void record_call(void *context, int layer)
{
	struct call_record *record = context;

	assert_in_range(record->n, 0, LAYERS - 1);
	record->layers[record->n++] = layer;
}

TEST_WITH(layers_are_ready_from_the_last_to_the_first, NULL, end)
{
	struct call_record all = {0};

	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, 4, 1), 0);
	demo_model_forward(&model, digits.pixels[0], 4);
	demo_model_loss(&model, digits.labels, 4, 1);
	demo_model_backward(&model, digits.pixels[0], 4, record_call, &all);
	assert_int_equal(all.n, LAYERS);
	for (int i = 0; i < LAYERS; i++)
		assert_int_equal(all.layers[i], LAYERS - 1 - i);
}

TESTS_BETWEEN(load_digits, NULL)

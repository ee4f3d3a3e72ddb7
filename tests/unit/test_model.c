/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The demo's model: the gradient is correct. float64 is compared with finite differences,
 * and float32 with float64, within the bound that the proofs use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/data.h"
#include "demo/model.h"
#include "demo/random.h"
#include "demo/reference.h"

#define LAYERS 3
static const int small_sizes[LAYERS + 1] = {DEMO_PIXELS, 9, 7, DEMO_CLASSES};
static const int demo_sizes[LAYERS + 1] = {DEMO_PIXELS, 512, 512, DEMO_CLASSES};

static struct demo_digits digits;

static int load_digits(void **state)
{
	(void)state;
	return demo_digits_load_own(&digits);
}

static void softmax_bears_any_logits(void **state)
{
	static const float sizes[] = {0, 1, 88, 89, 1e4f, 1e30f};
	struct demo_model model;
	uint8_t label = 3;

	(void)state;
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
	demo_model_fini(&model);
}

/* Random values for all parameters: with biases of zero, their gradient would hardly be tested. */
static void draw_biases(struct demo_model *model)
{
	struct demo_random random = {11};

	for (int l = 0; l < model->n_layers; l++) {
		const struct demo_layer *layer = &model->layers[l];
		size_t n_out = (size_t)layer->n_out;

		for (size_t i = layer->count - n_out; i < layer->count; i++)
			model->parameters[layer->offset + i] = 0.1f * demo_random_float(&random);
	}
}

static void reference_gradient_is_the_loss_s_slope(void **state)
{
	enum { ROWS = 20 };
	struct demo_model model;
	double *gradient, *bound;

	(void)state;
	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, ROWS, 5), 0);
	draw_biases(&model);
	gradient = calloc(model.n_parameters, sizeof(double));
	bound = calloc(model.n_parameters, sizeof(double));
	assert_int_equal(demo_reference_compute(&model, digits.pixels[0], digits.labels, ROWS,
						gradient, bound),
			 0);
	for (size_t i = 0; i < model.n_parameters; i++) {
		float middle = model.parameters[i], high = middle + 0x1p-14f,
		      low = middle - 0x1p-14f;
		double rise;

		model.parameters[i] = high;
		rise = demo_reference_loss(&model, digits.pixels[0], digits.labels, ROWS);
		model.parameters[i] = low;
		rise -= demo_reference_loss(&model, digits.pixels[0], digits.labels, ROWS);
		model.parameters[i] = middle;
		assert_true(fabs(rise / ((double)high - (double)low) - gradient[i]) < 1e-6);
	}
	free(gradient);
	free(bound);
	demo_model_fini(&model);
}

struct comparison {
	struct demo_model model;
	double *reference, *bound, *sums;
};

/* The result of n_shards ranks in float32, averaged in float64. */
static void sum_shards(struct comparison *c, int rows, int n_shards)
{
	struct demo_model *model = &c->model;

	memset(c->sums, 0, model->n_parameters * sizeof(double));
	for (int shard = 0; shard < n_shards; shard++) {
		int first, end;

		demo_shard(rows, shard, n_shards, &first, &end);
		demo_model_forward(model, digits.pixels[first], end - first);
		demo_model_loss(model, digits.labels + first, end - first,
				(float)n_shards / (float)rows);
		demo_model_backward(model, digits.pixels[first], end - first, NULL, NULL);
		for (size_t i = 0; i < model->n_parameters; i++)
			c->sums[i] += (double)model->gradient[i] / n_shards;
	}
}

static double worst_ratio(const struct comparison *c)
{
	double worst = 0;

	for (size_t i = 0; i < c->model.n_parameters; i++)
		worst = fmax(worst, fabs(c->sums[i] - c->reference[i]) / c->bound[i]);
	return worst;
}

static void comparison_init(struct comparison *c, const int *sizes)
{
	assert_int_equal(demo_model_init(&c->model, sizes, LAYERS, DEMO_BATCH_ROWS, 5), 0);
	draw_biases(&c->model);
	c->reference = calloc(c->model.n_parameters, sizeof(double));
	c->bound = calloc(c->model.n_parameters, sizeof(double));
	c->sums = calloc(c->model.n_parameters, sizeof(double));
	assert_int_equal(demo_reference_compute(&c->model, digits.pixels[0], digits.labels,
						DEMO_BATCH_ROWS, c->reference, c->bound),
			 0);
}

static void comparison_fini(struct comparison *c)
{
	free(c->reference);
	free(c->bound);
	free(c->sums);
	demo_model_fini(&c->model);
}

static void float32_gradients_keep_the_bound_however_sharded(void **state)
{
	struct comparison c;

	(void)state;
	comparison_init(&c, demo_sizes);
	for (int n_shards = 1; n_shards <= 7; n_shards += 3) {
		sum_shards(&c, DEMO_BATCH_ROWS, n_shards);
		assert_true(worst_ratio(&c) <= 1);
	}
	comparison_fini(&c);
}

/* A bound that nothing exceeds would prove nothing. */
static void bound_notices_one_row_too_few(void **state)
{
	struct comparison c;

	(void)state;
	comparison_init(&c, demo_sizes);
	sum_shards(&c, DEMO_BATCH_ROWS - 1, 1);
	assert_true(worst_ratio(&c) > 10);
	comparison_fini(&c);
}

struct call_record {
	int n, layers[LAYERS], fail_at;
};

static int record_call(void *context, int layer)
{
	struct call_record *record = context;

	assert_in_range(record->n, 0, LAYERS - 1);
	record->layers[record->n++] = layer;
	return layer == record->fail_at ? -EIO : 0;
}

static void layers_are_ready_from_the_last_to_the_first(void **state)
{
	struct call_record all = {.fail_at = -1}, failing = {.fail_at = 1};
	struct demo_model model;

	(void)state;
	assert_int_equal(demo_model_init(&model, small_sizes, LAYERS, 4, 1), 0);
	demo_model_forward(&model, digits.pixels[0], 4);
	demo_model_loss(&model, digits.labels, 4, 1);
	assert_int_equal(demo_model_backward(&model, digits.pixels[0], 4, record_call, &all), 0);
	assert_int_equal(all.n, LAYERS);
	for (int i = 0; i < LAYERS; i++)
		assert_int_equal(all.layers[i], LAYERS - 1 - i);
	assert_int_equal(demo_model_backward(&model, digits.pixels[0], 4, record_call, &failing),
			 -EIO);
	assert_int_equal(failing.n, 2);
	demo_model_fini(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(softmax_bears_any_logits),
		cmocka_unit_test(reference_gradient_is_the_loss_s_slope),
		cmocka_unit_test(float32_gradients_keep_the_bound_however_sharded),
		cmocka_unit_test(bound_notices_one_row_too_few),
		cmocka_unit_test(layers_are_ready_from_the_last_to_the_first),
	};

	return cmocka_run_group_tests(tests, load_digits, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs S and C of solo.h. */
#include "demo/solo.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "demo/report.h"

/* Our difference may be this many times the control run's. */
#define DRIFT_FACTOR 10

/* One run with `shards` gradients per step. */
struct solo {
	struct demo_trainer *trainer;
	struct demo_model model;
	const char *name;
	int shards;
	bool rounds;  /* rounds as the wire does */
	double *sums; /* sums of the shards' gradients */
	float *parts; /* the shards' gradients, one after the other */
};

static int solo_init(struct solo *solo, struct demo_trainer *trainer, const char *name, int shards,
		     bool rounds)
{
	*solo = (struct solo){trainer, .name = name, .shards = shards, .rounds = rounds};
	if (demo_model_init(&solo->model, demo_sizes, DEMO_LAYERS, DEMO_BATCH_ROWS, DEMO_SEED) < 0)
		return -ENOMEM;
	solo->sums = calloc(solo->model.n_parameters, sizeof(double));
	solo->parts = calloc(solo->model.n_parameters * (size_t)shards, sizeof(float));
	return solo->sums && solo->parts ? 0 : -ENOMEM;
}

static void solo_fini(struct solo *solo)
{
	free(solo->sums);
	free(solo->parts);
	demo_model_fini(&solo->model);
}

/*
 * Compute one shard's gradient, multiplied by `shards`, as on a rank (train.c). Returns its
 * loss.
 */
static double shard_gradient(struct solo *solo, int step, int shard)
{
	struct demo_trainer *trainer = solo->trainer;
	float scale = (float)solo->shards / (float)DEMO_BATCH_ROWS;
	size_t n = solo->model.n_parameters;
	float *whole = solo->model.gradient;
	int first, end;
	double loss;

	demo_shard(DEMO_BATCH_ROWS, shard, solo->shards, &first, &end);
	demo_batches_copy(&trainer->batches, step, first, end, trainer->pixels, trainer->labels);
	demo_model_forward(&solo->model, trainer->pixels, end - first);
	loss = demo_model_loss(&solo->model, trainer->labels, end - first, scale);
	solo->model.gradient = solo->parts + (size_t)shard * n;
	demo_model_backward(&solo->model, trainer->pixels, end - first, NULL, NULL);
	solo->model.gradient = whole;
	return loss;
}

/*
 * The wire's rounding grid for a layer's gradients, made coarser so that one grid fits the
 * layer.
 */
static double grid_of(const struct solo *solo, const struct demo_layer *layer)
{
	int bits = solo->trainer->options->wire == SML_WIRE_INT16 ? 15 : 31;
	float largest = 0;
	int exponent;

	for (int shard = 0; shard < solo->shards; shard++) {
		const float *part =
			solo->parts + (size_t)shard * solo->model.n_parameters + layer->offset;

		for (size_t i = 0; i < layer->count; i++)
			largest = fabsf(part[i]) > largest ? fabsf(part[i]) : largest;
	}
	for (int ranks = 1; ranks < solo->shards; ranks *= 2)
		bits--;
	frexp((double)largest, &exponent);
	return ldexp(1, exponent - bits);
}

/* The mean of the shards' gradients of one layer, each rounded to the grid. */
static void average_layer(struct solo *solo, const struct demo_layer *layer)
{
	double grid = grid_of(solo, layer);
	double *sums = solo->sums + layer->offset;
	float *average = solo->model.gradient + layer->offset;

	for (size_t i = 0; i < layer->count; i++)
		sums[i] = 0;
	for (int shard = 0; shard < solo->shards; shard++) {
		const float *part =
			solo->parts + (size_t)shard * solo->model.n_parameters + layer->offset;

		for (size_t i = 0; i < layer->count; i++)
			sums[i] += rint((double)part[i] / grid);
	}
	for (size_t i = 0; i < layer->count; i++)
		average[i] = (float)(sums[i] * grid / solo->shards);
}

static double solo_step(struct solo *solo, int step)
{
	struct demo_model *model = &solo->model;
	double loss = 0;

	for (int shard = 0; shard < solo->shards; shard++)
		loss += shard_gradient(solo, step, shard);
	for (int l = model->n_layers - 1; l >= 0; l--) {
		const float *gradient = solo->rounds ? model->gradient : solo->parts;

		if (solo->rounds)
			average_layer(solo, &model->layers[l]);
		demo_model_update(model, l, gradient, DEMO_RATE, DEMO_MOMENTUM);
	}
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the model's arrays are freed with it */
	return loss / DEMO_BATCH_ROWS;
}

static int solo_train(struct solo *solo)
{
	int n_steps = solo->trainer->results.steps;

	for (int step = 0; step < n_steps; step++) {
		double loss = solo_step(solo, step);

		if (*solo->trainer->stop)
			return -EINTR;
		demo_progress(step == n_steps - 1, "%s, step %d/%d  loss %.4f", solo->name,
			      step + 1, n_steps, loss);
	}
	return 0;
}

/* The root mean square and the maximum of the parameters' differences. */
static double difference(const struct demo_model *a, const struct demo_model *b, double *largest)
{
	double sum = 0;

	*largest = 0;
	for (size_t i = 0; i < a->n_parameters; i++) {
		double d = fabs((double)a->parameters[i] - (double)b->parameters[i]);

		*largest = d > *largest ? d : *largest;
		sum += d * d;
	}
	return sqrt(sum / (double)a->n_parameters);
}

static void compare(struct demo_trainer *trainer, struct solo *alone, const struct solo *control)
{
	struct demo_results *results = &trainer->results;
	double drift = difference(&trainer->model, &alone->model, &results->drift_largest);
	double ignored;

	results->control_rms = difference(&control->model, &alone->model, &ignored);
	results->drift = (struct demo_check){0};
	demo_check_add(&results->drift, drift, DRIFT_FACTOR * results->control_rms);
	results->solo_accuracy = (double)demo_model_count_right(
					 &alone->model, trainer->digits.pixels[DEMO_TRAIN_ROWS],
					 trainer->digits.labels + DEMO_TRAIN_ROWS, DEMO_TEST_ROWS) /
				 DEMO_TEST_ROWS;
	results->solo = true;
}

int demo_solo_compare(struct demo_trainer *trainer)
{
	struct solo alone = {0}, control = {0};
	int status = solo_init(&alone, trainer, "alone, one process", 1, false);
	double began = demo_now();

	if (status == 0)
		status = solo_init(&control, trainer, "control run", trainer->world, true);
	if (status == 0)
		status = solo_train(&alone);
	trainer->results.solo_seconds = demo_now() - began;
	if (status == 0)
		status = solo_train(&control);
	if (status == 0)
		compare(trainer, &alone, &control);
	solo_fini(&control);
	solo_fini(&alone);
	return status;
}

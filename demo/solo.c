/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains in one process, and compares: see train.h. */
#include "demo/train.h"

#include <errno.h>
#include <math.h>

#include "demo/report.h"

/*
 * How far the parameters may drift, as a share of the way that training has moved them. Rounding
 * alone made it 0.009 with the int32 wire and 0.015 with int16 in 2,000 steps: now and then, a unit
 * that is zero for one of them is not for the other. Sums that lack a quarter of each gradient made
 * it 0.14 to 0.16, from 30 steps on.
 */
#define ALLOWED_DRIFT 0.05

static double solo_step(struct demo_trainer *trainer, struct demo_model *model, int step)
{
	double loss;

	demo_batches_copy(&trainer->batches, step, 0, DEMO_BATCH_ROWS, trainer->pixels,
			  trainer->labels);
	demo_model_forward(model, trainer->pixels, DEMO_BATCH_ROWS);
	loss = demo_model_loss(model, trainer->labels, DEMO_BATCH_ROWS, 1.0f / DEMO_BATCH_ROWS);
	demo_model_backward(model, trainer->pixels, DEMO_BATCH_ROWS, NULL, NULL);
	for (int l = model->n_layers - 1; l >= 0; l--)
		demo_model_update(model, l, model->gradient, DEMO_RATE, DEMO_MOMENTUM);
	return loss / DEMO_BATCH_ROWS;
}

static int solo_train(struct demo_trainer *trainer, struct demo_model *model)
{
	int n_steps = trainer->results.steps;

	for (int step = 0; step < n_steps; step++) {
		double loss = solo_step(trainer, model, step);

		if (*trainer->stop)
			return -EINTR;
		demo_progress(step == n_steps - 1, "alone, one process, step %d/%d  loss %.4f",
			      step + 1, n_steps, loss);
	}
	return 0;
}

/* The root mean square of the parameters' differences. */
static double difference(const struct demo_model *a, const struct demo_model *b)
{
	double sum = 0;

	for (size_t i = 0; i < a->n_parameters; i++) {
		double d = (double)a->parameters[i] - (double)b->parameters[i];

		sum += d * d;
	}
	return sqrt(sum / (double)a->n_parameters);
}

static void compare(struct demo_trainer *trainer, struct demo_model *alone,
		    const struct demo_model *start)
{
	struct demo_results *results = &trainer->results;
	const struct demo_digits *digits = &trainer->digits;

	results->drift = (struct demo_check){0};
	demo_check_add(&results->drift,
		       difference(&trainer->model, alone) / difference(alone, start),
		       ALLOWED_DRIFT);
	results->solo_accuracy =
		(double)demo_model_count_right(alone, digits->pixels[DEMO_TRAIN_ROWS],
					       digits->labels + DEMO_TRAIN_ROWS, DEMO_TEST_ROWS) /
		DEMO_TEST_ROWS;
	results->solo = true;
}

static int draw_model(struct demo_model *model)
{
	return demo_model_init(model, demo_sizes, DEMO_LAYERS, DEMO_BATCH_ROWS, DEMO_SEED);
}

int demo_solo_compare(struct demo_trainer *trainer)
{
	struct demo_model alone = {0}, start = {0};
	double began = demo_now();
	int status = draw_model(&alone) < 0 || draw_model(&start) < 0 ? -ENOMEM : 0;

	if (status == 0)
		status = solo_train(trainer, &alone);
	trainer->results.solo_seconds = demo_now() - began;
	if (status == 0)
		compare(trainer, &alone, &start);
	demo_model_fini(&start);
	demo_model_fini(&alone);
	return status;
}

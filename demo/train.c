/* SPDX-License-Identifier: BSD-3-Clause */
/* The training loop. train.h shows what a step looks like. */
#include "demo/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SEED	 20210412u
#define RATE	 0.05f
#define MOMENTUM 0.9f

static void must(const struct demo_trainer *trainer, const char *what, int status)
{
	if (status < 0)
		demo_die(what, sml_error_text(trainer->job));
}

void demo_draw_model(struct demo_model *model)
{
	static const int sizes[DEMO_LAYERS + 1] = {DEMO_PIXELS, 512, 512, DEMO_CLASSES};

	if (demo_model_init(model, sizes, DEMO_LAYERS, DEMO_TEST_ROWS, SEED) < 0)
		demo_die("the model", "no memory");
}

void demo_update(struct demo_model *model, int layer, const float *gradient)
{
	demo_model_update(model, layer, gradient, RATE, MOMENTUM);
}

float demo_compute(struct demo_trainer *trainer, struct demo_model *model, int step, int rank,
		   demo_ready_fn *ready)
{
	static float pixels[DEMO_BATCH_ROWS * DEMO_PIXELS];
	static uint8_t labels[DEMO_BATCH_ROWS];
	int first, end;
	double loss;

	demo_shard(DEMO_BATCH_ROWS, rank, trainer->world, &first, &end);
	demo_batches_copy(&trainer->batches, step, first, end, pixels, labels);
	demo_model_forward(model, pixels, end - first);
	loss = demo_model_loss(model, labels, end - first, 1.0f / DEMO_BATCH_ROWS);
	demo_model_backward(model, pixels, end - first, ready, trainer);
	return (float)(loss / DEMO_BATCH_ROWS);
}

/*
 * The command of bench/on-links prints two reports of tc, the link's outward direction first.
 * Without it, there is no such link. No rank continues before rank 0 has read its own counters.
 */
static void meter_link(struct demo_trainer *trainer, uint64_t sign)
{
	const char *command = getenv("ON_LINKS_COUNTERS");
	uint64_t *const found[] = {&trainer->sent, &trainer->received};
	uint64_t bytes;
	unsigned n = 0;
	char line[256];
	FILE *out;

	if (trainer->rank == 0 && command) {
		/* NOLINTNEXTLINE(cert-env33-c): bench/on-links started this program, too */
		out = popen(command, "re");
		while (out && fgets(line, sizeof(line), out)) {
			if (n < 2 && sscanf(line, " Sent %" SCNu64 " bytes", &bytes) == 1)
				*found[n++] += sign * bytes;
		}
		if (!out || pclose(out) != 0 || n != 2)
			demo_die("the counters of the link cannot be read with", command);
	}
	must(trainer, "barrier", sml_barrier(trainer->job, NULL, NULL));
}

/* Start to sum floats of all ranks. */
static void submit(struct demo_trainer *trainer, int request, const float *in, float *out,
		   size_t count)
{
	static const struct sml_options gradients = {.size = sizeof(gradients),
						     .wire = SML_WIRE_GRADIENT};

	if (trainer->gloo)
		demo_gloo_submit(trainer->gloo, request, in, out, count);
	else
		must(trainer, "all-reduce",
		     sml_allreduce(trainer->job, in, out, count, SML_FLOAT32, SML_SUM, &gradients,
				   &trainer->requests[request]));
}

/* A layer's gradient is ready: start its all-reduce, and continue the backward pass. */
static void submit_layer(void *context, int l)
{
	struct demo_trainer *trainer = context;
	const struct demo_layer *layer = &trainer->model.layers[l];

	if (l == DEMO_LAYERS - 1)
		trainer->reduce_began = demo_now();
	submit(trainer, l, trainer->model.gradient + layer->offset, trainer->sum + layer->offset,
	       layer->count);
}

static void wait_for(struct demo_trainer *trainer, int request)
{
	if (trainer->gloo)
		demo_gloo_wait(trainer->gloo, request);
	else
		must(trainer, "waiting for an all-reduce",
		     sml_wait(&trainer->requests[request], 1, -1, NULL));
}

static void train_step(struct demo_trainer *trainer, int step)
{
	double began = demo_now();

	trainer->loss = demo_compute(trainer, &trainer->model, step, trainer->rank, submit_layer);
	submit(trainer, DEMO_LAYERS, &trainer->loss, &trainer->loss, 1);
	for (int l = DEMO_LAYERS - 1; l >= 0; l--) {
		wait_for(trainer, l);
		if (l == 0)
			trainer->reducing += demo_now() - trainer->reduce_began;
		demo_update(&trainer->model, l, trainer->sum);
	}
	wait_for(trainer, DEMO_LAYERS);
	trainer->seconds += demo_now() - began;
}

static void show_progress(const struct demo_trainer *trainer, int n_steps)
{
	double bytes = 4.0 * (double)trainer->model.n_parameters * n_steps;

	demo_progress(
		n_steps == trainer->n_steps,
		"step %d/%d  loss %.4f  test %.1f %%  all-reduce %.0f %% of the time  %.1f MB/s",
		n_steps, trainer->n_steps, (double)trainer->loss, 100 * trainer->accuracy,
		100 * trainer->reducing / trainer->seconds, 1e-6 * bytes / trainer->reducing);
}

/* Every rank tests all test images: so they all need the same time, and send nothing. */
static void test(struct demo_trainer *trainer)
{
	int right =
		demo_model_count_right(&trainer->model, trainer->digits.pixels[DEMO_TRAIN_ROWS],
				       trainer->digits.labels + DEMO_TRAIN_ROWS, DEMO_TEST_ROWS);

	trainer->accuracy = (double)right / DEMO_TEST_ROWS;
}

/* A hash that is the least and the largest is everybody's. */
static void compare_ranks(struct demo_trainer *trainer)
{
	int64_t least, most;

	trainer->hash = (int64_t)demo_hash(trainer->model.parameters,
					   trainer->model.n_parameters * sizeof(float));
	must(trainer, "the least hash",
	     sml_allreduce(trainer->job, &trainer->hash, &least, 1, SML_INT64, SML_MIN, NULL,
			   NULL));
	must(trainer, "the largest hash",
	     sml_allreduce(trainer->job, &trainer->hash, &most, 1, SML_INT64, SML_MAX, NULL, NULL));
	trainer->same = least == most;
}

void demo_train(struct demo_trainer *trainer)
{
	struct demo_model *model = &trainer->model;

	if (demo_digits_load(&trainer->digits) < 0)
		demo_die("the digits", "damaged: build this program again");
	demo_digits_shuffle(&trainer->digits, SEED);
	trainer->batches = (struct demo_batches){.digits = &trainer->digits, .seed = SEED};
	demo_draw_model(model);
	trainer->sum = calloc(model->n_parameters, sizeof(float));
	if (!trainer->sum)
		demo_die("the sums", "no memory");
	/* All ranks have drawn the same parameters, but this makes sure, as in any training. */
	must(trainer, "broadcast of the parameters",
	     sml_broadcast(trainer->job, model->parameters, model->n_parameters, SML_FLOAT32, 0,
			   NULL, NULL));
	meter_link(trainer, (uint64_t)-1);
	for (int step = 0; step < trainer->n_steps; step++) {
		bool last = step == trainer->n_steps - 1;

		train_step(trainer, step);
		if (step == 0 || (step + 1) % DEMO_EPOCH_STEPS == 0 || last)
			test(trainer);
		if (trainer->rank == 0)
			show_progress(trainer, step + 1);
	}
	meter_link(trainer, 1);
	compare_ranks(trainer);
}

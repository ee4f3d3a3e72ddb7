/* SPDX-License-Identifier: BSD-3-Clause */
/* train.h says what is proved. This file says how. */
#include "demo/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/report.h"

/* The number of checked steps, including the first and the last. */
#define SAMPLES 5

bool demo_proof_due(int step, int n_steps)
{
	int stride = n_steps > SAMPLES ? (n_steps - 1) / (SAMPLES - 1) : 1;

	return step == n_steps - 1 || (step % stride == 0 && step / stride < SAMPLES - 1);
}

/*
 * The wire's numbers (docs/internals/numbers.md). Let E be the smallest integer with |x| < 2^E for
 * all inputs, as from frexp(). An input becomes the nearest multiple of q = 2^(E - B), where B is
 * 31 or 15 minus ceil(log2 n), so its error is at most q / 2. Inputs within q / 2 of 2^E may be
 * held below it, with an error of at most q. The sum of the n integers is exact, so the error of
 * the average is at most that of one input. A chunk has its own E, which is at most the tensor's.
 * If it is smaller, its q is at most half of ours, so even the error of inputs held below 2^E is at
 * most q / 2.
 */
static double wire_error_of(enum sml_wire wire, int n, double largest)
{
	int bits = wire == SML_WIRE_INT16 ? 15 : 31;
	int exponent;
	double quantum;

	if (largest == 0)
		return 0;
	for (int ranks = 1; ranks < n; ranks *= 2)
		bits--;
	frexp(largest, &exponent);
	quantum = ldexp(1, exponent - bits);
	return largest > ldexp(1, exponent) - quantum / 2 ? quantum : quantum / 2;
}

/*
 * By default, sums are exact where all switches add floats, and above hosts of several ranks, and
 * in trees, each of at most three levels rounds its parts of the sum to float32. These parts are at
 * most n times the largest input together, and so the average's error is below this.
 */
static double default_error_of(int n, double largest)
{
	double parts = 3 * 0x1p-24 * largest, integers = wire_error_of(SML_WIRE_INT32, n, largest);

	return parts > integers ? parts : integers;
}

/* Add the error of the final rounding to float32, and of the few float64 roundings before it. */
static double with_rounding(double wire_error, double average)
{
	return wire_error + (0x1p-24 + 0x1p-50) * (fabs(average) + wire_error) + 0x1p-149;
}

static double largest_of(const float *gradients, const struct demo_trainer *trainer,
			 const struct demo_layer *layer)
{
	double largest = 0;

	for (int rank = 0; rank < trainer->world; rank++) {
		const float *gradient =
			gradients + (size_t)rank * trainer->model.n_parameters + layer->offset;

		for (size_t i = 0; i < layer->count; i++)
			largest = fmax(largest, fabs((double)gradient[i]));
	}
	return largest;
}

/* gradients: those of all ranks, one after the other */
static void check_layer(struct demo_trainer *trainer, const struct demo_layer *layer,
			const float *gradients)
{
	enum sml_wire wire = trainer->options->wire;
	double largest = largest_of(gradients, trainer, layer);
	double wire_error = wire == SML_WIRE_DEFAULT ? default_error_of(trainer->world, largest)
						     : wire_error_of(wire, trainer->world, largest);
	size_t n = trainer->model.n_parameters;

	for (size_t i = layer->offset; i < layer->offset + layer->count; i++) {
		double mean = 0;

		for (int rank = 0; rank < trainer->world; rank++)
			mean += (double)gradients[(size_t)rank * n + i];
		mean /= trainer->world;
		demo_check_add(&trainer->results.sum, fabs((double)trainer->average[i] - mean),
			       with_rounding(wire_error, mean));
	}
}

int demo_proof_sums(struct demo_trainer *trainer)
{
	const struct demo_model *model = &trainer->model;
	size_t n = model->n_parameters;
	float *all = calloc(n * (size_t)trainer->world, sizeof(float));
	int status = -ENOMEM;

	if (all)
		status = demo_call(trainer, "all-gather of the gradients",
				   sml_allgather(trainer->job, model->gradient, all, n, SML_FLOAT32,
						 NULL, NULL));
	else
		demo_error(trainer->rank, "no memory to check the sums");
	if (status == 0) {
		/* A gather that corrupts bits proves nothing. */
		if (memcmp(all + (size_t)trainer->rank * n, model->gradient, n * sizeof(float)) !=
		    0)
			demo_check_add(&trainer->results.sum, (double)INFINITY, 0);
		for (int l = 0; l < model->n_layers; l++)
			check_layer(trainer, &model->layers[l], all);
		trainer->results.samples++;
	}
	free(all);
	return status;
}

int demo_proof_same(struct demo_trainer *trainer)
{
	uint64_t all[DEMO_MAX_WORKERS];
	uint64_t own =
		demo_hash(trainer->model.parameters, trainer->model.n_parameters * sizeof(float));
	int status = demo_call(
		trainer, "all-gather of the hashes",
		sml_allgather(trainer->job, &own, all, sizeof(own), SML_BYTE, NULL, NULL));

	trainer->results.hash = own;
	trainer->results.same = status == 0;
	for (int rank = 0; rank < trainer->world && status == 0; rank++)
		trainer->results.same &= all[rank] == own;
	return status;
}

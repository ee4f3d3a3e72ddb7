/* SPDX-License-Identifier: BSD-3-Clause */
/* proof.h says what is proved. This file says how. */
#include "demo/proof.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo/reference.h"
#include "demo/report.h"

/* The number of checked steps, including the first and the last. */
#define SAMPLES 5

int demo_proof_init(struct demo_proof *proof, const struct demo_trainer *trainer)
{
	size_t n = trainer->model.n_parameters;

	*proof = (struct demo_proof){0};
	proof->parameters = calloc(n, sizeof(float));
	proof->gathered = calloc(n * (size_t)trainer->world, sizeof(float));
	if (!proof->parameters || !proof->gathered)
		goto err_free;
	if (trainer->rank > 0)
		return 0;
	proof->reference = calloc(n, sizeof(double));
	proof->bound = calloc(n, sizeof(double));
	if (!proof->reference || !proof->bound)
		goto err_free;
	return 0;

err_free:
	demo_proof_fini(proof);
	return -ENOMEM;
}

void demo_proof_fini(struct demo_proof *proof)
{
	free(proof->parameters);
	free(proof->gathered);
	free(proof->reference);
	free(proof->bound);
	*proof = (struct demo_proof){0};
}

bool demo_proof_due(int step, int n_steps)
{
	int stride = n_steps > SAMPLES ? (n_steps - 1) / (SAMPLES - 1) : 1;

	return step == n_steps - 1 || (step % stride == 0 && step / stride < SAMPLES - 1);
}

void demo_proof_before(struct demo_proof *proof, const struct demo_trainer *trainer)
{
	memcpy(proof->parameters, trainer->model.parameters,
	       trainer->model.n_parameters * sizeof(float));
}

/*
 * The wire's numbers (docs/numbers.md). Let E be the smallest integer with |x| < 2^E for all
 * inputs, as from frexp(). An input becomes the nearest multiple of q = 2^(E - B), where B
 * is 31 or 15 minus ceil(log2 n), so its error is at most q / 2. Inputs within q / 2 of 2^E
 * may be held below it, with an error of at most q. The sum of the n integers is exact, so
 * the error of the average is at most that of one input. A chunk has its own E, which is at
 * most the tensor's. If it is smaller, its q is at most half of ours, so even the error of
 * inputs held below 2^E is at most q / 2.
 */
double demo_wire_error(enum sml_wire wire, int n, double largest)
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

/* Add the error of the final rounding to float32, and of the few float64 roundings before it. */
static double with_rounding(double wire_error, double average)
{
	return wire_error + (0x1p-24 + 0x1p-50) * (fabs(average) + wire_error) + 0x1p-149;
}

static double largest_gradient(const struct demo_proof *proof, const struct demo_trainer *trainer,
			       const struct demo_layer *layer)
{
	size_t n = trainer->model.n_parameters;
	double largest = 0;

	for (int rank = 0; rank < trainer->world; rank++) {
		const float *gradient = proof->gathered + (size_t)rank * n + layer->offset;

		for (size_t i = 0; i < layer->count; i++) {
			double size = fabs((double)gradient[i]);

			largest = size > largest ? size : largest;
		}
	}
	return largest;
}

static void check_sum(const struct demo_proof *proof, struct demo_trainer *trainer,
		      const struct demo_layer *layer, double wire_error)
{
	size_t n = trainer->model.n_parameters;

	for (size_t i = layer->offset; i < layer->offset + layer->count; i++) {
		double mean = 0;

		for (int rank = 0; rank < trainer->world; rank++)
			mean += (double)proof->gathered[(size_t)rank * n + i];
		mean /= trainer->world;
		demo_check_add(&trainer->results.sum, fabs((double)trainer->average[i] - mean),
			       with_rounding(wire_error, mean));
	}
}

static void check_batch(const struct demo_proof *proof, struct demo_trainer *trainer,
			const struct demo_layer *layer, double wire_error)
{
	for (size_t i = layer->offset; i < layer->offset + layer->count; i++) {
		double bound = with_rounding(wire_error + proof->bound[i], proof->reference[i]);

		demo_check_add(&trainer->results.batch,
			       fabs((double)trainer->average[i] - proof->reference[i]), bound);
	}
}

/* The gradient of the whole batch in float64, with the parameters from the start of the step. */
static int compute_reference(struct demo_proof *proof, struct demo_trainer *trainer, int step)
{
	struct demo_model before = trainer->model;

	before.parameters = proof->parameters;
	demo_batches_copy(&trainer->batches, step, 0, DEMO_BATCH_ROWS, trainer->pixels,
			  trainer->labels);
	return demo_reference_compute(&before, trainer->pixels, trainer->labels, DEMO_BATCH_ROWS,
				      proof->reference, proof->bound);
}

int demo_proof_after(struct demo_proof *proof, struct demo_trainer *trainer, int step)
{
	const struct demo_model *model = &trainer->model;
	size_t n = model->n_parameters;
	int status = demo_call(
		trainer, "all-gather of the gradients",
		sml_allgather(trainer->job, model->gradient, proof->gathered, n, SML_FLOAT32));

	if (status < 0)
		return status;
	/* A gather that corrupts bits proves nothing. */
	if (memcmp(proof->gathered + (size_t)trainer->rank * n, model->gradient,
		   n * sizeof(float)) != 0)
		demo_check_add(&trainer->results.sum, (double)INFINITY, 0);
	if (trainer->rank == 0 && compute_reference(proof, trainer, step) < 0) {
		demo_error(trainer->rank, "no memory for the reference");
		return -ENOMEM;
	}
	for (int l = 0; l < model->n_layers; l++) {
		const struct demo_layer *layer = &model->layers[l];
		double wire_error = demo_wire_error(trainer->options->wire, trainer->world,
						    largest_gradient(proof, trainer, layer));

		check_sum(proof, trainer, layer, wire_error);
		if (trainer->rank == 0)
			check_batch(proof, trainer, layer, wire_error);
	}
	trainer->results.samples++;
	return 0;
}

/* The hashes of all ranks' parameters: is any of them different from ours? */
static int compare_hashes(struct demo_trainer *trainer, bool *same)
{
	uint64_t all[DEMO_MAX_WORKERS];
	uint64_t own =
		demo_hash(trainer->model.parameters, trainer->model.n_parameters * sizeof(float));
	int status = demo_call(trainer, "all-gather of the hashes",
			       sml_allgather(trainer->job, &own, all, sizeof(own), SML_BYTE));

	trainer->results.hash = own;
	*same = status == 0;
	for (int rank = 0; rank < trainer->world && *same; rank++)
		*same = all[rank] == own;
	return status;
}

int demo_proof_same(struct demo_proof *proof, struct demo_trainer *trainer)
{
	const float *parameters = trainer->model.parameters;
	float *most = trainer->average, *least = proof->gathered;
	size_t n = trainer->model.n_parameters;
	struct demo_results *results = &trainer->results;
	int status = demo_call(
		trainer, "MAX of the parameters",
		sml_allreduce(trainer->job, parameters, most, n, SML_FLOAT32, SML_MAX, NULL));

	if (status == 0)
		status = demo_call(trainer, "MIN of the parameters",
				   sml_allreduce(trainer->job, parameters, least, n, SML_FLOAT32,
						 SML_MIN, NULL));
	if (status == 0)
		status = compare_hashes(trainer, &results->same);
	if (status < 0)
		return status;
	results->spread = 0;
	for (size_t i = 0; i < n; i++) {
		double spread = (double)most[i] - (double)least[i];

		/* A NaN stays a NaN. */
		if (spread > results->spread || isnan(spread))
			results->spread = spread;
		if (memcmp(&most[i], &parameters[i], sizeof(float)) != 0)
			results->same = false;
	}
	return 0;
}

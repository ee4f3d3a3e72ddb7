/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compute and communicate at the same time, as a training step does: each layer's gradient is
 * summed while the gradients of the layers before it are still being computed, and each layer
 * is updated as soon as its sum is there.
 *
 *	cc -o overlap examples/overlap.c $(pkg-config --cflags --libs switchml)
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <switchml.h>

#define LAYERS	 8
#define ELEMENTS 20000

struct layer {
	float weights[ELEMENTS], gradient[ELEMENTS];
};

/* In place of a backward pass. */
static void compute_gradient(struct layer *layer, int number, int rank)
{
	for (int i = 0; i < ELEMENTS; i++)
		layer->gradient[i] = (float)(number + 1) * (float)(rank + 1);
}

static void update(struct layer *layer)
{
	for (int i = 0; i < ELEMENTS; i++)
		layer->weights[i] -= 0.5f * layer->gradient[i];
}

static void step(struct sml_context *job, struct layer *layers, int rank)
{
	struct sml_options options = SML_OPTIONS_INIT;
	struct sml_request *requests[LAYERS];
	size_t done;

	options.wire = SML_WIRE_INT32;
	/* All ranks begin the calls in the same order, whenever they get there. */
	for (int n = LAYERS - 1; n >= 0; n--) {
		compute_gradient(&layers[n], n, rank);
		if (sml_allreduce(job, layers[n].gradient, layers[n].gradient, ELEMENTS,
				  SML_FLOAT32, SML_AVG, &options, &requests[n]) < 0)
			errx(1, "%s", sml_error_text(job));
	}
	/* The calls may end in any order. */
	for (int n = 0; n < LAYERS; n++) {
		if (sml_wait(requests, LAYERS, -1, &done) < 0)
			errx(1, "%s", sml_error_text(job));
		update(&layers[done]);
	}
}

int main(void)
{
	struct layer *layers = calloc(LAYERS, sizeof(*layers));
	struct sml_context *job;
	struct sml_info info = SML_INFO_INIT;

	if (layers == NULL)
		err(1, "no memory for the layers");
	if (sml_open(&job, NULL) < 0) /* rank, world size and switch from the environment */
		errx(1, "%s", sml_error_text(NULL));
	sml_get_info(job, &info);
	for (int n = 0; n < 10; n++)
		step(job, layers, info.rank);
	if (sml_close(job) < 0)
		errx(1, "the job could not be left in order");
	printf("rank %d: weights of the layers:", info.rank);
	for (int n = 0; n < LAYERS; n++)
		printf(" %g", layers[n].weights[ELEMENTS - 1]);
	printf("\n");
	free(layers);
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's part of the training. In each step, the rank's shard of the batch goes through
 * the forward and backward pass. The all-reduce of a layer's gradient starts as soon as the
 * gradient is ready, while the layers below are still computed. When sums arrive, the
 * layers are updated.
 *
 *	compute  forward | back 2 | back 1 | back 0 |    | step 2 | step 1 | step 0
 *	network                   |-- layer 2 --|
 *	                                   |------ layer 1 ------|
 *	                                            |--- layer 0 ---|
 *
 * What to remember: all ranks make the same calls of the library in the same order. A rank whose
 * call fails ends after an error line, and the others get an error that names it.
 */
#ifndef SML_DEMO_TRAIN_H
#define SML_DEMO_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "demo/data.h"
#include "demo/gloo.h"
#include "demo/model.h"
#include "switchml.h"

#define DEMO_LAYERS 3

struct demo_trainer {
	/* Options: see main.c. */
	int n_steps;
	const char *gloo_folder, *json;

	struct sml_context *job;
	struct demo_gloo *gloo; /* NULL if the job sums the gradients */
	enum sml_wire wire;
	int rank, world;
	struct demo_digits digits;
	struct demo_batches batches;
	struct demo_model model;
	float *sum; /* of all ranks' gradients, laid out as the model's */
	struct sml_request *requests[DEMO_LAYERS + 1];
	double reduce_began;

	/* Results so far. */
	float loss;	 /* the whole batch's */
	double accuracy; /* share of the test images */
	double seconds;	 /* of training, without tests */
	double reducing; /* part of it: from a step's first all-reduce to the end of the last */
	uint64_t sent, received; /* bytes of frames on the link, while training; 0: none was made */
	bool same;		 /* all ranks have the same parameters, bit for bit */
	int64_t hash;		 /* of this rank's: the same bits, the same hash */
	double drift;		 /* from those of a single process; see alone.c */
};

/* Load the data, draw the model, train, and compare the ranks' parameters. */
void demo_train(struct demo_trainer *trainer);

/* What all runs share, on many ranks or in one process. */
void demo_draw_model(struct demo_model *model);
void demo_update(struct demo_model *model, int layer, const float *gradient);

/* Compute a rank's part of a step's mean loss, which it returns, and of that loss's gradient. */
float demo_compute(struct demo_trainer *trainer, struct demo_model *model, int step, int rank,
		   demo_ready_fn *ready);

/*
 * ---- the same training without a network (alone.c) ----
 *
 * One process computes the shards of all ranks, one after the other, and adds their gradients.
 * Sets drift. Rank 0 calls this after the job has ended.
 */
void demo_train_alone(struct demo_trainer *trainer);

/* ---- what the user sees (report.c) ---- */

/* Seconds of the monotonic clock. */
double demo_now(void);

/* End this process after an error line. */
_Noreturn void demo_die(const char *what, const char *why);

/*
 * Show the progress of a run. A terminal shows one line, rewritten at most ten times per
 * second. Other outputs get a line every two seconds. `last` lines are always shown.
 */
void demo_progress(bool last, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The summary, also as JSON if that was asked for. Returns whether every proof held. */
bool demo_report(const struct demo_trainer *trainer);

#endif

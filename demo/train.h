/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's part of the training. In each step, the rank's shard of the batch goes through
 * the forward and backward pass. The all-reduce of a layer's gradient starts as soon as the
 * gradient is ready, while the layers below are still computed. When averages arrive, the
 * layers are updated.
 *
 *	compute  forward | back 2 | back 1 | back 0 |    | step 2 | step 1 | step 0
 *	network                   |-- layer 2 --|
 *	                                   |------ layer 1 ------|
 *	                                            |--- layer 0 ---|
 *
 * What to remember: all ranks make the same calls of the library in the same order, so all
 * ranks must know everything that decides which call comes next.
 */
#ifndef SML_DEMO_TRAIN_H
#define SML_DEMO_TRAIN_H

#include <signal.h>
#include <stdint.h>

#include "demo/data.h"
#include "demo/gloo.h"
#include "demo/model.h"
#include "demo/options.h"
#include "demo/results.h"

/* What all runs of the same seed share, on many ranks or on one. */
#define DEMO_SEED     20210412u
#define DEMO_RATE     0.05f
#define DEMO_MOMENTUM 0.9f
#define DEMO_LAYERS   3
extern const int demo_sizes[DEMO_LAYERS + 1];

struct demo_trainer {
	const struct demo_options *options;
	struct sml_context *job;
	struct demo_gloo *gloo;		   /* NULL if the job averages the gradients */
	const volatile sig_atomic_t *stop; /* set: this rank was asked to stop */
	int rank, world;
	struct demo_digits digits;
	struct demo_batches batches;
	struct demo_model model;
	float *average; /* average of all ranks' gradients, laid out as the model's */
	float pixels[DEMO_BATCH_ROWS * DEMO_PIXELS];
	uint8_t labels[DEMO_BATCH_ROWS];
	float news[2]; /* summed over the ranks each step: loss, wishes to stop */
	struct sml_request *requests[DEMO_LAYERS + 1];
	struct demo_traffic traffic; /* this rank's own values so far */
	double step_began, reduce_began;
	struct demo_results results;
};

/* Load the data and draw the model. Returns 0 or a negative errno. fini accepts zeros, too. */
int demo_trainer_init(struct demo_trainer *trainer, const struct demo_options *options);
void demo_trainer_fini(struct demo_trainer *trainer);

/*
 * Train on an open job, with proofs at some steps (proof.c). Returns 0, even if the run was
 * stopped early (results.interrupted), or the library's error after an error line.
 */
int demo_train(struct demo_trainer *trainer);

/* Every call of the library goes through this function, so that error lines name the call. */
int demo_call(struct demo_trainer *trainer, const char *what, int status);

/*
 * ---- proofs that the all-reduces were correct (proof.c) ----
 *
 *   sum    The averages against the float64 mean of all ranks' gradients, which
 *          an all-gather has moved here bit by bit. Only the all-reduce can
 *          cause a difference, and proof.c bounds it.
 *   equal  At the end, the hashes of all ranks' parameters are equal.
 *
 * What to remember: a broken proof does not end the run, because the other ranks would keep
 * waiting. It is recorded, and the program fails at the end.
 */

/* Is this a step to check? The first and the last are, and some between them. */
bool demo_proof_due(int step, int n_steps);

/* After such a step. All ranks must call this. Errors are the library's, or -ENOMEM. */
int demo_proof_sums(struct demo_trainer *trainer);

/* At the end: all ranks must call this. Errors are the library's. */
int demo_proof_same(struct demo_trainer *trainer);

/* ---- the counters of this host's link, where bench/on-links has made one (link.c) ---- */

/*
 * The bytes that have left the host, and come to it, in frames. Both are zero without
 * $ON_LINKS_COUNTERS, the command that prints them. Returns 0, or -EIO after an error line.
 */
int demo_link_read(int rank, uint64_t *sent, uint64_t *received);

/*
 * ---- the same training without a network (solo.c) ----
 *
 * One process, one gradient of the whole batch. Rank 0 runs it after the job has ended.
 *
 * Two trainings in float32 that round differently drift apart, because each step's small
 * difference changes the next step's gradient. No useful bound of that is known beforehand,
 * so the drift is compared with how far training has moved the parameters (root mean squares).
 * It may be a twentieth of that: wrong sums make it more, and rounding makes it less (solo.c).
 * The sums themselves have a bound in proof.c.
 */

/*
 * Train alone and compare. Fills the solo part of the trainer's results. Returns 0, -ENOMEM,
 * or -EINTR if asked to stop.
 */
int demo_solo_compare(struct demo_trainer *trainer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proofs that the all-reduces were correct, at some steps of the training and at its end.
 * Errors are measured at parameters that are equal on all ranks, because training later
 * amplifies any rounding, correct or not.
 *
 *   sum    The averages against the float64 mean of all ranks' float32
 *          gradients, which an all-gather moved here bit by bit. Only the
 *          all-reduce can cause a difference; wire_error() is the bound.
 *   batch  The averages against the gradient of the whole batch, which rank 0
 *          computes alone in float64 (reference.h). This also covers sharding,
 *          scaling, and the all-gather; the bound adds the float32 errors.
 *   equal  At the end, MAX and MIN of each parameter over the ranks are equal,
 *          and so are all ranks' hashes of all their parameters' bits.
 *
 * What to remember: a broken proof does not end the run, because the other ranks would keep
 * waiting. It is recorded, and the program fails at the end.
 */
#ifndef SML_DEMO_PROOF_H
#define SML_DEMO_PROOF_H

#include "demo/train.h"

struct demo_proof {
	float *parameters;	   /* values before the step */
	float *gathered;	   /* all ranks' gradients, one after the other */
	double *reference, *bound; /* rank 0 only */
};

/* fini may be called even if init failed (-ENOMEM). */
int demo_proof_init(struct demo_proof *proof, const struct demo_trainer *trainer);
void demo_proof_fini(struct demo_proof *proof);

/* Is this a step to check? The first and the last are, and some between them. */
bool demo_proof_due(int step, int n_steps);

/*
 * Called before and after such a step. All ranks must call after(). Errors are the
 * library's, or -ENOMEM.
 */
void demo_proof_before(struct demo_proof *proof, const struct demo_trainer *trainer);
int demo_proof_after(struct demo_proof *proof, struct demo_trainer *trainer, int step);

/* At the end: all ranks must call this. */
int demo_proof_same(struct demo_proof *proof, struct demo_trainer *trainer);

/*
 * The largest error of one element of an average over n ranks, without the final rounding to
 * float32, if no input is larger than `largest`.
 */
double demo_wire_error(enum sml_wire wire, int n, double largest);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proofs that the all-reduces did what they should, at some steps of the
 * training and at its end. Errors are measured where they arise, at parameters
 * that all have alike: afterwards training amplifies any rounding, right or not.
 *
 *   sum    The averages against the float64 mean of all ranks' float32
 *          gradients, which an all-gather moved here bit by bit. Whatever
 *          differs, the all-reduce did; the bound is wire_error()'s.
 *   batch  The averages against the gradient of the whole batch that rank 0
 *          computes alone in float64 (reference.h). This also covers sharding,
 *          scaling, and the all-gather; the bound adds what float32 costs.
 *   equal  In the end every parameter's MAX and MIN over the ranks are the
 *          same, and so are all ranks' hashes of all their parameters' bits.
 *
 * What to remember: a broken proof does not end the run, since the other ranks
 * would be left waiting; it is recorded, and the program fails in the end.
 */
#ifndef SML_DEMO_PROOF_H
#define SML_DEMO_PROOF_H

#include "demo/train.h"

struct demo_proof {
	float *parameters;	   /* as they were before the step */
	float *gathered;	   /* all ranks' gradients, one after the other */
	double *reference, *bound; /* rank 0 only */
};

/* fini may come whether or not init succeeded (-ENOMEM). */
int demo_proof_init(struct demo_proof *proof, const struct demo_trainer *trainer);
void demo_proof_fini(struct demo_proof *proof);

/* Is this a step to be checked? The first, the last, and some between. */
bool demo_proof_due(int step, int n_steps);

/* Around such a step. All ranks must call after(); errors as the library's, or -ENOMEM. */
void demo_proof_before(struct demo_proof *proof, const struct demo_trainer *trainer);
int demo_proof_after(struct demo_proof *proof, struct demo_trainer *trainer, int step);

/* The end: all ranks must call it. */
int demo_proof_same(struct demo_proof *proof, struct demo_trainer *trainer);

/*
 * How far one element of an average over n ranks may be off, the final rounding
 * to float32 left out, if no input is larger than `largest`.
 */
double demo_wire_error(enum sml_wire wire, int n, double largest);

#endif

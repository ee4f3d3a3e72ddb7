/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proofs that the all-reduces were correct, at some steps of the training and at its end.
 *
 *   sum    The averages against the float64 mean of all ranks' gradients, which
 *          an all-gather has moved here bit by bit. Only the all-reduce can
 *          cause a difference, and proof.c bounds it.
 *   equal  At the end, the hashes of all ranks' parameters are equal.
 *
 * What to remember: a broken proof does not end the run, because the other ranks would keep
 * waiting. It is recorded, and the program fails at the end.
 */
#ifndef SML_DEMO_PROOF_H
#define SML_DEMO_PROOF_H

#include "demo/train.h"

/* Is this a step to check? The first and the last are, and some between them. */
bool demo_proof_due(int step, int n_steps);

/* After such a step. All ranks must call this. Errors are the library's, or -ENOMEM. */
int demo_proof_sums(struct demo_trainer *trainer);

/* At the end: all ranks must call this. Errors are the library's. */
int demo_proof_same(struct demo_trainer *trainer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same training without a network, by rank 0 after the job has ended.
 *
 * Two float32 trainings that round differently drift apart: each step's small difference
 * changes the next step's gradient. There is no useful a-priori bound for the drift, so it
 * is compared with a measured one. Three runs use the same batches:
 *
 *   S  the reference: one process, one gradient of the whole batch;
 *   C  the control: one process, but the gradient is the mean of the shards'
 *      gradients, each rounded as the wire rounds, summed without error;
 *   D  the run on all ranks.
 *
 * C and D differ from S by roundings of the same kind, and D must not differ much more than
 * C: rms(D - S) <= 10 rms(C - S). This bound is empirical; the rigorous bounds are in
 * proof.h.
 */
#ifndef SML_DEMO_SOLO_H
#define SML_DEMO_SOLO_H

#include "demo/train.h"

/*
 * Run S and C and compare. Fills the solo part of the trainer's results. Returns 0, -ENOMEM,
 * or -EINTR if asked to stop.
 */
int demo_solo_compare(struct demo_trainer *trainer);

#endif

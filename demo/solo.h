/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same training without any network, by rank 0 after the job has ended.
 *
 * Two float32 trainings that round differently drift apart: each step's small
 * difference moves the next step's gradient. No useful a-priori bound exists
 * for that, so the yardstick is measured. Three runs with the same batches:
 *
 *   S  one process, the whole batch's gradient at once: what is compared with;
 *   C  the control: one process, but the gradient is the mean of the shards'
 *      gradients, each rounded as the wire rounds, summed without error;
 *   D  the one on all ranks.
 *
 * C and D differ from S by roundings of the same kind, and nothing else is
 * allowed to make D differ more: rms(D - S) <= 10 rms(C - S). This is an
 * empirical bound; the rigorous ones are proof.h's.
 */
#ifndef SML_DEMO_SOLO_H
#define SML_DEMO_SOLO_H

#include "demo/train.h"

/*
 * Run S and C and compare. Fills the solo part of the trainer's results.
 * Returns 0, -ENOMEM, or -EINTR if asked to stop.
 */
int demo_solo_compare(struct demo_trainer *trainer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The same training without a network: one process, one gradient of the whole batch. Rank 0
 * runs it after the job has ended.
 *
 * Two trainings in float32 that round differently drift apart, because each step's small
 * difference changes the next step's gradient. No useful bound of that is known beforehand,
 * so the drift is compared with how far training has moved the parameters (root mean squares).
 * It may be a twentieth of that: wrong sums make it more, and rounding makes it less (solo.c).
 * The sums themselves have a bound in proof.h.
 */
#ifndef SML_DEMO_SOLO_H
#define SML_DEMO_SOLO_H

#include "demo/train.h"

/*
 * Train alone and compare. Fills the solo part of the trainer's results. Returns 0, -ENOMEM,
 * or -EINTR if asked to stop.
 */
int demo_solo_compare(struct demo_trainer *trainer);

#endif

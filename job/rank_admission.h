/* SPDX-License-Identifier: BSD-3-Clause */
/* Between a rank's talk (rank_talk.c) and the switch's longest message (rank_admission.c). */
#ifndef SML_JOB_RANK_ADMISSION_H
#define SML_JOB_RANK_ADMISSION_H

#include "job/rank_talk.h"

/* Copy what the switch gives this rank. False: it is impossible, and the talk has failed. */
bool sml_talk_admit(struct sml_talk *talk, const SmlControl__Admitted *in);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What talk.c calls in admission.c: checking and copying an Admitted. */
#ifndef SML_JOB_RANK_ADMISSION_H
#define SML_JOB_RANK_ADMISSION_H

#include "job/rank/talk.h"

/* Copy what the switch gives this rank. False: it is impossible, and the talk has failed. */
bool sml_talk_admit(struct sml_talk *talk, const SmlControl__Admitted *in);

#endif

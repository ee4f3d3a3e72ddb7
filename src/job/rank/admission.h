/* SPDX-License-Identifier: BSD-3-Clause */
/* What session.c calls in admission.c: checking and copying an Admitted. */
#ifndef SML_JOB_RANK_ADMISSION_H
#define SML_JOB_RANK_ADMISSION_H

#include "job/rank/session.h"

/* Copy what the switch gives this rank. False if it is impossible, and the session has failed. */
bool sml_session_admit(struct sml_session *session, const SmlControl__Admitted *in);

#endif

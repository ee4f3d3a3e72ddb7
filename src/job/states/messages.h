/* SPDX-License-Identifier: BSD-3-Clause */
/* What a job does with its members' messages. */
#ifndef SML_JOB_STATES_MESSAGES_H
#define SML_JOB_STATES_MESSAGES_H

#include "job/members/job.h"

void sml_job_message(struct sml_peer *peer, const SmlControl__Envelope *message);

#endif

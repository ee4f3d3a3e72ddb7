/* SPDX-License-Identifier: BSD-3-Clause */
/* Between joining (join.c) and the terms that a Join must meet (terms.c). */
#ifndef SML_JOB_JOIN_JOIN_H
#define SML_JOB_JOIN_JOIN_H

#include "job/states/job.h"

/* Why a Join is refused. */
struct sml_refusal {
	int error; /* 0: it is not */
	char text[SML_SENTENCE_BYTES];
};

/* job: the one that the Join means; NULL: there is none yet. */
void sml_terms_check(const struct sml_jobs *jobs, const struct sml_job *job,
		     const SmlControl__Join *join, struct sml_refusal *refusal);

#endif

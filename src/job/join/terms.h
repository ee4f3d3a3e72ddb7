/* SPDX-License-Identifier: BSD-3-Clause */
/* The terms of a job: what a Join must say to be accepted. */
#ifndef SML_JOB_JOIN_TERMS_H
#define SML_JOB_JOIN_TERMS_H

#include "job/switch.h"

/* Why a Join is refused. */
struct sml_refusal {
	int error; /* 0 if it is not */
	char text[SML_SENTENCE_BYTES];
};

/* Of a job, a rank with a switch, and one without. */
#define SML_TERMS_APART                                                                            \
	"ranks of job \"%s\" wait for each other, rank %u at a switch and rank %u without one: "   \
	"set SWITCHML_SWITCH on all ranks, or on none"

/* job: the one that the Join means; NULL if there is none yet. */
void sml_terms_check(const struct sml_jobs *jobs, const struct sml_job *job,
		     const SmlControl__Join *join, struct sml_refusal *refusal);

/* Of it, the terms that must be equal on all ranks: the first that differs. */
void sml_terms_compare(const struct sml_job *job, const SmlControl__Join *join,
		       struct sml_refusal *refusal);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks of a job that resumes report, while the job keeps it. */
#include "job/states/states.h"

#include <stdlib.h>

SmlControl__Join *sml_join_copy(const SmlControl__Join *join)
{
	size_t bytes = sml_control__join__get_packed_size(join);
	uint8_t *packed = malloc(bytes);
	SmlControl__Join *copy = NULL;

	if (packed != NULL) {
		sml_control__join__pack(join, packed);
		copy = sml_control__join__unpack(NULL, bytes, packed);
		free(packed);
	}
	return copy;
}

bool sml_job_keep_report(struct sml_job *job, unsigned rank, const SmlControl__Join *join)
{
	size_t bytes = sml_control__join__get_packed_size(join);

	if (bytes > SML_MAX_REPORTED_BYTES - job->resume.reported_bytes)
		return false;
	job->members.of[rank].resume = sml_join_copy(join);
	if (job->members.of[rank].resume == NULL)
		return false;
	job->resume.reported_bytes += bytes;
	return true;
}

void sml_job_free_report(struct sml_job *job, unsigned rank)
{
	SmlControl__Join *report = job->members.of[rank].resume;

	if (report == NULL)
		return;
	/* Its numbers may be in another order now, which takes as much. */
	job->resume.reported_bytes -= sml_control__join__get_packed_size(report);
	sml_control__join__free_unpacked(report, NULL);
	job->members.of[rank].resume = NULL;
}

void sml_job_free_plans(struct sml_job *job)
{
	for (enum sml_stream_id stream = SML_HEAD; stream < SML_STREAMS; stream++) {
		free(job->resume.plans[stream].handovers);
		free(job->resume.plans[stream].table);
		job->resume.plans[stream] = (struct sml_resume_plan){0};
	}
}

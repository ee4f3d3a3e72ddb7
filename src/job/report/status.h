/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml status` shows. */
#ifndef SML_JOB_REPORT_STATUS_H
#define SML_JOB_REPORT_STATUS_H

#include "job/switch.h"

void sml_status_send(struct sml_jobs *jobs, struct sml_peer *peer);

/* A Status as it is now, packed; the caller frees it. NULL if there is no memory. */
uint8_t *sml_status_pack(struct sml_jobs *jobs, size_t *n);

/* A rank tells what it has moved. */
void sml_job_note_traffic(struct sml_peer *peer, const SmlControl__Traffic *traffic);

#endif

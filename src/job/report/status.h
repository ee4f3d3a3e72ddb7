/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml status` shows. */
#ifndef SML_JOB_REPORT_STATUS_H
#define SML_JOB_REPORT_STATUS_H

#include "job/switch.h"

void sml_status_send(struct sml_jobs *jobs, struct sml_peer *peer);

/*
 * Makes a packed Status of this moment, which the caller frees. Returns NULL if there is no memory.
 */
uint8_t *sml_status_pack(struct sml_jobs *jobs, size_t *n);

#endif

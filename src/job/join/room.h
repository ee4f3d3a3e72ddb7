/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for those who come: see room.c. */
#ifndef SML_JOB_JOIN_ROOM_H
#define SML_JOB_JOIN_ROOM_H

#include "job/switch.h"

/*
 * Is there a file for one more that stays? False if the peer has been refused. join: what it sends;
 * NULL if it is a leaf. Others may have to make room (job/join/room.c).
 */
bool sml_jobs_has_room_for_member(struct sml_jobs *jobs, struct sml_peer *peer,
				  const SmlControl__Join *join);

/* What has the weakest claim goes. False if there is nothing of the kind, or nobody resumes. */
bool sml_jobs_displace(struct sml_jobs *jobs, const SmlControl__Join *join);

#endif

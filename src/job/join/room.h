/* SPDX-License-Identifier: BSD-3-Clause */
/* Room for those who come: see room.c. */
#ifndef SML_JOB_JOIN_ROOM_H
#define SML_JOB_JOIN_ROOM_H

#include "job/switch.h"

/*
 * Whether there is a file descriptor for one more peer that stays. If not, the peer has been
 * refused. join is the peer's message; NULL if the peer is a leaf. Other peers may be closed to
 * make room (job/join/room.c).
 */
bool sml_jobs_has_room_for_member(struct sml_jobs *jobs, struct sml_peer *peer,
				  const SmlControl__Join *join);

/*
 * Closes the peer with the least priority. Returns false if there is none of this kind, or if no
 * rank resumes.
 */
bool sml_jobs_displace(struct sml_jobs *jobs, const SmlControl__Join *join);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a peer was last heard, and what that proves. After an absence of this switch itself, a peer
 * may have given it up, and is doubted until it is heard again: see job/input/jobs.c.
 */
#ifndef SML_JOB_PEER_HEARD_H
#define SML_JOB_PEER_HEARD_H

#include "job/switch.h"

/* Note that a message of the peer has come. */
void sml_peer_heard(struct sml_peer *peer, uint64_t now_ns);

/* Whether the peer may have given this switch up during the switch's last absence. */
static inline bool sml_peer_is_doubted(const struct sml_peer *peer)
{
	return peer->missed_ns != 0;
}

/*
 * Silence of the other switch that means death: half of a rank's, for the shortest heartbeat of the
 * ranks there. A rank sends four messages in its heartbeat, so it was last heard at most a quarter
 * of it before its leaf.
 */
uint64_t sml_link_silence_ns(const struct sml_switch_link *link);
uint64_t sml_link_silence_ends(const struct sml_switch_link *link);

/* This switch was away: the peer could not be heard in that time. */
void sml_peer_shift(struct sml_peer *peer, const struct sml_jobs *jobs, uint64_t away_ns);

/* The peer is doubted if that time was long for somebody with this heartbeat. */
void sml_peer_doubt(struct sml_peer *peer, uint32_t heartbeat_ms, uint64_t away_ns);

#endif

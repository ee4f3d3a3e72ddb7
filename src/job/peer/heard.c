/* SPDX-License-Identifier: BSD-3-Clause */
/* When a peer was last heard, and what that proves: see heard.h. */
#include "job/peer/heard.h"

/* More than what was sent before arrives within. A rank sends four messages in a heartbeat. */
#define MOST_PROOF_NS (SML_SECOND_NS / 2)

void sml_peer_heard(struct sml_peer *peer, uint64_t now_ns)
{
	peer->heard_ns = now_ns;
	if (peer->missed_ns == 0)
		return;
	if (peer->again_ns == 0)
		peer->again_ns = now_ns;
	else if (now_ns - peer->again_ns >= peer->proof_ns)
		peer->missed_ns = 0;
}

void sml_peer_shift(struct sml_peer *peer, const struct sml_jobs *jobs, uint64_t away_ns)
{
	peer->heard_ns += away_ns;
	if (peer->heard_ns > jobs->now_ns)
		peer->heard_ns = jobs->now_ns;
}

void sml_peer_doubt(struct sml_peer *peer, uint32_t heartbeat_ms, uint64_t away_ns)
{
	if (away_ns < heartbeat_ms * 500000ull)
		return;
	peer->missed_ns = away_ns;
	peer->again_ns = 0;
	peer->proof_ns = heartbeat_ms * 125000ull;
	if (peer->proof_ns > MOST_PROOF_NS)
		peer->proof_ns = MOST_PROOF_NS;
}

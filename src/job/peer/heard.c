/* SPDX-License-Identifier: BSD-3-Clause */
/* When a peer was last heard, and what that proves: see heard.h. */
#include "job/peer/heard.h"

#include "base/least.h"

/* More than what was sent before arrives within. A rank sends four messages in a heartbeat. */
#define MOST_PROOF_NS (SML_SECOND_NS / 2)
/* Without ranks, nothing depends on another switch. */
#define PATIENCE_NS (10 * SML_SECOND_NS)

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

uint64_t sml_link_silence_ns(const struct sml_switch_link *link)
{
	uint32_t least_ms = UINT32_MAX;

	for (uint32_t i = 0; i < link->ranks.room; i++) {
		const struct sml_numbered *rank = sml_table_at(&link->ranks, i);

		/* One whose job has failed may be silent. */
		if (rank != NULL && rank->peer->heartbeat_ms != 0 && rank->peer->survived == 0)
			least_ms = sml_least(least_ms, rank->peer->heartbeat_ms);
	}
	return least_ms != UINT32_MAX ? least_ms * 500000ull : PATIENCE_NS;
}

uint64_t sml_link_silence_ends(const struct sml_switch_link *link)
{
	return sml_later(link->peer->heard_ns, link->serves_ns) + sml_link_silence_ns(link);
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

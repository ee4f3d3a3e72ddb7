/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round-trip time and retransmission timeout, as RFC 6298 section 2, in
 * nanoseconds. The caller applies Karn's rule (no samples from packets that
 * were sent twice, but for two exceptions: worker_receive.c).
 *
 * Hundreds of packets share a round trip, and most samples of a batch are
 * alike: with RFC 6298's weights, one batch would erase all earlier knowledge
 * about delays. So the variation rises at once and falls by an eighth per round
 * trip, as in Linux's TCP (there it falls by a quarter).
 *
 * A result comes when the slowest rank has sent, so a sample includes that
 * rank's delay too. A rank that was itself the last to send measures only the
 * path. Other samples are capped at SML_RTT_STRAGGLER_NS, or at what the path
 * itself takes if that is more: a rank that computes for a second must not make
 * the next lost packet cost a second.
 */
#ifndef SML_CORE_RTT_H
#define SML_CORE_RTT_H

#include "core/base.h"

#define SML_RTT_INITIAL_RTO_NS 20000000ull
/* On busy hosts a thread can wait this long although nothing is lost. */
#define SML_RTT_MIN_RTO_NS   4000000ull
#define SML_RTT_MAX_RTO_NS   1000000000ull
#define SML_RTT_STRAGGLER_NS 50000000ull
/* Backed-off timeouts stop growing here, unless the path itself is slower. */
#define SML_RTT_BACKOFF_CAP_NS 64000000ull

struct sml_rtt {
	uint64_t smoothed_ns;  /* 0 if there is no sample yet */
	uint64_t deviation_ns; /* how far samples deviate lately, by RFC 6298's weights */
	uint64_t variation_ns; /* the deviation that the timeout allows for */
	uint64_t round_max_ns; /* the largest deviation of this round trip */
	uint64_t round_ends_ns;
	uint64_t path_ns; /* what the path took by itself; rises at once, falls to later samples */
	uint64_t min_ns;  /* the shortest sample; UINT64_MAX if there is none yet */
	uint64_t rto_ns;
	uint8_t backoff; /* the timeout is rto_ns << backoff */
};

static inline void sml_rtt_init(struct sml_rtt *rtt)
{
	*rtt = (struct sml_rtt){.rto_ns = SML_RTT_INITIAL_RTO_NS, .min_ns = UINT64_MAX};
}

static inline void sml_rtt_vary(struct sml_rtt *rtt, uint64_t now_ns)
{
	if (rtt->deviation_ns > rtt->round_max_ns)
		rtt->round_max_ns = rtt->deviation_ns;
	if (rtt->round_max_ns > rtt->variation_ns)
		rtt->variation_ns = rtt->round_max_ns;
	if (now_ns < rtt->round_ends_ns)
		return;
	rtt->variation_ns -= (rtt->variation_ns - rtt->round_max_ns) / 8;
	rtt->round_max_ns = 0;
	rtt->round_ends_ns = now_ns + rtt->smoothed_ns;
}

static inline void sml_rtt_sample(struct sml_rtt *rtt, uint64_t sample_ns, bool path_alone,
				  uint64_t now_ns)
{
	uint64_t most_ns =
		rtt->path_ns > SML_RTT_STRAGGLER_NS ? rtt->path_ns : SML_RTT_STRAGGLER_NS;
	uint64_t difference;

	if (!path_alone && sample_ns > most_ns)
		sample_ns = most_ns;
	if (sample_ns < rtt->path_ns)
		rtt->path_ns -= (rtt->path_ns - sample_ns) / 8;
	else if (path_alone)
		rtt->path_ns = sample_ns;
	if (sample_ns < rtt->min_ns)
		rtt->min_ns = sample_ns;
	if (rtt->smoothed_ns == 0) {
		rtt->smoothed_ns = sample_ns;
		rtt->deviation_ns = rtt->variation_ns = sample_ns / 2;
	} else {
		difference = sample_ns > rtt->smoothed_ns ? sample_ns - rtt->smoothed_ns
							  : rtt->smoothed_ns - sample_ns;
		rtt->deviation_ns = (3 * rtt->deviation_ns + difference) / 4;
		rtt->smoothed_ns = (7 * rtt->smoothed_ns + sample_ns) / 8;
	}
	sml_rtt_vary(rtt, now_ns);
	rtt->rto_ns = rtt->smoothed_ns + 4 * rtt->variation_ns;
	if (rtt->rto_ns < SML_RTT_MIN_RTO_NS)
		rtt->rto_ns = SML_RTT_MIN_RTO_NS;
	if (rtt->rto_ns > SML_RTT_MAX_RTO_NS)
		rtt->rto_ns = SML_RTT_MAX_RTO_NS;
}

/* The timeout with its backoff. */
static inline uint64_t sml_rtt_timeout(const struct sml_rtt *rtt)
{
	uint64_t cap_ns =
		rtt->rto_ns > SML_RTT_BACKOFF_CAP_NS ? rtt->rto_ns : SML_RTT_BACKOFF_CAP_NS;
	uint64_t timeout_ns = rtt->rto_ns << rtt->backoff;

	return timeout_ns < cap_ns ? timeout_ns : cap_ns;
}

static inline void sml_rtt_back_off(struct sml_rtt *rtt)
{
	if (rtt->backoff < 10)
		rtt->backoff++;
}

#endif

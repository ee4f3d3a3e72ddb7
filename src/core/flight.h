/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The window: how many packets may be in flight, that is, how many slots are active. A result
 * permits the next send, so the window only limits the number of permits.
 *
 * The window grows by one packet per result, which doubles it in each round, until a round shows a
 * queue or loss. For a queue, it halves then, as TCP's slow start ends: with the windows of eight
 * stripes in one link of 100 Mbit/s, the round trip would otherwise stay above the timeout for two
 * seconds, and a tenth of the packets would be sent again though none is lost. From then on, it
 * grows by a sixteenth per round, and shrinks by an eighth when the fastest round trip of a round
 * is far above the path's minimum (a standing queue). It shrinks by a quarter when more than about
 * 6 % of the packets of each path were lost (a queue too short to show delay). Lower random loss
 * does not change it: each slot repairs its own loss, so there is no need to slow down. A packet
 * lost on any rank's path to the switch looks like a loss to all ranks, so the limit grows with
 * their number.
 *
 * Senders share a link in proportion to their packets in its queue, and TCP does not shrink when a
 * queue stands. So delay alone never makes the window smaller than what TCP keeps in a host's
 * queue. A sender that begins when others have filled the queue takes it for the path. So the
 * path's minimum adds little to the queue that is allowed.
 */
#ifndef SML_CORE_FLIGHT_H
#define SML_CORE_FLIGHT_H

#include "core/base.h"

#define SML_FLIGHT_START 32
#define SML_FLIGHT_MIN	 8
/* Two super-packets. Delay shrinks the windows of a host's stripes and shards to this in total. */
#define SML_FLIGHT_FAIR_BYTES (128u * 1024)
/*
 * There is a standing queue when a round's fastest trip exceeds the path's minimum by twice as
 * much, or by TRUST if that is less, + SLACK for each of the stripes: they share a host's link.
 */
#define SML_FLIGHT_TRUST_NS 1000000ull
#define SML_FLIGHT_SLACK_NS 2000000ull

struct sml_flight {
	uint32_t window;     /* how many packets may be in flight */
	uint32_t max;	     /* the most that the window may be */
	uint32_t fair;	     /* delay alone does not shrink the window below this */
	uint32_t loss_limit; /* more losses than this, in 1/256 of a round's results, shrink it */
	uint64_t slack_ns;   /* a queue of this length is no standing queue yet */
	bool probing;	     /* the window grows by one packet per result */
	/*
	 * What the current round has seen so far. It ends when as many results have come as the
	 * window had packets when it began.
	 */
	uint32_t round;
	uint32_t results;
	uint32_t losses;
	uint64_t fastest_ns;
};

/* n_parts is how many windows share the host's link: those of all its stripes and shards. */
static inline void sml_flight_init(struct sml_flight *flight, uint32_t max, uint32_t packet_bytes,
				   unsigned n_ranks, unsigned n_stripes, unsigned n_parts)
{
	uint32_t fair = SML_FLIGHT_FAIR_BYTES / packet_bytes / n_parts;
	uint32_t start = max < SML_FLIGHT_START ? max : SML_FLIGHT_START;

	if (fair < SML_FLIGHT_MIN)
		fair = SML_FLIGHT_MIN;
	*flight = (struct sml_flight){
		.window = start,
		.max = max,
		.round = start,
		.fair = fair < max ? fair : max,
		.loss_limit = 16 * (n_ranks + 1) < 230 ? 16 * (n_ranks + 1) : 230,
		.slack_ns = n_stripes * SML_FLIGHT_SLACK_NS,
		.probing = true,
		.fastest_ns = UINT64_MAX,
	};
}

static inline void sml_flight_loss(struct sml_flight *flight)
{
	flight->losses++;
}

/*
 * A result came. rtt_ns is its sample, or UINT64_MAX if it has none; path_min_ns is the fastest
 * round trip ever.
 */
static inline void sml_flight_result(struct sml_flight *flight, uint64_t rtt_ns,
				     uint64_t path_min_ns)
{
	uint64_t trust_ns =
		2 * path_min_ns < SML_FLIGHT_TRUST_NS ? 2 * path_min_ns : SML_FLIGHT_TRUST_NS;
	uint32_t step;
	bool queueing, losing;

	if (rtt_ns < flight->fastest_ns)
		flight->fastest_ns = rtt_ns;
	if (flight->probing && flight->window < flight->max)
		flight->window++;
	if (++flight->results < flight->round)
		return;

	queueing = flight->fastest_ns != UINT64_MAX &&
		   flight->fastest_ns > path_min_ns + trust_ns + flight->slack_ns;
	losing = flight->losses * 256 > flight->results * flight->loss_limit;
	if (losing) {
		flight->probing = false;
		flight->window -= flight->window / 4;
		if (flight->window < SML_FLIGHT_MIN)
			flight->window =
				flight->max < SML_FLIGHT_MIN ? flight->max : SML_FLIGHT_MIN;
	} else if (queueing && flight->window > flight->fair) {
		flight->window -= flight->window / (flight->probing ? 2 : 8);
		flight->probing = false;
		if (flight->window < flight->fair)
			flight->window = flight->fair;
	} else if (!flight->probing) {
		step = flight->window / 16 + 1;
		flight->window += step;
		if (flight->window > flight->max)
			flight->window = flight->max;
	}
	flight->round = flight->window;
	flight->results = 0;
	flight->losses = 0;
	flight->fastest_ns = UINT64_MAX;
}

#endif

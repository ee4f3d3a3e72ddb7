/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many packets may be in flight: the number of active slots. A result is
 * the permission to send, so this only decides how many permissions there are.
 *
 * The window grows by a packet a result until delay or loss says that a queue
 * is filling, then by a sixteenth a round. It shrinks when the fastest round
 * trip of a round is far above the path's own (a standing queue), or when more
 * than about 6 % of the packets of each path were lost (a queue too short to
 * show delay). Random loss below that does not move it: losses are repaired
 * slot by slot and need no slowing down. A packet lost on any rank's way to the
 * switch looks like a loss to all of them, so the limit grows with the ranks.
 */
#ifndef SML_CORE_FLIGHT_H
#define SML_CORE_FLIGHT_H

#include "core/base.h"

#define SML_FLIGHT_START 32
#define SML_FLIGHT_MIN	 8
/*
 * A queue is standing when a round's fastest trip exceeds 3 x the path's + this, for
 * each of the stripes, which share a host's link.
 */
#define SML_FLIGHT_SLACK_NS 2000000ull

struct sml_flight {
	uint32_t window; /* packets allowed in flight */
	uint32_t max;
	uint32_t loss_limit; /* in 1/256 of a round's results */
	uint64_t slack_ns;   /* that a round trip may take longer than 3 of the path's */
	bool probing;	     /* growing by a packet a result */
	/* The round that is running: it ends when as many results as the window have come. */
	uint32_t results;
	uint32_t losses;
	uint64_t fastest_ns;
};

static inline void sml_flight_init(struct sml_flight *flight, uint32_t max, unsigned n_ranks,
				   unsigned n_stripes)
{
	*flight = (struct sml_flight){
		.window = max < SML_FLIGHT_START ? max : SML_FLIGHT_START,
		.max = max,
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

/* A result came; rtt_ns is its sample or UINT64_MAX, path_min_ns the path's fastest ever. */
static inline void sml_flight_result(struct sml_flight *flight, uint64_t rtt_ns,
				     uint64_t path_min_ns)
{
	uint32_t step;
	bool queueing, losing;

	if (rtt_ns < flight->fastest_ns)
		flight->fastest_ns = rtt_ns;
	if (flight->probing && flight->window < flight->max)
		flight->window++;
	if (++flight->results < flight->window)
		return;

	queueing = flight->fastest_ns != UINT64_MAX &&
		   flight->fastest_ns > 3 * path_min_ns + flight->slack_ns;
	losing = flight->losses * 256 > flight->results * flight->loss_limit;
	if (queueing || losing) {
		flight->probing = false;
		flight->window -= flight->window / (losing ? 4 : 8);
		if (flight->window < SML_FLIGHT_MIN)
			flight->window =
				flight->max < SML_FLIGHT_MIN ? flight->max : SML_FLIGHT_MIN;
	} else if (!flight->probing) {
		step = flight->window / 16 + 1;
		flight->window += step;
		if (flight->window > flight->max)
			flight->window = flight->max;
	}
	flight->results = 0;
	flight->losses = 0;
	flight->fastest_ns = UINT64_MAX;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stripe of a job, as a rank sees it: a switch, the control connection to
 * it, and the workers that use its slots. Chunk c of a stream belongs to stripe
 * c mod n_stripes, and stripes are independent: each has its own epoch, and if
 * its switch dies, only this stripe waits for another one (failover.c).
 */
#ifndef SML_LIB_STRIPE_H
#define SML_LIB_STRIPE_H

#include "base/error.h"
#include "lib/control/client.h"
#include "lib/control/endpoints.h"
#include "lib/control/finder.h"
#include "lib/host/meet.h"
#include "lib/host/slots.h"
#include "lib/progress/shard.h"
#include "lib/transport/transport.h"

struct sml_context;

struct sml_stripe {
	struct sml_context *context;
	uint8_t index;
	struct sml_endpoints *endpoints; /* the newest */
	struct sml_reached connection;
	const char *name;	      /* atomic: its current switch, for texts */
	char own_name[96];	      /* of a rank that embeds it */
	struct sml_control *control;  /* atomic once there are threads */
	struct sml_control **retired; /* of switches that died, while calls may use them */
	unsigned n_retired;
	struct sml_admission admission;
	struct sml_shard *shards[SML_MAX_SHARDS];
	unsigned n_shards;

	/* While it opens; in its own thread if there are several stripes. */
	struct sml_transport *transports[SML_MAX_SHARDS]; /* NULL once lines have them */
	uint16_t lanes;					  /* that its switch starts with */
	struct sml_host_listener listener;		  /* for the ranks of this host */
	bool has_met;					  /* or has tried to; that is done once */
	struct sml_host *met; /* memory that this rank shares; the others may not */
	/* It has said Ready, and whether it shares memory: other ranks may have been told to start.
	 */
	bool may_have_begun, reported_shared;
	bool path_is_narrow; /* probes that its ends take were lost, and shorter ones were not */
	unsigned n_lost;     /* switches */
	/* Under the submit lock: see sml_submit_hold_floats() and sml_submit_hold_parts(). */
	bool holds_calls;
	bool in_parts; /* where it is now, parts of sums are rounded; where it began, none were */
	uint64_t deadline_ns;
	pthread_t opener;
	int error; /* of opening, and how it was told */
	char text[SML_TEXT_BYTES];

	/* Its switch has died. Under the context's lock, except `park`. */
	bool park; /* atomic: shards must freeze, and no longer belong to their threads */
	unsigned n_parked;
	struct {
		pthread_t thread;
		bool started, closing;
		bool early; /* it was lost after the start, and before the context runs */
		bool left;  /* no switch was needed any more, because all ranks have asked to leave
			     */
		uint64_t leaves_ns; /* atomic: since then this rank waits only to leave; 0 if not */
		char lost[SML_TEXT_BYTES];   /* which switch was lost, and how */
		char tried[SML_TRIED_BYTES]; /* the other switches, and their results */
	} failover;
};

/* Its switch's address, for texts. */
static inline const char *sml_stripe_name(const struct sml_stripe *stripe)
{
	const char *name = __atomic_load_n(&stripe->name, __ATOMIC_ACQUIRE);

	return name ? name : "not reached";
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One stripe of a job, as a rank sees it: a switch, the control connection to
 * it, and the workers that use its slots. Chunk c of a stream belongs to stripe
 * c mod n_stripes, and stripes know nothing of each other: each has its own
 * epoch, and when its switch dies it alone waits for another (failover.c).
 */
#ifndef SML_LIB_STRIPE_H
#define SML_LIB_STRIPE_H

#include "base/error.h"
#include "lib/control/client.h"
#include "lib/progress/shard.h"
#include "lib/transport/transport.h"

struct sml_context;

struct sml_stripe {
	struct sml_context *context;
	uint8_t index;
	struct sml_endpoint endpoints[SML_MAX_ENDPOINTS];
	unsigned n_endpoints;
	struct sml_connection connection;
	const char *name;	      /* atomic: of the switch it has, for texts */
	char own_name[96];	      /* of a rank that embeds it */
	struct sml_control *control;  /* atomic once there are threads */
	struct sml_control **retired; /* those of switches that died: their memory lives on */
	unsigned n_retired;
	struct sml_admission admission;
	struct sml_shard *shards[SML_MAX_SHARDS];
	unsigned n_shards;

	/* While it opens: in a thread of its own where there are several. */
	struct sml_transport *transports[SML_MAX_SHARDS]; /* NULL once lines have them */
	uint16_t lanes;					  /* that its switch starts with */
	uint64_t deadline_ns;
	pthread_t opener;
	int error; /* of opening, and how it was told */
	char text[SML_TEXT_BYTES];

	/* Its switch has died. Under the context's lock but for `park`. */
	bool park; /* atomic: shards are to freeze, and are not their threads' any more */
	unsigned n_parked;
	struct {
		pthread_t thread;
		bool started, closing;
		char lost[SML_TEXT_BYTES]; /* which switch was lost, and how */
	} failover;
};

/* Its switch's address, for texts. */
static inline const char *sml_stripe_name(const struct sml_stripe *stripe)
{
	const char *name = __atomic_load_n(&stripe->name, __ATOMIC_ACQUIRE);

	return name ? name : "not reached";
}

/* Connect to one of its endpoints from this one on; the rest of config is set. 0 or an error, told.
 */
int sml_stripe_connect(struct sml_stripe *stripe, unsigned first_endpoint,
		       struct sml_connect_config *config);

/*
 * Connect, join, open the transports, prove the paths, start. Afterwards the
 * control connection has its thread and `lanes` are known. 0, or an error told
 * by sml_error_set(): SML_ERROR_CLOSED when another stripe has failed.
 */
int sml_stripe_open(struct sml_stripe *stripe);

/* Connect and open the control. 0 or an error, told. */
int sml_stripe_connect_control(struct sml_stripe *stripe);

/* The most lanes that the path there seems to take. 0 or an error, told. */
int sml_stripe_lanes(const struct sml_stripe *stripe, uint16_t *lanes);

/* The master's address. */
const char *sml_master_host(const struct sml_context *context);

/* The control connection gets its thread. 0 or an error, told. */
int sml_stripe_start_control(struct sml_stripe *stripe);

/*
 * For struct sml_crew_owner. A thread has seen that its shard (frozen, if it is to be parked) is
 * not as the stripe wants it. Looks again under the lock, under which the stripe changes its mind,
 * too: a thread that stood still since it looked must not take a worker that the next failover has
 * taken. True: it is parked now, or the thread's again, and counted.
 */
bool sml_stripe_park_shard(void *context, struct sml_shard *shard);

/* Ends the control connections, and frees the shards. No thread uses them any more. */
void sml_stripe_fini(struct sml_stripe *stripe);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks a switch considers dead: signs of life on the data path, under a virtual clock. */
#include "control/envelope.h"
#include "support/jobs.h"
#include "support/test.h"

#define MS	     1000000ull
#define HEARTBEAT_MS 10000u

static struct jobs_world world;

static int start_running(void **state)
{
	(void)state;
	jobs_open(&world, 4096, 64, false);
	jobs_join_all(&world, 0, "signs", 2);
	jobs_ready(&world, 0);
	jobs_ready(&world, 1);
	assert_true(sml_peer_runs(&world.peers[0].peer));
	return 0;
}

static int stop(void **state)
{
	(void)state;
	jobs_close(&world);
	return 0;
}

static void ping(unsigned rank)
{
	SmlControl__Ping message = SML_CONTROL__PING__INIT;

	jobs_say(&world, rank, sml_envelope(PING, ping, &message));
}

/* Time passes; rank 0 pings, and each of the ranks in the mask contributes. */
static void pass(unsigned ms, unsigned contributing)
{
	for (unsigned i = 0; i < ms / 100; i++) {
		for (unsigned rank = 0; rank < 2; rank++)
			world.contributions[rank] += contributing >> rank & 1;
		ping(0);
		jobs_wait_silently(&world, 100 * MS);
	}
}

static bool runs(void)
{
	return sml_peer_runs(&world.peers[1].peer);
}

TEST_WITH(silent_rank_dies_after_its_heartbeat, start_running, stop)
{
	pass(HEARTBEAT_MS - 300, 1);
	assert_true(runs());
	pass(300, 1);
	assert_false(runs());
}

TEST_WITH(rank_whose_contributions_come_is_not_dead, start_running, stop)
{
	pass(10 * HEARTBEAT_MS, 3);
	assert_true(runs());
	/* They end, and the rank counts as dead after one heartbeat, not two. */
	pass(HEARTBEAT_MS / 2, 1);
	assert_true(runs());
	pass(HEARTBEAT_MS / 2 + 100, 1);
	assert_false(runs());
}

TEST_WITH(contributions_before_the_last_message_prove_nothing, start_running, stop)
{
	pass(HEARTBEAT_MS / 2 + 300, 1); /* looked at, without having contributed */
	pass(200, 3);
	ping(1);
	pass(HEARTBEAT_MS - 300, 1);
	assert_true(runs());
	pass(300, 1);
	assert_false(runs());
}

TEST_WITH(ranks_that_ping_are_not_looked_for, start_running, stop)
{
	for (unsigned i = 0; i < 100; i++) {
		pass(HEARTBEAT_MS / 4, 3);
		ping(1);
	}
	assert_int_equal(world.n_looks, 0);
	assert_true(runs());
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks a switch considers dead: signs of life on the data path, under a virtual clock. */
#include "support/jobs.h"
#include "support/test.h"

#define MS	     1000000ull
#define HEARTBEAT_MS 10000u

#define LIVENESS_TEST(sentence) TEST_WITH(sentence, begin, jobs_close)

static void begin(void)
{
	jobs_open_usual();
	jobs_start(0, "signs", 2);
}

static void ping(unsigned rank)
{
	jobs_say_empty(rank, SML_CONTROL__ENVELOPE__BODY_PING);
}

/* Time passes; rank 0 pings, and each of the ranks in the mask contributes. */
static void pass(unsigned ms, unsigned contributing)
{
	for (unsigned i = 0; i < ms / 100; i++) {
		for (unsigned rank = 0; rank < 2; rank++)
			world.plane.contributions[rank] += contributing >> rank & 1;
		ping(0);
		jobs_wait_silently(100 * MS);
	}
}

static bool runs(void)
{
	return sml_peer_runs(&world.peers[1].peer);
}

LIVENESS_TEST(silent_rank_dies_after_its_heartbeat)
{
	pass(HEARTBEAT_MS - 300, 1);
	assert_true(runs());
	pass(300, 1);
	assert_false(runs());
}

LIVENESS_TEST(rank_whose_contributions_come_is_not_dead)
{
	pass(10 * HEARTBEAT_MS, 3);
	assert_true(runs());
	/* They end, and the rank counts as dead after one heartbeat, not two. */
	pass(HEARTBEAT_MS / 2, 1);
	assert_true(runs());
	pass(HEARTBEAT_MS / 2 + 100, 1);
	assert_false(runs());
}

LIVENESS_TEST(contributions_before_the_last_message_prove_nothing)
{
	pass(HEARTBEAT_MS / 2 + 300, 1); /* looked at, without having contributed */
	pass(200, 3);
	ping(1);
	pass(HEARTBEAT_MS - 300, 1);
	assert_true(runs());
	pass(300, 1);
	assert_false(runs());
}

LIVENESS_TEST(ranks_that_ping_are_not_looked_for)
{
	for (unsigned i = 0; i < 100; i++) {
		pass(HEARTBEAT_MS / 4, 3);
		ping(1);
	}
	assert_int_equal(world.plane.n_looks, 0);
	assert_true(runs());
}

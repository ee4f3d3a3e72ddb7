/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory runs out while a stripe's workers get the next epoch. Either all of them have it,
 * or none, and the failover can try again.
 */
#include "faults/fail_nth.h"
#include "lib/context/membership.h"
#include "support/stripe_rig.h"
#include "support/test.h"

#define SHARDS 3

static struct stripe_rig rig;

static void expect_epoch(uint32_t epoch)
{
	for (unsigned i = 0; i < SHARDS; i++)
		assert_int_equal(rig.stripe.shards[i]->worker.config.epoch, epoch);
}

/* Three shards, with the n-th allocation failing. Returns true if none failed. */
static bool renew(unsigned n)
{
	struct sml_transport *transports[SML_MAX_SHARDS] = {NULL};
	unsigned n_allocations;
	int error;

	stripe_rig_open(&rig, SHARDS);
	for (unsigned i = 0; i < SHARDS; i++) {
		transports[i] = stripe_rig_transport(&rig);
		sml_worker_freeze(&rig.stripe.shards[i]->worker);
	}
	rig.stripe.admission.epoch = 2;
	fail_arm(FAIL_ALLOCATIONS, n, false);
	error = sml_data_path_renew_shards(&rig.stripe, transports, true);
	n_allocations = fail_disarm();
	if (n_allocations >= n) {
		assert_int_not_equal(error, 0);
		expect_epoch(1);
		assert_non_null(transports[0]);
		error = sml_data_path_renew_shards(&rig.stripe, transports, true);
	}
	assert_int_equal(error, 0);
	expect_epoch(2);
	sml_data_path_close(transports);
	stripe_rig_close(&rig);
	return n_allocations < n;
}

TEST(all_workers_of_a_stripe_are_renewed_or_none)
{
	unsigned n = 1;

	while (!renew(n))
		n++;
	/* Each shard needs at least one allocation. */
	assert_true(n > SHARDS);
}

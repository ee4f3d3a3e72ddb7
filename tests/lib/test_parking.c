/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A progress thread whose switch has died. The failover owns its worker until there is
 * another switch. Meanwhile, the thread does not access the worker, and sleeps.
 */
#include <unistd.h>

#include "base/clock.h"
#include "lib/progress/progress.h"
#include "support/stripe_rig.h"
#include "support/test.h"

/* Timeout for expected events: longer than a busy machine stalls. */
#define PATIENCE_NS (30 * SML_NS_PER_SEC)

static struct stripe_rig rig;

static void open_rig(void)
{
	stripe_rig_open(&rig, 1);
}

static void close_rig(void)
{
	stripe_rig_close(&rig);
}

static void ask(bool to_park)
{
	__atomic_store_n(&rig.stripe.park, to_park, __ATOMIC_SEQ_CST);
	sml_threads_wake(&rig.context.threads);
}

/* As the failover waits for it. */
static void wait_until_parked(void)
{
	struct timespec until = sml_timespec(sml_now_ns() + PATIENCE_NS);
	int late = 0;

	pthread_mutex_lock(&rig.context.lock);
	while (rig.stripe.n_parked < rig.stripe.n_shards && !late)
		late = pthread_cond_timedwait(&rig.context.changed, &rig.context.lock, &until);
	pthread_mutex_unlock(&rig.context.lock);
	assert_int_equal(late, 0);
}

static void wait_until_it_rests(void)
{
	const struct sml_progress *thread = rig.context.threads.threads[0];
	uint64_t until_ns = sml_now_ns() + PATIENCE_NS;

	while (__atomic_load_n(&thread->resting, __ATOMIC_SEQ_CST) == SML_AWAKE) {
		if (sml_now_ns() > until_ns)
			fail_msg("the thread does not rest while its worker is parked");
		usleep(100);
	}
}

/*
 * The thread has seen that it has its worker back, and stalls before it counts itself. Then
 * the next switch dies: for the failover, the thread is still parked.
 */
TEST_WITH(a_switch_that_dies_while_a_thread_unparks_keeps_the_worker, open_rig, close_rig)
{
	ask(true);
	assert_int_equal(sml_progress_start(rig.context.threads.threads[0], sml_progress_main), 0);
	wait_until_parked();
	__atomic_store_n(&rig.holds, true, __ATOMIC_SEQ_CST);
	ask(false);
	sem_wait(&rig.held);
	/* The second death. */
	ask(true);
	wait_until_parked();
	__atomic_store_n(&rig.foreign, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&rig.holds, false, __ATOMIC_SEQ_CST);
	sem_post(&rig.go);
	wait_until_it_rests();
	assert_int_equal(__atomic_load_n(&rig.n_abuses, __ATOMIC_SEQ_CST), 0);
	pthread_mutex_lock(&rig.context.lock);
	assert_true(rig.stripe.shards[0]->parked);
	assert_int_equal(rig.stripe.n_parked, 1);
	pthread_mutex_unlock(&rig.context.lock);
	__atomic_store_n(&rig.foreign, false, __ATOMIC_SEQ_CST);
}

/* Packets that were held back when the switch died are never sent: their time has passed. */
TEST_WITH(a_thread_sleeps_while_its_worker_is_parked, open_rig, close_rig)
{
	rig.stripe.shards[0]->held_since_ns = 1;
	rig.stripe.shards[0]->line->held_since_ns = 1;
	ask(true);
	assert_int_equal(sml_progress_start(rig.context.threads.threads[0], sml_progress_main), 0);
	wait_until_parked();
	wait_until_it_rests();
}

/* Only sums that are to be exact depend on whether parts are rounded at the next switch. */
TEST_WITH(a_call_that_begins_while_a_stripe_moves_into_a_tree_does_not_wait, open_rig, close_rig)
{
	rig.context.shape.floats = rig.stripe.admission.floats = true;
	rig.stripe.admission.adds_parts = true;
	assert_null(sml_submit_hold(&rig.stripe));
	assert_true(sml_submit_fix_floats(&rig.context));
	sml_submit_decide(&rig.stripe, true);
	assert_true(sml_submit_fix_parts(&rig.context));
}

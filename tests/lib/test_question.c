/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the slots of a rank's own stripe wait for, where not all threads that have them answer in
 * time: a busy machine is no reason to say nothing.
 */
#include <sched.h>

#include "lib/control/stall_report.h"
#include "lib/progress/line.h"
#include "lib/progress/progress.h"
#include "lib/progress/threads.h"
#include "support/stripe_rig.h"
#include "support/test.h"

#define N_SHARDS 2
#define USE	 6

static struct stripe_rig rig;

/* Rank 2 has not contributed to any slot. */
static void open_rig(void)
{
	const struct sml_pool_rules rules = {.head_slots = 2 * N_SHARDS,
					     .data_slots = 8 * N_SHARDS,
					     .lanes = 64,
					     .n_ranks = 3,
					     .n_shards = N_SHARDS};
	struct sml_embedded_stripe *own;

	stripe_rig_open(&rig, N_SHARDS);
	own = sml_embedded_stripe_new(&rules, 0, NULL);
	assert_non_null(own);
	for (unsigned slot = 0; slot < 10 * N_SHARDS; slot++) {
		struct sml_slot *state_of = &own->pool.slots[2 * slot];

		state_of->state = SML_SLOT_FILLING;
		state_of->use = USE;
		state_of->seen = 1 << 0 | 1 << 1;
	}
	rig.context.threads.own = own;
}

static void close_rig(void)
{
	sml_embedded_stripe_free(rig.context.threads.own);
	stripe_rig_close(&rig);
}

/* Only rank 2 is missing, and only in the slots of these threads; nothing is known of others. */
static void expect_slots(const struct sml_stall_report *report, unsigned threads)
{
	struct sml_ranks missing;

	assert_non_null(report);
	assert_int_equal(report->waits.n_slots, 10 * N_SHARDS);
	for (unsigned slot = 0; slot < 10 * N_SHARDS; slot++) {
		assert_int_equal(sml_waits_knows(&report->waits, slot),
				 threads >> slot % N_SHARDS & 1);
		if (!sml_waits_knows(&report->waits, slot))
			continue;
		assert_int_equal(report->waits.slots[slot].use, USE);
		sml_waits_get(&report->waits, slot, &missing);
		assert_int_equal(sml_ranks_count(&missing), 1);
		assert_true(sml_ranks_has(&missing, 2));
	}
	assert_int_equal(report->waits.is_partial, threads != (1 << N_SHARDS) - 1);
}

static struct sml_stall_report *ask(void)
{
	return sml_question_query(&rig.context.threads, 0);
}

/* They have not started. */
TEST_WITH(threads_that_do_not_answer_leave_the_report_without_their_slots, open_rig, close_rig)
{
	struct sml_stall_report *report = ask();

	expect_slots(report, 0);
	sml_stall_report_close(report);
}

/* However long the other one takes to be run. */
static struct sml_stall_report *ask_until_answered(void)
{
	struct sml_stall_report *report = ask();

	while (!sml_waits_knows(&report->waits, 0)) {
		sml_stall_report_close(report);
		report = ask();
	}
	return report;
}

TEST_WITH(one_thread_that_does_not_answer_does_not_hide_the_slots_of_the_other, open_rig, close_rig)
{
	struct sml_stall_report *report;

	assert_int_equal(sml_progress_start(rig.context.threads.threads[0], sml_progress_main), 0);
	report = ask_until_answered();
	expect_slots(report, 1);
	sml_stall_report_close(report);
}

static void stop_all(struct sml_threads *threads)
{
	threads->n_stopped = N_SHARDS;
	pthread_cond_broadcast(&threads->changed);
}

TEST_WITH(the_slots_of_threads_that_have_stopped_are_looked_at, open_rig, close_rig)
{
	struct sml_stall_report *report;

	stop_all(&rig.context.threads);
	report = ask();
	expect_slots(report, (1 << N_SHARDS) - 1);
	sml_stall_report_close(report);
}

/* Until no thread runs any more. */
static void *ask_until_stopped(void *self)
{
	struct sml_stall_report *report = ask();

	(void)self;
	while (report->waits.is_partial) {
		sml_stall_report_close(report);
		report = ask();
	}
	return report;
}

/* Threads stop while one of them has answered a question, and the other one has not. */
static void stop_in_a_question(struct sml_threads *threads)
{
	const struct sml_embedded_stripe *own = threads->own;
	bool stopped = false;
	uint32_t seen = 0;

	while (!stopped) {
		sml_question_answer(threads, 0, &seen);
		pthread_mutex_lock(&threads->lock);
		stopped = own->question.report != NULL && own->question.n_answered == 1;
		if (stopped)
			stop_all(threads);
		pthread_mutex_unlock(&threads->lock);
	}
}

TEST_WITH(threads_that_stop_in_a_question_are_looked_at_for_what_is_not_answered, open_rig,
	  close_rig)
{
	pthread_t asks;
	void *report;

	assert_int_equal(pthread_create(&asks, NULL, ask_until_stopped, NULL), 0);
	stop_in_a_question(&rig.context.threads);
	assert_int_equal(pthread_join(asks, &report), 0);
	expect_slots(report, (1 << N_SHARDS) - 1);
	sml_stall_report_close(report);
}

static void *ask_once(void *self)
{
	(void)self;
	return ask();
}

/* Answer for one thread, until it has been asked so often. */
static void answer_until(struct sml_threads *threads, unsigned thread, uint32_t *seen,
			 uint32_t number)
{
	while (*seen < number) {
		sched_yield();
		sml_question_answer(threads, thread, seen);
	}
}

/* One that is answered in time has all slots; one that is not says that it has not. */
static void expect_honest(const struct sml_stall_report *report)
{
	unsigned threads = 0;

	for (unsigned i = 0; i < N_SHARDS; i++)
		threads |= (unsigned)sml_waits_knows(&report->waits, i) << i;
	expect_slots(report, threads);
}

TEST_WITH(two_that_ask_at_once_do_not_take_each_others_answers, open_rig, close_rig)
{
	struct sml_threads *threads = &rig.context.threads;
	uint32_t seen[N_SHARDS] = {0};
	pthread_t asks[2];
	void *report;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&asks[i], NULL, ask_once, NULL), 0);
	/* The second question comes while an answer to the first one is missing. */
	answer_until(threads, 0, &seen[0], 1);
	for (unsigned i = 0; i < N_SHARDS; i++)
		answer_until(threads, i, &seen[i], 2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(asks[i], &report), 0);
		expect_honest(report);
		sml_stall_report_close(report);
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All or none: a call in which a rank dies is complete on all that go on, or on none of them.
 * Every call adds values of its own, so that whoever completes it later has the right bits.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/members.h"
#include "support/ranks.h"
#include "support/test.h"

/* The others need so long to end their calls without it. */
#define STALL_US 5000
/* ThreadSanitizer makes all so slow that members hardly ever differ: it looks for races only. */
#ifdef __SANITIZE_THREAD__
#define MOST_TRIES 3
#define NEEDS_LUCK false
#else
#define MOST_TRIES 15
#define NEEDS_LUCK true
#endif
static int places[MAX_PROCESSES], n_handed;
static unsigned slowness = 1; /* of the switch: all waits are so many times as long */

static struct order call_as(int members)
{
	return (struct order){.verb = CALL_UNTIL_ONE_FAILS, .members = members};
}

/* They are told to join. What has come of calls that had failed is noted, where it is told. */
static void note_places(int members, bool all_join)
{
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = read_answer(i);
		if (all_join && answer.result)
			fail_msg("process %d: %d: %s", i, answer.result, answer.text);
		if (answer.result == 0 && answer.place >= 0) {
			places[i] = answer.place;
			n_handed += answer.handed;
		}
	}
}

static void expect_the_same_place(int members)
{
	int first = __builtin_ctz((unsigned)members);

	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1 && places[i] != places[first])
			fail_msg("process %d has completed %x calls, and process %d %x", i,
				 places[i], first, places[first]);
}

static struct order to_job_as_they_are(const char *name)
{
	struct order order = to_job(name, 0);

	order.keeps = true;
	return order;
}

/*
 * All n call, and one of them dies. Another one stalls before: then it has often contributed to a
 * call that only others complete. Their switch may have died, so another one takes over by then.
 */
static void die_while_all_call(int n, int dying, bool with_switch, unsigned wait_us)
{
	const int all = (1 << n) - 1, stalled = (dying + 2) % n;

	let(all, to_job("first", 0));
	send_orders(all, call_as(all));
	usleep((20000 + wait_us) * slowness);
	if (with_switch) {
		switch_process_kill(&root);
		usleep(20000 + 10 * wait_us);
	}
	kill(processes[stalled].pid, SIGSTOP);
	usleep(STALL_US * slowness);
	end_process(dying);
	kill(processes[stalled].pid, SIGCONT);
	expect(all & ~(1 << dying), SML_ERROR_RANK_DIED, 0);
}

/* `dying` is killed while they call, and `late` when the others may already join without it. */
static void die_and_settle(int n, int dying, int late, unsigned wait_us)
{
	int left = ((1 << n) - 1) & ~(1 << dying);

	start_all(n + 1);
	die_while_all_call(n, dying, false, wait_us);
	if (late >= 0) {
		struct order early = to_job_as_they_are("second");

		/* Or it dies before it has come, and they wait in vain. */
		early.timeout_ms = 1000;
		send_orders(left, early);
		usleep(wait_us);
		end_process(late);
		left &= ~(1 << late);
		note_places(left, false);
	}
	/* A new one takes part, and has nothing to settle. */
	send_orders(left | 1 << n, to_job_as_they_are("third"));
	note_places(left | 1 << n, true);
	expect_the_same_place(left);
	let(left | 1 << n, make_sum);
	end_all();
}

/*
 * Until a call was completed late, which needs luck: where all share memory, they have nearly the
 * same results at each time. So not each form must have had it.
 */
static int settle_in_this_form(unsigned *seed)
{
	n_handed = 0;
	for (int tries = 0; tries < MOST_TRIES && (n_handed == 0 || tries < 3); tries++) {
		unsigned wait_us = (unsigned)rand_r(seed) % 20000;

		die_and_settle(4, tries % 4, tries % 2 ? (tries + 1) % 4 : -1, wait_us);
	}
	return n_handed;
}

TEST(a_call_is_complete_on_all_that_go_on_or_on_none)
{
	unsigned seed = (unsigned)sml_now_ns();
	int forms_with_luck = 0;

	print_message("seed %u\n", seed);
	start_switches();
	/* Results that are lost are late on one rank. */
	faults = "drop=50000";
	const struct form forms[] = {
		{root_address, NULL, false, 0},		{root_address, NULL, true, 0},
		{root_address, NULL, true, 1 << 2},	{both_addresses, NULL, false, 0},
		{both_addresses, NULL, true, 1 << 3},	{leaf_address, NULL, false, 0},
		{root_address, leaf_address, false, 0},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		form = forms[i];
		forms_with_luck += settle_in_this_form(&seed) > 0;
	}
	if (NEEDS_LUCK && forms_with_luck < 2)
		fail_msg("calls were completed late in %d forms only", forms_with_luck);
	faults = NULL;
	end_switches();
}

/* Between namespaces, for example, with a switch in the kernel (elastic-xdp.sh) or BMv2 (p4.sh). */
TEST(so_it_is_at_a_switch_that_runs_elsewhere)
{
	unsigned seed = (unsigned)sml_now_ns();
	const char *there = getenv("SETTLE_AT"), *slow = getenv("SETTLE_SLOWNESS");

	if (there == NULL)
		skip();
	print_message("seed %u\n", seed);
	faults = "drop=50000";
	form = (struct form){.switch_address = there};
	if (slow != NULL)
		slowness = (unsigned)atoi(slow);
	if (settle_in_this_form(&seed) == 0 && NEEDS_LUCK)
		fail_msg("no call was completed late");
	faults = NULL;
}

/* They ask the switch who goes on; or it has died, and they have a list. */
static void settle_once(bool with_switch, unsigned *seed)
{
	const int dying = rand_r(seed) % 4, left = 15 & ~(1 << dying);
	struct order order = with_switch ? to_job_as_they_are("second") : ask;

	order.keeps = true;
	die_while_all_call(4, dying, with_switch, (unsigned)rand_r(seed) % 20000);
	send_orders(left, order);
	note_places(left, true);
	expect_the_same_place(left);
	let(left, make_sum);
	end_all();
}

TEST(so_it_is_where_the_switch_decides)
{
	unsigned seed = (unsigned)sml_now_ns();

	print_message("seed %u\n", seed);
	start_switches();
	faults = "drop=50000";
	n_handed = 0;
	form = (struct form){.switch_address = root_address};
	for (int tries = 0; tries < 4 * MOST_TRIES && (n_handed == 0 || tries < 3); tries++) {
		start_all(4);
		settle_once(false, &seed);
	}
	assert_true(n_handed > 0 || !NEEDS_LUCK);
	faults = NULL;
	end_switches();
}

TEST(so_it_is_where_another_switch_has_taken_over_or_is_about_to)
{
	unsigned seed = (unsigned)sml_now_ns();

	print_message("seed %u\n", seed);
	faults = "drop=50000";
	heartbeat_ms = FROZEN_HEARTBEAT_MS;
	n_handed = 0;
	for (int tries = 0; tries < 4 * MOST_TRIES && (n_handed == 0 || tries < 4); tries++) {
		start_with_standby(tries % 2);
		settle_once(true, &seed);
		switch_process_kill(&leaf);
		switch_process_kill(&second);
	}
	assert_true(n_handed > 0 || !NEEDS_LUCK);
	heartbeat_ms = 0;
	faults = NULL;
}
int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	if (argc > 1)
		test_select(argv[1]);
	return test_run(NULL, NULL);
}

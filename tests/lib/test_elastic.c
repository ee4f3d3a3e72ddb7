/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks die, leave and join, and the others go on with sml_reconfigure(). Every rank is a process,
 * so that it can be killed or frozen.
 *
 * The property: a sum is that of the members of exactly one membership. Each process contributes
 * a bit of its own, so a sum of int32 names those whose contributions it has.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/members.h"
#include "support/ranks.h"
#include "support/test.h"

/* How a job runs: in the first four forms all ranks are at the same dedicated switches. */
#define N_DEDICATED 4

static const struct form forms[] = {
	{root_address, NULL, false, 0},
	{root_address, NULL, true, 0},
	{both_addresses, NULL, false, 0},
	{leaf_address, NULL, false, 0},
	{root_address, leaf_address, true, 0},
	{NULL, NULL, false, 0},
	{NULL, NULL, true, 0},
	{"embedded", NULL, false, 0},
};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

/* ---- the switch decides ---- */

/* They wait at the switch until the job's ranks let them in, who know how many there are. */
static void wait_to_join(int members, int joiners, const char *job)
{
	struct order wish = to_job(job, 0);
	const struct order await = {.verb = AWAIT_JOINERS,
				    .joiners = __builtin_popcount((unsigned)joiners)};

	wish.asks = true;
	send_orders(joiners, wish);
	let(members, await);
}

/* All of them sum, and those in `dying` are killed in the call. */
static void die_in_a_sum(int members, int dying)
{
	send_orders(members, sum_on);
	usleep(20000);
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (dying >> i & 1)
			end_process(i);
	expect(members & ~dying, SML_ERROR_RANK_DIED, 0);
}

/* As survive() and die_and_join(). */
static void survive_without_a_list(int members, int dying, int joining, struct order order)
{
	const int left = members & ~dying;

	if (joining)
		wait_to_join(members, joining, "decided");
	die_in_a_sum(members, dying);
	send_orders(left, order);
	expect_decision(members, left, joining);
}

static void die_and_be_decided_on(int n)
{
	const int all = (1 << n) - 1;
	struct order patient = ask;

	/* Of two ranks that die together, the switch may see the second one go after it has told it
	 * of the first.
	 */
	patient.wait_ms = 10 * SOON_MS;
	start_all(n + 2);
	let(all, to_job("decided", 0));
	let(all, make_sum);
	survive_without_a_list(all, 1 << 1, 0, patient);
	survive_without_a_list(all & ~2, 1 << 0 | 1 << (n - 1), 0, patient);
	/* New ones are let in without an error, and after one. */
	int members = all & ~(1 << 0 | 1 << 1 | 1 << (n - 1));

	wait_to_join(members, 1 << n, "decided");
	send_orders(members, ask);
	expect_decision(members, members, 1 << n);
	members |= 1 << n;
	survive_without_a_list(members, 1 << 2, 1 << (n + 1), ask);
	members = (members & ~(1 << 2)) | 1 << (n + 1);
	let(members, leave);
	end_all();
}

/* One dies when the others have asked, and it has learned of that: they do not wait for it. */
TEST_WITH(who_dies_without_asking_is_not_waited_for, start_switches, end_switches)
{
	struct order patient = ask;

	patient.wait_ms = 10 * SOON_MS;
	for (size_t i = 0; i < N_DEDICATED; i++) {
		form = forms[i];
		start_all(3);
		let(7, to_job("decided", 0));
		send_orders(1 << 2, sum_on);
		send_orders(3, patient);
		expect(1 << 2, SML_ERROR_ABORTED, 0);
		end_process(2);
		expect_decision(7, 3, 0);
		let(3, leave);
		end_all();
	}
}

/* ---- deaths ---- */

/* One dies when the others have gone on with a list that has it. */
TEST_WITH(a_member_of_a_list_that_dies_is_not_waited_for, start_switches, end_switches)
{
	struct order list = to_job("with it", free_port());

	list.was = 7;
	/* If it dies before another one comes with the list, it may be on its way for so long. */
	heartbeat_ms = FROZEN_HEARTBEAT_MS;
	for (size_t i = 0; i < N_FORMS; i++) {
		form = forms[i];
		start_all(3);
		let(7, to_job("first", list.port));
		send_orders(1 << 2, sum_on);
		list.world_size = 3;
		list.members = 7;
		for (list.rank = 0; list.rank < 2; list.rank++)
			send_order(list.rank, &list);
		expect(1 << 2, SML_ERROR_ABORTED, 0);
		end_process(2);
		expect(3, SML_ERROR_RANK_DIED, 0);
		let(3, to_job("without it", list.port));
		let(3, make_sum);
		let(3, leave);
		end_all();
	}
	heartbeat_ms = 0;
}

static void survive(int members, int dying, const char *next, int port)
{
	int left = members & ~dying;
	struct order list = to_job(next, port);

	list.was = members;
	die_in_a_sum(members, dying);
	let(left, list);
	let(left, make_sum);
}

/* A rank dies, and rank 0 with another one, and then new processes join. */
static void die_and_join(int n)
{
	const int port = free_port();
	int members = (1 << n) - 1;

	start_all(n + 2);
	let(members, to_job("first", port));
	let(members, make_sum);
	survive(members, 1 << 1, "second", port);
	members &= ~(1 << 1);
	/* Without a switch, the control port dies with rank 0. */
	survive(members, 1 << 0 | 1 << (n - 1), "third", port);
	members &= ~(1 << 0 | 1 << (n - 1));
	/* The new ones have never been in a job, and become the last ranks. */
	members |= 3 << n;
	let(members, to_job("fourth", port));
	let(members, make_sum);
	let(members, leave);
	end_all();
}

TEST_WITH(the_others_go_on_after_deaths_and_new_processes_join, start_switches, end_switches)
{
	/* Beside the forms above: one rank shares no memory. */
	const struct form more[] = {
		{NULL, NULL, true, 1 << 2},
		{root_address, NULL, true, 1 << 2},
		{both_addresses, NULL, true, 1 << 3},
	};

	for (size_t i = 0; i < N_FORMS + sizeof(more) / sizeof(more[0]); i++) {
		form = i < N_FORMS ? forms[i] : more[i - N_FORMS];
		die_and_join(i % 2 ? 8 : 4);
		if (form.switch_address && strcmp(form.switch_address, "embedded") != 0)
			die_and_be_decided_on(i % 2 ? 8 : 4);
	}
}

static void let_the_switch_die_while_they_join(void)
{
	start_with_standby(false);
	let(15, to_job("first", 0));
	send_orders(15, sum_on);
	end_process(3);
	expect(7, SML_ERROR_RANK_DIED, 0);
	/* Of three ranks, rank 0 has asked, or is about to, when the switch dies. */
	struct order order = to_job("second", 0);

	order.world_size = 3;
	send_order(0, &order);
	usleep(20000);
	switch_process_kill(&root);
	for (order.rank = 1; order.rank < 3; order.rank++)
		send_order(order.rank, &order);
	expect(7, 0, 0);
	let(7, make_sum);
	let(7, leave);
	end_all();
	end_switches();
}

TEST(they_go_on_with_a_job_key)
{
	struct sml_info info = SML_INFO_INIT;

	sml_get_info(NULL, &info);
	if (!info.has_tls)
		skip();
	switch_process_set_key("a secret of the elastic job");
	start_switches();
	form = (struct form){root_address, leaf_address, true, 0};
	die_and_join(4);
	form = (struct form){.switch_address = NULL};
	die_and_join(4);
	end_switches();
	let_the_switch_die_while_they_join();
	switch_process_set_key(NULL);
}

/* ---- errors during it ---- */

TEST(the_switch_may_die_while_they_join)
{
	let_the_switch_die_while_they_join();
}

/* Nobody is left that has seen it die. The others learn it at the next switch. */
TEST(a_rank_that_dies_with_the_switch_is_missed_there)
{
	uint64_t began;

	heartbeat_ms = FROZEN_HEARTBEAT_MS;
	for (int shares = 0; shares < 2; shares++) {
		start_with_standby(shares);
		let(15, to_job("first", 0));
		send_orders(15, sum_on);
		usleep(20000);
		began = now_ms();
		switch_process_kill(&root);
		end_process(3);
		expect(7, SML_ERROR_RANK_DIED, 0);
		/* Otherwise it takes as long as a call may. */
		if (now_ms() - began > 30000)
			fail_msg("it took %d ms", (int)(now_ms() - began));
		let(7, to_job("second", 0));
		let(7, make_sum);
		let(7, leave);
		end_all();
		end_switches();
	}
	heartbeat_ms = 0;
}

TEST_WITH(a_rank_that_dies_before_it_has_joined_is_missed_within_the_limit, start_switches,
	  end_switches)
{
	struct order order = to_job("second", free_port());

	for (int with_switch = 0; with_switch < 2; with_switch++) {
		form = (struct form){.switch_address = with_switch ? root_address : NULL};
		start_all(4);
		let(15, to_job("first", order.port));
		send_orders(15, sum_on);
		end_process(3);
		expect(7, SML_ERROR_RANK_DIED, 0);
		/* Process 2 dies as well, and the others do not know it yet. */
		end_process(2);
		order.world_size = 3;
		order.timeout_ms = 1000;
		for (order.rank = 0; order.rank < 2; order.rank++)
			send_order(order.rank, &order);
		for (int i = 0; i < 2; i++) {
			struct answer answer = read_answer(i);

			/* Without a switch, rank 0's port may be gone when rank 1 looks again. On a
			 * busy machine, the other may be late, too.
			 */
			if (answer.result == 0 ||
			    (with_switch && strstr(answer.text, "rank 2") == NULL &&
			     strstr(answer.text, " and 2 of 3 ") == NULL))
				fail_msg("%d: %s", answer.result, answer.text);
		}
		/* The context has no job, but it can be in one again. */
		send_orders(3, make_sum);
		for (int i = 0; i < 2; i++)
			assert_int_not_equal(read_answer(i).result, 0);
		let(3, to_job("third", order.port));
		let(3, make_sum);
		let(1, to_job("alone", order.port));
		let(1, make_sum);
		let(3, to_job("again", order.port));
		let(3, make_sum);
		let(3, leave);
		end_all();
	}
}

/* Processes 0 and 1 cannot meet, and say so. They have no job then, and can be in one again. */
static void expect_to_part(const char *next, int port)
{
	for (int i = 0; i < 2; i++)
		assert_int_not_equal(read_answer(i).result, 0);
	let(3, to_job(next, port));
	let(3, make_sum);
}

TEST_WITH(a_member_that_closes_or_has_another_list_is_an_error_within_the_limit, start_switches,
	  end_switches)
{
	struct order order = to_job("", free_port());

	for (int with_switch = 0; with_switch < 2; with_switch++) {
		form = (struct form){.switch_address = with_switch ? root_address : NULL};
		start_all(3);
		let(7, to_job("first", order.port));
		let(7, make_sum);
		/* Process 2 leaves, while the others go on with it. */
		snprintf(order.job, sizeof(order.job), "second");
		order.timeout_ms = 1000;
		order.world_size = 3;
		for (order.rank = 0; order.rank < 2; order.rank++)
			send_order(order.rank, &order);
		send_order(2, &leave);
		(void)read_answer(2);
		expect_to_part("third", order.port);
		/* Process 1 has not heard of another member. */
		snprintf(order.job, sizeof(order.job), "fourth");
		for (order.rank = 0; order.rank < 2; order.rank++) {
			order.world_size = 3 - order.rank;
			send_order(order.rank, &order);
		}
		expect_to_part("fifth", order.port);
		let(3, leave);
		end_all();
	}
}

/* It gets this error, at once. */
static void expect_refusal(int i, int result, const char *part)
{
	const uint64_t began = now_ms();
	struct answer answer = read_answer(i);

	if (answer.result != result || strstr(answer.text, part) == NULL)
		fail_msg("process %d: %d: \"%s\" should say \"%s\"", i, answer.result, answer.text,
			 part);
	if (now_ms() - began > SOON_MS / 2)
		fail_msg("process %d has waited for %d ms", i, (int)(now_ms() - began));
}

/*
 * Process 0 lets the switch decide, and the others have a list. Whoever comes first there: the
 * list's members go on or do not, and process 0 never does.
 */
static void use_both_ways(void)
{
	static const char told[] = "all ranks must do the same";
	struct answer answers[3];

	let(7, make_sum);
	send_order(0, &ask);
	send_orders(6, to_job("a list", 0));
	expect_refusal(0, SML_ERROR_MISMATCH, told);
	for (int i = 1; i < 3; i++)
		answers[i] = read_answer(i);
	/* Of two stripes, the second says what the other rank was told. */
	for (int i = 1; i < 3; i++)
		if ((answers[1].result == 0) != (answers[2].result == 0) ||
		    (answers[i].result && strstr(answers[i].text, told) == NULL))
			fail_msg("process %d: %d: %s", i, answers[i].result, answers[i].text);
	if (answers[1].result == 0)
		let(6, make_sum);
	let(7, to_job("all have a list", 0));
	let(7, make_sum);
	let(7, leave);
	end_all();
}

TEST_WITH(ranks_that_go_on_in_both_ways_are_told_so_and_do_not_compute_apart, start_switches,
	  end_switches)
{
	char list[80];

	snprintf(list, sizeof(list), "%s|127.0.0.1:%u", root_address, second.port);
	for (size_t i = 0; i <= N_DEDICATED; i++) {
		form = i < N_DEDICATED ? forms[i] : (struct form){.switch_address = list};
		/* The job runs at the second switch; a list begins at the first. */
		if (form.switch_address == list)
			switch_process_kill(&root);
		start_all(3);
		let(7, to_job("first", 0));
		if (form.switch_address == list)
			switch_process_start(&root);
		use_both_ways();
	}
}

TEST(the_switch_forms_no_second_membership_and_none_that_is_too_small)
{
	struct order few = ask, quick = ask, nobody = {.verb = AWAIT_JOINERS};
	start_with_standby(false);
	let(7, to_job("decided", 0));
	send_orders(7, sum_on);
	end_process(2);
	expect(3, SML_ERROR_RANK_DIED, 0);
	/* Too few; and then enough. */
	few.min_ranks = 3;
	few.wait_ms = quick.wait_ms = 300;
	send_orders(3, few);
	/* A busy machine may let each wait alone. */
	expect_refusal(0, SML_ERROR_REFUSED, "too few ranks to go on: ");
	expect_refusal(1, SML_ERROR_REFUSED, "too few ranks to go on: ");
	send_orders(3, ask);
	expect_decision(7, 3, 0);
	/* Process 1 asks too late, and process 3 dies while it waits. */
	wait_to_join(3, 1 << 3, "decided");
	end_process(3);
	let(3, nobody);
	send_order(0, &quick);
	expect_decision(3, 1, 0);
	send_order(1, &ask);
	expect_refusal(1, SML_ERROR_REFUSED, "too late");
	/* It can be let in as a new process. */
	send_order(1, &leave);
	(void)read_answer(1);
	wait_to_join(1, 1 << 1, "decided");
	send_order(0, &ask);
	expect_decision(1, 1, 1 << 1);
	/* The switch dies, and a rank, which another switch cannot know. */
	end_process(1);
	switch_process_kill(&root);
	send_order(0, &quick);
	expect_refusal(0, SML_ERROR_TIMEOUT, "your program must decide");
	let(1, to_job("another name", 0));
	let(1, make_sum);
	let(1, leave);
	end_all();
	end_switches();
}

/* Three jobs of three at once. The frozen one is process 1 of each. */
TEST_WITH(a_frozen_rank_of_the_old_job_changes_nothing, start_switches, end_switches)
{
	const int ports[] = {free_port(), free_port(), free_port()};
	char names[3][2][16];

	const struct form of_jobs[] = {{root_address, NULL, false, 0},
				       {root_address, NULL, true, 0},
				       {NULL, NULL, true, 0}};

	for (int i = 0; i < 9; i++) {
		form = of_jobs[i / 3];
		heartbeat_ms = i % 3 == 1 ? FROZEN_HEARTBEAT_MS : 60000;
		start_process(i);
	}
	heartbeat_ms = 0;
	for (int j = 0; j < 3; j++) {
		snprintf(names[j][0], sizeof(names[j][0]), "frozen %d", j);
		snprintf(names[j][1], sizeof(names[j][1]), "thawed %d", j);
		let(7 << 3 * j, to_job(names[j][0], ports[j]));
		send_orders(7 << 3 * j, sum_on);
	}
	usleep(20000);
	for (int j = 0; j < 3; j++)
		kill(processes[3 * j + 1].pid, SIGSTOP);
	for (int j = 0; j < 3; j++) {
		expect(5 << 3 * j, SML_ERROR_RANK_DIED, 0);
		let(5 << 3 * j, to_job(names[j][1], ports[j]));
		let(5 << 3 * j, make_sum);
		send_orders(5 << 3 * j, sum_on);
		kill(processes[3 * j + 1].pid, SIGCONT);
	}
	/*
	 * It gets an error, and what it has summed before is of the old members: nothing, if it had
	 * no processor before it froze.
	 */
	for (int j = 0; j < 3; j++) {
		struct answer answer = read_answer(3 * j + 1);

		assert_int_not_equal(answer.result, 0);
		assert_int_equal(answer.sum, answer.calls ? 7 << 3 * j : 0);
		/* The others have been summing all the time, without it. */
		end_process(3 * j + 2);
		answer = read_answer(3 * j);
		assert_int_equal(answer.result, SML_ERROR_RANK_DIED);
		assert_int_equal(answer.sum, answer.calls ? 5 << 3 * j : 0);
	}
	end_all();
}
/* ---- how long it takes: test_elastic --measure 20 ---- */

#define MEASURED_RANKS 8
#define MEASURED_MOST  1000

/* From the kill on, in milliseconds. */
struct times {
	double told, joined, summed;
};

static int earlier(const void *a, const void *b)
{
	double first = *(const double *)a, other = *(const double *)b;

	return (first > other) - (first < other);
}

static double since(uint64_t began_ns)
{
	return (double)(sml_now_ns() - began_ns) / SML_NS_PER_MS;
}

/* One of eight is killed in a call, at any moment of it: until seven have their next sum. */
static struct times measure_one(unsigned number)
{
	const int all = (1 << MEASURED_RANKS) - 1, dying = 1 << number % MEASURED_RANKS;
	char next[32];
	struct times times;
	uint64_t began_ns;

	snprintf(next, sizeof(next), "after %u", number);
	send_orders(all, sum_on);
	usleep(50000 + number * 7919 % 20000);
	began_ns = sml_now_ns();
	kill(processes[number % MEASURED_RANKS].pid, SIGKILL);
	expect(all & ~dying, SML_ERROR_RANK_DIED, 0);
	times.told = since(began_ns);
	let(all & ~dying, to_job(next, 0));
	times.joined = since(began_ns);
	let(all & ~dying, make_sum);
	times.summed = since(began_ns);
	return times;
}

static void print_row(const char *what, double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), earlier);
	printf("%-34s %8.1f %8.1f %8.1f\n", what, values[0],
	       (values[(n - 1) / 2] + values[n / 2]) / 2, values[n - 1]);
}

static int measure(unsigned n)
{
	static double told[MEASURED_MOST], joined[MEASURED_MOST], summed[MEASURED_MOST];

	start_switches();
	form = (struct form){.switch_address = root_address};
	for (unsigned i = 0; i < n; i++) {
		char name[32];
		struct times times;

		snprintf(name, sizeof(name), "before %u", i);
		start_all(MEASURED_RANKS);
		let((1 << MEASURED_RANKS) - 1, to_job(name, 0));
		times = measure_one(i);
		told[i] = times.told;
		joined[i] = times.joined;
		summed[i] = times.summed;
		end_all();
	}
	end_switches();
	printf("kill -9 of 1 of %d ranks, %u times; ms     least   median     most\n",
	       MEASURED_RANKS, n);
	print_row("until all survivors have the error", told, n);
	print_row("until they have joined again", joined, n);
	print_row("until they have the next sum", summed, n);
	return 0;
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	if (argc == 3 && strcmp(argv[1], "--measure") == 0) {
		long n = strtol(argv[2], NULL, 10);

		return n < 1 || n > MEASURED_MOST ? 2 : measure((unsigned)n);
	}
	if (argc > 1)
		test_select(argv[1]);
	return test_run();
}

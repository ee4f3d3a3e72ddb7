/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine without resources: the n-th allocation, system call or descriptor fails, for n = 1,
 * 2, 3, … until no call fails in a whole run of the scenario. Each run ends within its time.
 * Every call either does what it reports or returns an error with a text. No descriptor, no
 * thread and (under AddressSanitizer) no memory is left behind. The next run, in which
 * nothing fails, succeeds.
 *
 *	test_exhaustion            what fits into minutes: every n of descriptors, some of the rest
 *	test_exhaustion --all      every n of every scenario, and once more with all
 *	                           that follow the n-th failing, too
 *	test_exhaustion NAME       that scenario
 *	test_exhaustion K/N        the K-th, the (K+N)-th, … of the scenarios
 *	test_exhaustion NAME N [onwards]
 *	                           that run alone, with texts; a negative N: system calls
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "faults/exhaustion_calls.h"
#include "faults/exhaustion_rank.h"
#include "faults/fail_nth.h"
#include "support/count_entries.h"
#include "support/ranks.h"
#include "support/switch_process.h"
#include "switch/switch.h"

#define HEARTBEAT_MS 300
#define PATIENCE_MS  5000 /* of runs without failures: a busy machine stalls for less time */
#define CALM_RUNS    4	  /* this many runs in a row without a failure end the test */
#define RUN_SECONDS  90	  /* deadlines, heartbeats and patience are much shorter */

/* From AddressSanitizer, if it is present. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern void __sanitizer_set_report_fd(void *fd) __attribute__((weak));

/* ---- what a run must not leave behind ---- */

/* A joined thread disappears from this list a moment later. */
static unsigned count_threads(unsigned expected)
{
	unsigned n = count_entries(THREADS_FOLDER);

	for (int i = 0; i < 20000 && n > expected; i++) {
		usleep(1000);
		n = count_entries(THREADS_FOLDER);
	}
	return n;
}

/* ---- scenarios: return a complaint, or "" ---- */

static struct body bodies[2];
static bool shares_memory;  /* the ranks are a host group */
static bool calls_all;	    /* as of struct body */
static bool nothing_fails;  /* then everything has to succeed */
static bool one_allocation; /* fails, and all other calls succeed */

static void set_up_bodies(int n, const char *switch_address, int port)
{
	for (int i = 0; i < n; i++)
		bodies[i] = (struct body){
			.job = {.n_ranks = n,
				.switch_address = switch_address,
				.port = port,
				.host_group = shares_memory,
				.timeout_ms = nothing_fails ? PATIENCE_MS : TIMEOUT_MS,
				.heartbeat_ms = nothing_fails ? PATIENCE_MS : HEARTBEAT_MS},
			.rank = i,
			.calls = true,
			.calls_all = calls_all,
		};
}

/* A rank and its embedded switch. */
static const char *alone(void)
{
	set_up_bodies(1, NULL, 0);
	run_body(&bodies[0]);
	return bodies[0].complaint;
}

static const char *run_switch(struct sml_switch **opened, char *address, size_t bytes)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.threads = 2;
	config.debug = 0;
	sml_error_set(0, "%s", "");
	if (sml_switch_open(opened, &config) < 0)
		return sml_error_last()[0] && !*opened
			       ? NULL
			       : "the switch did not open, and says nothing";
	snprintf(address, bytes, "127.0.0.1:%u", sml_switch_port(*opened));
	return "";
}

static void *rank_main(void *argument)
{
	pthread_barrier_wait(&begin);
	run_body(argument);
	return NULL;
}

/*
 * A rank that cannot open for want of memory tells the others. Only where the message itself has
 * no memory do they see no more than its end.
 */
static void demand_cause(void)
{
	for (int i = 0; one_allocation && i < 2; i++)
		if (bodies[i].opened == -ENOMEM && strstr(last_errors[1 - i], ") died") &&
		    !strstr(last_errors[i], "no memory for a control message"))
			lie(&bodies[1 - i], last_errors[i], bodies[1 - i].reduced,
			    last_errors[1 - i]);
}

/* One rank, or two. The second one is another thread of the test. */
static void (*switch_dies)(void);

static const char *run_ranks(int n, const char *address, bool second_calls, const char *recorder)
{
	pthread_t thread;

	set_up_bodies(n, address, 0);
	memset(last_errors, 0, sizeof(last_errors));
	for (int i = 0; i < n; i++)
		bodies[i].job.record = recorder;
	if (n == 1) {
		run_body(&bodies[0]);
		return bodies[0].complaint;
	}
	for (int i = 0; switch_dies && i < n; i++) {
		bodies[i].loses = switch_dies;
		bodies[i].job.timeout_ms = PATIENCE_MS / 2;
	}
	bodies[1].calls = second_calls;
	fail_exempt(true);
	pthread_barrier_init(&begin, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, rank_main, &bodies[1]), 0);
	fail_exempt(false);
	pthread_barrier_wait(&begin);
	run_body(&bodies[0]);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&begin);
	demand_cause();
	return bodies[0].complaint[0] ? bodies[0].complaint : bodies[1].complaint;
}

/* All calls of the last ranks succeeded; otherwise a complaint. */
static const char *demand_success(const char *complaint)
{
	for (int i = 0; i < bodies[0].job.n_ranks && !*complaint; i++) {
		if (!bodies[i].opened && !bodies[i].reduced && !bodies[i].closed)
			continue;
		lie(&bodies[i], "the job cannot be formed again", bodies[i].opened, last_errors[i]);
		complaint = bodies[i].complaint;
	}
	return complaint;
}

/*
 * Form the same job again, now without failures. A switch that was delayed may first have to
 * notice that the previous ranks are gone.
 */
static const char *form_again(int n, const char *address)
{
	/* One try may last for the whole patience, if one rank was refused and the other waits. */
	uint64_t until_ms = now_ms() + 3 * PATIENCE_MS;
	const char *complaint;

	nothing_fails = true;
	do {
		complaint = demand_success(run_ranks(n, address, true, NULL));
		if (!*complaint)
			break;
		usleep(200000);
	} while (now_ms() < until_ms);
	nothing_fails = false;
	return complaint;
}

/* Separate switches, which the ranks share as stripes. Then the same again. */
static const char *with_switches(int n_switches, int n_ranks, bool second_calls,
				 const char *recorder)
{
	struct sml_switch *opened[2] = {NULL};
	const char *complaint = "";
	char addresses[2][32], all[80];

	for (int i = 0; i < n_switches && complaint && !*complaint; i++)
		complaint = run_switch(&opened[i], addresses[i], sizeof(addresses[i]));
	if (complaint && !*complaint) {
		snprintf(all, sizeof(all), n_switches == 1 ? "%s" : "%s,%s", addresses[0],
			 addresses[1]);
		complaint = run_ranks(n_ranks, all, second_calls, recorder);
		if (!*complaint) {
			fail_disarm();
			complaint = form_again(n_ranks, all);
		}
	}
	for (int i = 0; i < n_switches; i++)
		sml_switch_close(opened[i]);
	return complaint ? complaint : "";
}

static const char *dedicated(void)
{
	return with_switches(1, 1, true, NULL);
}

static const char *pair(void)
{
	return with_switches(1, 2, true, NULL);
}

static const char *striped(void)
{
	return with_switches(2, 2, true, NULL);
}

/* Every function that the library exports. */
static const char *every_call(void)
{
	const char *complaint;

	calls_all = true;
	complaint = with_switches(1, 2, true, NULL);
	calls_all = false;
	return complaint;
}

/* A deadline, and everything that the flight recorder then does. */
static const char *stall(void)
{
	return with_switches(1, 2, false, "failure:/dev/null");
}

/* What fails, fails from the death of the switch on. */
static struct {
	enum fail_what what;
	unsigned n;
	bool onwards;
} later;
static struct switch_process *dies;

static void kill_switch(void)
{
	/* First: the ranks notice at once. */
	fail_arm(later.what, later.n, later.onwards);
	fail_exempt(true);
	switch_process_kill(dies);
	fail_exempt(false);
}

/* The first switch starts anew for each run, and the others stay. */
static const char *fail_over(struct switch_process *switches, unsigned n, const char *format)
{
	char addresses[128];
	const char *complaint;

	for (unsigned i = 0; i < n; i++)
		if (i == 0 || switches[i].pid == 0)
			switch_process_start(&switches[i]);
	snprintf(addresses, sizeof(addresses), format, switches[0].port, switches[1].port,
		 switches[2].port, switches[3].port);
	dies = &switches[0];
	switch_dies = kill_switch;
	complaint = run_ranks(2, addresses, true, NULL);
	switch_dies = NULL;
	return complaint;
}

#define PLACE		 "127.0.0.1:%u"
#define ONE_STANDBY	 PLACE "|" PLACE
#define TWO_STRIPES	 PLACE "," PLACE "|" PLACE "," PLACE
#define KEY_OF_ALL_TESTS "correct horse battery staple"

static const char *failover(void)
{
	static struct switch_process switches[4];

	return fail_over(switches, 2, ONE_STANDBY);
}

static const char *failover_of_a_host(void)
{
	static struct switch_process switches[4];
	const char *complaint;

	shares_memory = true;
	complaint = fail_over(switches, 2, ONE_STANDBY);
	shares_memory = false;
	return complaint;
}

static const char *failover_of_a_stripe(void)
{
	static struct switch_process switches[4];

	return fail_over(switches, 4, TWO_STRIPES);
}

/* The switches' processes have the key from the environment, too. */
static const char *failover_with_tls(void)
{
	struct sml_info info = SML_INFO_INIT;
	static struct switch_process switches[4];
	const char *complaint;

	sml_get_info(NULL, &info);
	if (!info.has_tls)
		return "";
	switch_process_set_key(KEY_OF_ALL_TESTS);
	complaint = fail_over(switches, 2, ONE_STANDBY);
	switch_process_set_key(NULL);
	return complaint;
}

static const struct scenario {
	const char *name;
	const char *(*run)(void);
	unsigned step;	 /* in the short form: one out of this many n; of descriptors, all */
	bool fails_over; /* it arms the failure itself, and forms no second job */
} scenarios[] = {
	{"alone", alone, 1, false},
	{"dedicated", dedicated, 1, false},
	{"pair", pair, 8, false},
	{"striped", striped, 16, false},
	{"stall", stall, 40, false},
	{"every-call", every_call, 40, false},
	{"failover", failover, 16, true},
	{"failover-host", failover_of_a_host, 16, true},
	{"failover-stripe", failover_of_a_stripe, 32, true},
	{"failover-tls", failover_with_tls, 64, true},
};
#define N_SCENARIOS (sizeof(scenarios) / sizeof(scenarios[0]))

/* ---- runs ---- */

static char running[256];     /* the watchdog's message */
static int terminal, nowhere; /* standard error, and the file for the library's output meanwhile */

static void on_alarm(int signal)
{
	(void)signal;
	if (write(terminal, running, strlen(running)) < 0 || write(terminal, "hangs\n", 6) < 0)
		_exit(2);
	abort();
}

static const char *const names[] = {"allocation", "system call", "descriptor"};

/* Returns the number of counted calls. */
static unsigned run_once(const struct scenario *scenario, enum fail_what what, unsigned n,
			 bool onwards)
{
	unsigned fds = count_entries(FILES_FOLDER), threads = count_entries(THREADS_FOLDER);
	unsigned counted;
	const char *complaint;

	snprintf(running, sizeof(running), "%s, %s %u%s: ", scenario->name, names[what], n,
		 onwards ? " and all after it" : "");
	alarm(RUN_SECONDS);
	dup2(nowhere, STDERR_FILENO);
	one_allocation = what == FAIL_ALLOCATIONS && !onwards;
	later.what = what;
	later.n = n;
	later.onwards = onwards;
	if (!scenario->fails_over)
		fail_arm(what, n, onwards);
	complaint = scenario->run();
	counted = fail_disarm();
	dup2(terminal, STDERR_FILENO);
	alarm(0);
	if (*complaint)
		fail_msg("%s%s: %s", running, fail_culprit(), complaint);
	if (count_threads(threads) != threads)
		fail_msg("%s%s: a thread is left", running, fail_culprit());
	if (count_entries(FILES_FOLDER) != fds)
		fail_msg("%s%s: a descriptor is left", running, fail_culprit());
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		fail_msg("%s%s: memory is left", running, fail_culprit());
	return counted;
}

static void expect_well(const struct scenario *scenario)
{
	/* With a separate switch, form_again() comes last, and it has its own patience. */
	nothing_fails = scenario->run == alone || scenario->fails_over;
	run_once(scenario, FAIL_ALLOCATIONS, 0, false);
	nothing_fails = false;
	for (int i = 0; i < bodies[0].job.n_ranks; i++)
		if (bodies[i].opened || bodies[i].reduced || bodies[i].closed)
			fail_msg("%s: rank %d fails where nothing did: %d, %d, %d", scenario->name,
				 i, bodies[i].opened, bodies[i].reduced, bodies[i].closed);
}

static bool all_of_them;

static void run_scenario(const struct scenario *scenario, enum fail_what what, bool onwards)
{
	unsigned step = all_of_them || what == FAIL_DESCRIPTORS ? 1 : scenario->step, n, runs = 0,
		 calm = 0;

	expect_well(scenario);
	/*
	 * Choose different n each time. The number of calls varies between runs, so a run without
	 * a failure may just be short.
	 */
	for (n = 1 + (unsigned)getpid() % step; calm < CALM_RUNS; n += step) {
		calm = run_once(scenario, what, n, onwards) >= n ? 0 : calm + 1;
		runs++;
	}
	expect_well(scenario);
	print_message("           %s, %ss%s: %u runs, n up to %u\n", scenario->name, names[what],
		      onwards ? ", from the n-th on" : "", runs, n);
}

static void a_failed_allocation_does_no_harm(void **state)
{
	run_scenario(*state, FAIL_ALLOCATIONS, false);
	if (all_of_them)
		run_scenario(*state, FAIL_ALLOCATIONS, true);
}

static void a_failed_system_call_does_no_harm(void **state)
{
	run_scenario(*state, FAIL_SYSTEM_CALLS, false);
	if (all_of_them)
		run_scenario(*state, FAIL_SYSTEM_CALLS, true);
}

/* As in a program that has used up its limit: once, and from then on. */
static void a_refused_descriptor_does_no_harm(void **state)
{
	run_scenario(*state, FAIL_DESCRIPTORS, false);
	run_scenario(*state, FAIL_DESCRIPTORS, true);
}

static void every_exported_function_was_called(void **state)
{
	const char *exports = getenv("SML_EXPORTS"), *missing;

	(void)state;
	if (exports == NULL)
		fail_msg("SML_EXPORTS does not say where src/lib/switchml.map is");
	missing = calls_find_missing(exports);
	if (missing != NULL)
		fail_msg("no scenario calls %s: add it to exhaustion_calls.c", missing);
}

static int run_named(const char *name, int n, bool onwards)
{
	enum fail_what what = n < 0 ? FAIL_SYSTEM_CALLS : FAIL_ALLOCATIONS;

	for (size_t i = 0; i < N_SCENARIOS; i++) {
		if (strcmp(scenarios[i].name, name) != 0)
			continue;
		fail_arm(what, (unsigned)abs(n), onwards);
		printf("complaint: \"%s\"\n", scenarios[i].run());
		printf("%u calls, failed: %s\n", fail_disarm(), fail_culprit());
		for (int rank = 0; rank < bodies[0].job.n_ranks; rank++)
			printf("rank %d: open %d, calls %d, close %d\n", rank, bodies[rank].opened,
			       bodies[rank].reduced, bodies[rank].closed);
		return 0;
	}
	return 2;
}

/* A part of them (K/N), or a name; NULL chooses all. */
static bool is_chosen(const char *choice, size_t scenario)
{
	unsigned part, n_parts;

	if (choice && sscanf(choice, "%u/%u", &part, &n_parts) == 2 && n_parts > 0)
		return scenario % n_parts == part % n_parts;
	return choice == NULL || strcmp(choice, scenarios[scenario].name) == 0;
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[3 * N_SCENARIOS + 1] = {0};
	const char *only;

	switch_process_main(argc, argv);
	signal(SIGALRM, on_alarm);
	if (argc >= 3)
		return run_named(argv[1], atoi(argv[2]), argc == 4);
	all_of_them = argc == 2 && strcmp(argv[1], "--all") == 0;
	only = argc == 2 && !all_of_them ? argv[1] : NULL;
	terminal = dup(STDERR_FILENO);
	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (terminal < 0 || nowhere < 0)
		return 1;
	if (__sanitizer_set_report_fd)
		__sanitizer_set_report_fd((void *)(intptr_t)terminal);
	/* From then on, a port that is requested takes no descriptor more. */
	for (unsigned i = 0; i < PORTS_HELD; i++)
		(void)free_port();
	for (size_t i = 0; i < N_SCENARIOS; i++) {
		void *scenario = (void *)(uintptr_t)&scenarios[i];

		if (!is_chosen(only, i))
			continue;
		tests[3 * i] =
			(struct CMUnitTest){"a_failed_allocation_does_no_harm",
					    a_failed_allocation_does_no_harm, NULL, NULL, scenario};
		tests[3 * i + 1] = (struct CMUnitTest){"a_failed_system_call_does_no_harm",
						       a_failed_system_call_does_no_harm, NULL,
						       NULL, scenario};
		tests[3 * i + 2] = (struct CMUnitTest){"a_refused_descriptor_does_no_harm",
						       a_refused_descriptor_does_no_harm, NULL,
						       NULL, scenario};
		if (scenarios[i].run == every_call)
			tests[3 * N_SCENARIOS] = (struct CMUnitTest)cmocka_unit_test(
				every_exported_function_was_called);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: the error text and the file name the missing rank, and the recorder
 * delays no failure.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

/* Longer than a busy machine stalls while ranks open and before they call. */
#define TIMEOUT_MS 4000
/*
 * The additional time of a failure: it waits 0.3 s for switch and file, and this machine has
 * other work. An unbounded wait for either would take a minute.
 */
#define LATE_MS	    30000
#define FOR_EVER_MS 60000
/* The heartbeat of a rank that freezes. It may stall this long before it is meant to freeze. */
#define FROZEN_HEARTBEAT_MS 4000

static unsigned n_passed; /* atomic: ranks that have passed the barrier */
static bool signalled;	  /* atomic: the switch is frozen or dead */
static bool unanswered;	  /* atomic: the switch stalled for the 0.2 s that a rank waits for it */

static char directory[64];

static void make_directory(void)
{
	snprintf(directory, sizeof(directory), "/tmp/sml-recorder-XXXXXX");
	assert_true(mkdtemp(directory));
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

/* A failure is recorded there. */
static const char *record_to(const char *name)
{
	static char record[160];

	snprintf(record, sizeof(record), "failure:%s", path_of(name));
	return record;
}

static void remove_files(void)
{
	static const char *const names[] = {"record.0", "record.1", "record.2", "both", "fifo"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(path_of(names[i]));
}

static void remove_directory(void)
{
	remove_files();
	assert_int_equal(rmdir(directory), 0);
}

/* The whole file; "" if there is none. */
static const char *contents(const char *name)
{
	static char text[1 << 16];
	FILE *file = fopen(path_of(name), "r");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[n] = '\0';
	return text;
}

static void expect_in_file(const char *name, const char *part)
{
	const char *text = contents(name);

	if (!strstr(text, part))
		fail_msg("%s should say \"%s\":\n%s", name, part, text);
}

static unsigned count_in_file(const char *name, const char *part)
{
	unsigned n = 0;

	for (const char *at = contents(name); (at = strstr(at, part)) != NULL; at++)
		n++;
	return n;
}

/* A call that must end in an error soon after its deadline. */
static void fail_in_time(struct rank *rank, int error)
{
	static _Thread_local float data[50000];
	uint64_t began = now_ms(), took;
	int got = sml_allreduce(rank->context, data, data, 50000, SML_FLOAT32, SML_SUM, NULL, NULL);

	took = now_ms() - began;
	/* If two deadlines are equal, a busy machine decides which one passes first. */
	if (got != error && !(got == SML_ERROR_TIMEOUT && error == SML_ERROR_SWITCH_DIED))
		complain(rank, "%d, not %d: %s", got, error, sml_error_text(rank->context));
	if (took > TIMEOUT_MS + LATE_MS)
		complain(rank, "it took %d ms", (int)took);
}

static void expect_text(struct rank *rank, const char *part)
{
	const char *text = sml_error_text(rank->context);

	if (!strstr(text, part))
		complain(rank, "\"%s\" should say \"%s\"", text, part);
}

/* ---- a rank that does not call ---- */

static void all_but_rank_1_call(struct rank *rank)
{
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	if (rank->rank == 1) {
		wait_until_told(rank);
		return;
	}
	fail_in_time(rank, SML_ERROR_TIMEOUT);
	if (strstr(sml_error_text(rank->context), "does not answer")) {
		__atomic_store_n(&unanswered, true, __ATOMIC_SEQ_CST);
		return;
	}
	expect_text(rank, "rank 1 (host ");
	expect_text(rank, "has not contributed to ");
	expect_text(rank, "last heard ");
}

/* Try again if the machine stalled at the wrong moment, which the errors then show. */
static void run_until_answered(const struct job *job)
{
	for (int i = 0; i < 5; i++) {
		unanswered = false;
		run_job(job);
		if (!unanswered)
			return;
		remove_files();
	}
	fail_msg("the switch never answers in time");
}

/* The rank whose deadline passed has asked the switch. The other rank has read its text. */
static void expect_rank_1(const char *name)
{
	expect_in_file(name, "SwitchML flight record 1\n");
	expect_in_file(name, "error   -5007 the deadline passed\n");
	expect_in_file(name, "has not contributed to ");
	expect_in_file(name, "all-reduce 1: 50000 float32, sum, exact wire\n");
	expect_in_file(name, "     0   head ");
	expect_in_file(name, "\nend of record\n");
}

TEST_WITH(the_rank_that_does_not_call_is_named, make_directory, remove_directory)
{
	run_until_answered(&(struct job){.n_ranks = 3,
					 .timeout_ms = TIMEOUT_MS,
					 .record = record_to("record.%r"),
					 .body = all_but_rank_1_call});
	expect_rank_1("record.0");
	expect_rank_1("record.2");
	expect_in_file("record.0", "rank    0 of 3, host ");
	expect_in_file("record.2", "rank    2 of 3, host ");
	if (count_in_file("record.0", " ranks 1\n") == 0)
		expect_in_file("record.2", " ranks 1\n");
	if (count_in_file("record.0", "report  of the switch\n") == 0)
		expect_in_file("record.2", "report  of the switch\n");
	/* No call was under way there. */
	assert_string_equal(contents("record.1"), "");
}

/* ---- a job that a rank aborts: the file is the same for any cause of failure ---- */

static unsigned n_calling; /* atomic: ranks whose call has not ended and cannot end */

/* Ranks 0 and 2 wait for rank 1, which aborts while they wait. */
static void all_but_rank_1_call_and_it_aborts(struct rank *rank)
{
	static _Thread_local float data[50000];
	struct sml_request *request;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	if (rank->rank == 1) {
		while (__atomic_load_n(&n_calling, __ATOMIC_SEQ_CST) < 2)
			usleep(1000);
		CHECK(rank, sml_abort(rank->context, "enough") == 0);
		return;
	}
	CHECK(rank, sml_allreduce(rank->context, data, data, 50000, SML_FLOAT32, SML_SUM, NULL,
				  &request) == 0);
	__atomic_fetch_add(&n_calling, 1, __ATOMIC_SEQ_CST);
	CHECK(rank, sml_wait(&request, 1, -1, NULL) == SML_ERROR_ABORTED);
}

/* The job's ranks write to this file. */
static void fail_and_record(const char *name)
{
	n_calling = 0;
	run_job(&(struct job){.n_ranks = 3,
			      .record = record_to(name),
			      .body = all_but_rank_1_call_and_it_aborts});
}

TEST_WITH(ranks_that_share_a_file_append_whole_records, make_directory, remove_directory)
{
	for (int i = 0; i < 2; i++)
		fail_and_record("both");
	assert_int_equal(count_in_file("both", "SwitchML flight record 1\n"), 4);
	assert_int_equal(count_in_file("both", "\nend of record\n\nSwitchML"), 3);
}

/* ---- ranks that call differently ---- */

static void rank_1_calls_with_another_length(struct rank *rank)
{
	static _Thread_local float data[50000];
	int got;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	got = sml_allreduce(rank->context, data, data, rank->rank == 1 ? 40000 : 50000, SML_FLOAT32,
			    SML_SUM, NULL, NULL);
	if (got != SML_ERROR_MISMATCH)
		complain(rank, "%d: %s", got, sml_error_text(rank->context));
}

/* Its packets have arrived, and the switch has refused them. */
TEST_WITH(a_mismatch_is_not_called_a_lost_packet, make_directory, remove_directory)
{
	static const char *const names[] = {"record.0", "record.1"};

	remove_files();
	run_job(&(struct job){.n_ranks = 2,
			      .record = record_to("record.%r"),
			      .body = rank_1_calls_with_another_length});
	for (unsigned i = 0; i < 2; i++) {
		expect_in_file(names[i], "made different calls");
		expect_in_file(names[i], " mismatch\n");
		assert_int_equal(count_in_file(names[i], "packet-lost"), 0);
	}
}

/* ---- a rank that is frozen ---- */

static void reduce_until_dead(struct rank *rank)
{
	static _Thread_local float data[50000];
	int error;

	do
		error = sml_allreduce(rank->context, data, data, 50000, SML_FLOAT32, SML_SUM, NULL,
				      NULL);
	while (error == 0);
	if (error != SML_ERROR_RANK_DIED)
		complain(rank, "%d: %s", error, sml_error_text(rank->context));
}

static void freeze(struct rank *rank)
{
	(void)rank;
	usleep(100000);
	kill(getpid(), SIGSTOP);
}

/* ---- a switch that does not answer ---- */

static pid_t switch_pid;

/* Until then, the switch's threads may continue for a while. */
static void signal_switch(int signal)
{
	siginfo_t info;

	kill(switch_pid, signal);
	waitid(P_PID, (id_t)switch_pid, &info, WSTOPPED | WEXITED | WNOWAIT);
	__atomic_store_n(&signalled, true, __ATOMIC_SEQ_CST);
}

static void call_after_signal(struct rank *rank)
{
	int signal = *(const int *)rank->job->argument;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	/* One rank's result may have arrived before the switch sends the other's. */
	__atomic_fetch_add(&n_passed, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&n_passed, __ATOMIC_SEQ_CST) < (unsigned)rank->n)
		usleep(1000);
	if (rank->rank == 0)
		signal_switch(signal);
	while (!__atomic_load_n(&signalled, __ATOMIC_SEQ_CST))
		usleep(1000);
	usleep(50000);
	/*
	 * The loss came before the call, and so did, mostly, the end of the search for another
	 * switch.
	 */
	fail_in_time(rank, signal == SIGSTOP ? SML_ERROR_TIMEOUT : SML_ERROR_SWITCH_DIED);
	expect_text(rank, signal == SIGSTOP ? "does not answer" : "no switch has taken over");
}

/* A rank freezes, over this switch or over the ranks' own stripes. */
static void freeze_rank_2(const char *switch_address, const char *report)
{
	struct job job = {.n_ranks = 3,
			  .switch_address = switch_address,
			  .port = free_port(),
			  .elsewhere = 1 << 2,
			  .heartbeat_ms = FOR_EVER_MS,
			  .record = record_to("record.%r"),
			  .body = reduce_until_dead};
	struct job childs = job;
	pid_t child;

	childs.body = freeze;
	childs.heartbeat_ms = FROZEN_HEARTBEAT_MS;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(run_rank(&childs, 2));
	}
	run_job(&job);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	for (int rank = 0; rank < 2; rank++) {
		char name[16];

		snprintf(name, sizeof(name), "record.%d", rank);
		expect_in_file(name, "error   -5005 another rank of the job died\n");
		expect_in_file(name, report);
		assert_int_equal(count_in_file(name, "  yes "), 2);
		assert_int_equal(count_in_file(name, "   no "), 1);
	}
}

TEST_WITH(a_frozen_rank_is_what_slots_wait_for, make_directory, remove_directory)
{
	char address[64];

	switch_pid = serve_in_child(serve_udp, address);
	freeze_rank_2(address, "report  of the switch\n");
	expect_in_file("record.0", " ranks 2\n");
	expect_in_file("record.1", " ranks 2\n");
	kill(switch_pid, SIGKILL);
	waitpid(switch_pid, NULL, 0);
}

/* Nobody can ask any more what its slots, and those of the other ranks, were waiting for. */
TEST_WITH(a_frozen_rank_takes_its_stripe_along, make_directory, remove_directory)
{
	freeze_rank_2("embedded", "report  of some stripes: ");
}

static void lose_switch(int signal, const char *part)
{
	char address[64];

	n_passed = 0;
	signalled = false;
	switch_pid = serve_in_child(serve_udp, address);
	run_job(&(struct job){.n_ranks = 2,
			      .switch_address = address,
			      .timeout_ms = TIMEOUT_MS,
			      .heartbeat_ms = FOR_EVER_MS,
			      .record = record_to("record.%r"),
			      .body = call_after_signal,
			      .argument = &signal});
	kill(switch_pid, SIGKILL);
	waitpid(switch_pid, NULL, 0);
	expect_in_file("record.0", part);
	expect_in_file("record.1", part);
	expect_in_file("record.0", "all-reduce 1: 50000 float32");
}

TEST_WITH(a_frozen_switch_is_not_waited_for, make_directory, remove_directory)
{
	lose_switch(SIGSTOP, "does not answer\n");
}

TEST_WITH(a_dead_switch_cannot_be_asked, make_directory, remove_directory)
{
	lose_switch(SIGKILL, " has ended\n");
}

/* ---- a file that cannot be written ---- */

TEST_WITH(a_fifo_is_refused_and_delays_no_error, make_directory, remove_directory)
{
	char byte;
	int fd;

	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	/* Without a reader, an open would block; with a reader, it would not. */
	fail_and_record("fifo");
	fd = open(path_of("fifo"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_true(fd >= 0);
	fail_and_record("fifo");
	assert_int_equal(read(fd, &byte, 1), -1);
	close(fd);
}

TEST_WITH(a_link_is_not_followed, make_directory, remove_directory)
{
	char path[128];

	snprintf(path, sizeof(path), "%s", path_of("record.0"));
	assert_int_equal(symlink(path_of("both"), path), 0);
	fail_and_record("record.0");
	assert_int_equal(access(path_of("both"), F_OK), -1);
}

TEST_WITH(nobody_else_reads_a_record, make_directory, remove_directory)
{
	struct stat about;

	fail_and_record("both");
	assert_int_equal(stat(path_of("both"), &about), 0);
	assert_int_equal(about.st_mode & 07777, 0600);
}

TEST_WITH(wrong_paths_are_refused_at_once, make_directory, remove_directory)
{
	static const char *const wrong[] = {
		"failure:/tmp/%p", "trace:/tmp/x%", "metrics:/no/such/directory/%r",
		"/tmp/x",	   "failure:",	    "trace:/tmp/x,",
		"trace:/tmp/x,/y", "flight:/tmp/x", "trace:/tmp/x,trace:/tmp/y"};
	struct sml_context *context;
	struct sml_config config;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct job job = {.n_ranks = 1, .record = wrong[i]};

		configure(&config, &job, 0);
		assert_int_equal(sml_open(&context, &config), SML_ERROR_CONFIG);
		assert_non_null(strstr(sml_error_text(NULL), "SWITCHML_RECORD"));
	}
}

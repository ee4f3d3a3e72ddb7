/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that die or freeze, in every form of a job: the others are told soon, and by name. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

/* All ranks are told within this time. Any other way of telling them would take a minute. */
#define SOON_MS 30000
/* The heartbeat of a rank that freezes. It may stall this long before it is meant to freeze. */
#define FROZEN_HEARTBEAT_MS 4000
#define LIVING_HEARTBEAT_MS 60000

/* With a residual of ones, which nothing is left of when the call has succeeded. */
static int reduce_with_residual(struct rank *rank, float *data, float *residual, size_t count)
{
	const struct sml_options options = {.size = sizeof(options), .residual = residual};
	float left;
	int error;

	for (size_t i = 0; i < count; i++)
		residual[i] = 1;
	error = sml_allreduce(rank->context, data, data, count, SML_FLOAT32, SML_SUM, &options,
			      NULL);
	left = error ? 1 : 0;
	for (size_t i = 0; i < count; i++)
		if (residual[i] != left)
			complain(rank, "%g is left after error %d", (double)residual[i], error);
	return error;
}

static void reduce_until_it_fails(struct rank *rank)
{
	const size_t count = 100000;
	const char *who = rank->job->argument;
	float *data = calloc(count, sizeof(*data)), *residual = calloc(count, sizeof(*residual));
	uint64_t began = now_ms(), last;
	int error;

	do {
		last = now_ms();
		error = reduce_with_residual(rank, data, residual, count);
	} while (error == 0 && now_ms() - began < 60000);
	if (error == 0 || now_ms() - last > SOON_MS)
		complain(rank, "told after %d ms", (int)(now_ms() - last));
	/* From now on, the buffer stays the same. */
	memset(data, 7, count * sizeof(*data));
	usleep(2000);
	for (size_t i = 0; i < count * sizeof(*data); i++)
		if (((char *)data)[i] != 7)
			complain(rank, "a buffer was written after the error");
	free(data);
	free(residual);
	CHECK_ERROR(rank, error, SML_ERROR_RANK_DIED, who);
}

static void reduce_again(struct rank *rank)
{
	float sum = 1;

	CHECK(rank,
	      sml_allreduce(rank->context, &sum, &sum, 1, SML_FLOAT32, SML_SUM, NULL, NULL) == 0);
	CHECK(rank, sum == 3);
}

/*
 * Rank `dying` of a job dies in its body, and the others are told `who`. Then the job is formed
 * again.
 */
struct death {
	int dying;
	const char *switch_address, *who;
	bool shared; /* through the host's memory */
	int behind;  /* as many switches in this process; then see struct job */
	uint64_t alone;
};

#define AT_ONCE 3

/*
 * All at once. The ranks that die are child processes, created before this process has threads.
 * Each rank has its own heartbeat, so no other rank can be taken for dead. A rank that is not
 * frozen is known dead only by its connection's end.
 */
static void let_some_die(const struct death *deaths, unsigned n, void (*body)(struct rank *),
			 int heartbeat_ms)
{
	struct job jobs[AT_ONCE];
	pid_t children[AT_ONCE];
	char address[64], both[64], names[AT_ONCE][12];
	int ports[2] = {free_port(), free_port()}, gate[2];
	struct sml_switch *opened[2];

	assert_int_equal(pipe(gate), 0);
	snprintf(both, sizeof(both), "127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1]);
	snprintf(address, sizeof(address), "127.0.0.1:%d", ports[0]);
	for (unsigned i = 0; i < n; i++) {
		struct job childs;

		jobs[i] = (struct job){.n_ranks = 3,
				       .switch_address = deaths[i].switch_address,
				       .host_group = deaths[i].shared,
				       .alone = deaths[i].alone,
				       .port = free_port(),
				       .elsewhere = UINT64_C(1) << deaths[i].dying,
				       .heartbeat_ms = LIVING_HEARTBEAT_MS,
				       .body = reduce_until_it_fails,
				       .argument = (void *)(uintptr_t)deaths[i].who};
		if (deaths[i].behind) {
			snprintf(names[i], sizeof(names[i]), "%u", i);
			jobs[i].name = names[i];
			jobs[i].switch_address = deaths[i].behind > 1 ? both : address;
		}
		childs = jobs[i];
		childs.body = body;
		childs.heartbeat_ms = heartbeat_ms;
		children[i] = fork();
		if (children[i] == 0) {
			/* The child must not outlive a failed test. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			/* Until the switch is there. */
			close(gate[1]);
			(void)!read(gate[0], names, 1);
			_exit(run_rank(&childs, deaths[i].dying));
		}
	}
	opened[1] = serve_at(ports[1], address);
	opened[0] = serve_at(ports[0], address);
	close(gate[0]);
	close(gate[1]);
	run_jobs(jobs, n);
	/* Under its name, whether the dead are gone or frozen. */
	for (unsigned i = 0; i < n; i++) {
		jobs[i].elsewhere = 0;
		jobs[i].body = reduce_again;
	}
	run_jobs(jobs, n);
	stop_serving(opened[0]);
	stop_serving(opened[1]);
	for (unsigned i = 0; i < n; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
}

static void let_die(const struct death *deaths, size_t n, void (*body)(struct rank *),
		    int heartbeat_ms)
{
	for (size_t i = 0; i < n; i += AT_ONCE)
		let_some_die(deaths + i, n - i < AT_ONCE ? (unsigned)(n - i) : AT_ONCE, body,
			     heartbeat_ms);
}

#define N_OF(deaths) (sizeof(deaths) / sizeof((deaths)[0]))

static void half_a_reduction_and_die(struct rank *rank)
{
	struct sml_request *request;
	static float data[100000];

	for (int i = 0; i < 20; i++)
		CHECK(rank, sml_allreduce(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM,
					  NULL, NULL) == 0);
	sml_allreduce(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM, NULL, &request);
	_exit(0);
}

TEST(the_death_of_a_rank_is_told_with_its_name)
{
	static const struct death deaths[] = {
		{2, NULL, "rank 2", false, 0, 0},
		/* And its switch. */
		{0, NULL, "died, and the job's control port at 127.0.0.1:", false, 0, 0},
		{2, "embedded", "and stripe 2 of the job with it", false, 0, 0},
		/* Through shared memory. */
		{2, NULL, "rank 2", true, 0, 0},
		{0, NULL, "rank 0", true, 0, 0},
		/* Beside one that shares no memory: another one, and the one that sends. */
		{2, NULL, "rank 2 (", true, 0, 1 << 0},
		{1, NULL, "and stripe 1 of the job with it", true, 0, 1 << 0},
		{2, NULL, "and stripe 1 of the job with it", true, 0, 1 << 2},
		{1, NULL, "rank 1 (", true, 0, 1 << 2},
		/* Behind switches: one that sends for others, another one, and one beside them. */
		{0, NULL, "rank 0", true, 1, 0},
		{2, NULL, "rank 2", true, 2, 0},
		{1, NULL, "rank 1", true, 1, 1 << 1},
	};

	let_die(deaths, N_OF(deaths), half_a_reduction_and_die, LIVING_HEARTBEAT_MS);
}

/* A call has 285 chunks, so these use every slot more than once. */
#define CALLS_BEFORE 10

static atomic_uint calls_made;

/* In the middle of a call, and of any part of it. */
static void *kill_in_a_call(void *self)
{
	struct timespec moment = {.tv_nsec = 100000 * (long)(getpid() % 16)};

	(void)self;
	while (atomic_load(&calls_made) < CALLS_BEFORE)
		usleep(100);
	nanosleep(&moment, NULL);
	kill(getpid(), SIGKILL);
	return NULL;
}

static void be_killed(struct rank *rank)
{
	static float data[100000];
	pthread_t killer;

	pthread_create(&killer, NULL, kill_in_a_call, NULL);
	for (;;) {
		CHECK(rank, sml_allreduce(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM,
					  NULL, NULL) == 0);
		atomic_fetch_add(&calls_made, 1);
	}
}

TEST(a_rank_that_is_killed_in_a_call_is_named)
{
	static const struct death deaths[] = {
		{0, NULL, "rank 0", true, 0, 1 << 2}, {1, NULL, "rank 1", true, 0, 1 << 0},
		{2, NULL, "rank 2", true, 0, 1 << 0}, {0, NULL, "rank 0", true, 0, 0},
		{1, NULL, "rank 1", true, 0, 0},      {2, NULL, "rank 2", true, 0, 0},
		{0, NULL, "rank 0", true, 1, 0},      {1, NULL, "rank 1", true, 1, 1 << 0},
		{2, NULL, "rank 2", true, 1, 1 << 0}, {0, NULL, "rank 0", true, 2, 0},
		{1, NULL, "rank 1", true, 2, 1 << 0}, {2, NULL, "rank 2", true, 2, 0},
	};

	for (unsigned i = 0; i < 3; i++)
		let_die(deaths, N_OF(deaths), be_killed, LIVING_HEARTBEAT_MS);
}

static void freeze(struct rank *rank)
{
	(void)rank;
	usleep(100000);
	kill(getpid(), SIGSTOP);
}

TEST(a_frozen_rank_is_dead_after_the_heartbeat)
{
	static const struct death deaths[] = {
		{1, NULL, "rank 1", false, 0, 0},
		{1, "embedded", "and stripe 1 of the job with it", false, 0, 0},
		{1, NULL, "rank 1", true, 0, 0},
		{0, NULL, "rank 0", true, 1, 0},
		{2, NULL, "rank 2", true, 2, 0},
		{1, NULL, "rank 1", false, 2, 0},
	};

	let_die(deaths, N_OF(deaths), freeze, FROZEN_HEARTBEAT_MS);
}

static int leavers_signal;

/*
 * Its context is closed when the body returns. If the signal comes before it has asked to leave, it
 * has died as others do.
 */
static void *end_in_close(void *self)
{
	(void)self;
	usleep(500000);
	kill(getpid(), leavers_signal);
	return NULL;
}

static void leave(struct rank *rank)
{
	static float data[100000];
	pthread_t killer;

	for (int i = 0; i < CALLS_BEFORE; i++)
		CHECK(rank, sml_allreduce(rank->context, data, data, 100000, SML_FLOAT32, SML_SUM,
					  NULL, NULL) == 0);
	pthread_create(&killer, NULL, end_in_close, NULL);
}

/* The others make a call that it did not make; with a switch, they could finish otherwise. */
TEST(a_rank_that_dies_while_it_leaves_is_named)
{
	static const struct death killed[] = {
		{1, NULL, "rank 1 (", true, 0, 0},	  {2, NULL, "rank 2 (", true, 0, 1 << 0},
		{1, "embedded", "rank 1 (", false, 0, 0}, {0, NULL, "rank 0 (", true, 1, 1 << 2},
		{2, NULL, "rank 2 (", true, 1, 1 << 2},	  {1, NULL, "rank 1 (", true, 2, 0},
	};
	static const struct death either[] = {
		{0, NULL, "rank 0 (", true, 1, 0},
		{1, NULL, "rank 1 (", true, 1, 0},
		{1, NULL, "rank 1 (", false, 1, 0},
	};

	leavers_signal = SIGKILL;
	let_die(killed, N_OF(killed), leave, LIVING_HEARTBEAT_MS);
	let_die(either, N_OF(either), leave, LIVING_HEARTBEAT_MS);
	leavers_signal = SIGSTOP;
	let_die(either, N_OF(either), leave, FROZEN_HEARTBEAT_MS);
}

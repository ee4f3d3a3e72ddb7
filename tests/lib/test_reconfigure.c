/* SPDX-License-Identifier: BSD-3-Clause */
/* sml_reconfigure() where all ranks live: what it refuses, what outlives the job, other threads. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

/* Whatever is slow here is a hang. */
#define SOON_MS 60000

static int reconfigure_as(struct rank *rank, const char *name, int timeout_ms)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	next.job = name;
	next.rank = rank->rank;
	next.world_size = rank->n;
	next.timeout_ms = timeout_ms;
	return sml_reconfigure(rank->context, &next);
}

#define BYTES sizeof(struct sml_membership)
#define LAST(...)                                                                                  \
	.size = BYTES, .job = "next", .world_size = 2, .previous_ranks = (const int[])             \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static const struct wrong {
	struct sml_membership membership;
	const char *part; /* of the text */
} wrong[] = {
	{{.size = 0, .job = "next", .world_size = 2}, "SML_MEMBERSHIP_INIT"},
	{{.size = BYTES + 8, .job = "next", .world_size = 2}, "bytes"},
	{{.size = BYTES, .world_size = 2}, "without a dedicated switch"},
	{{.size = BYTES, .job = "", .world_size = 2}, "no job"},
	{{.size = BYTES, .job = "test", .world_size = 2}, "none has had"},
	{{.size = BYTES, .job = "next", .world_size = 0}, "it must be 1 to"},
	{{.size = BYTES, .job = "next", .world_size = 65}, "without a switch"},
	{{.size = BYTES, .job = "next", .world_size = 2, .rank = 2}, "ranks are 0 to 1"},
	{{.size = BYTES, .job = "next", .world_size = 2, .rank = -1}, "ranks are 0 to 1"},
	{{.size = BYTES, .job = "next", .world_size = 2, .master_port = 65536}, "master_port"},
	{{.size = BYTES, .job = "next", .world_size = 2, .timeout_ms = -1}, "timeout_ms"},
	{{LAST(2, 2)}, "previous_ranks[0] is 2"},
	{{LAST(-1, 0)}, "previous_ranks[0] is -1"},
	{{LAST(-2, 0)}, "previous_ranks[0] is -2"},
	{{LAST(0, 0)}, "previous_ranks["},
	{{LAST(1, 1)}, "previous_ranks["},
};

static void be_refused(struct rank *rank)
{
	float one = 1;
	int error = sml_reconfigure(rank->context, NULL);

	CHECK(rank, error == -EINVAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error = sml_reconfigure(rank->context, &wrong[i].membership);
		if (error != -EINVAL || !strstr(sml_error_text(NULL), wrong[i].part))
			complain(rank, "%d: \"%s\" should say \"%s\"", error, sml_error_text(NULL),
				 wrong[i].part);
	}
	/* Nothing has changed. */
	CHECK(rank,
	      sml_allreduce(rank->context, &one, &one, 1, SML_FLOAT32, SML_SUM, NULL, NULL) == 0);
	CHECK(rank, one == 2);
}

TEST(a_wrong_membership_changes_nothing)
{
	run_job(&(struct job){.n_ranks = 2, .body = be_refused});
}

static void stay_within_ports(struct rank *rank)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;
	int error;

	next.job = "next";
	next.world_size = 2;
	next.master_port = 30100;
	error = sml_reconfigure(rank->context, &next);
	if (error != -EINVAL || !strstr(sml_error_text(NULL), "SWITCHML_PORTS, 30000 to 30099"))
		complain(rank, "%d: %s", error, sml_error_text(NULL));
	/* Alone, a rank takes any of its ports. */
	next.world_size = 1;
	CHECK(rank, sml_reconfigure(rank->context, &next) == 0);
}

TEST(rank_0_listens_at_one_of_its_ports)
{
	setenv("SWITCHML_PORTS", "30000-30099", 1);
	run_job(&(struct job){.n_ranks = 1, .body = stay_within_ports});
	unsetenv("SWITCHML_PORTS");
}

/* All ranks have completed their calls: nobody's are in progress when another one leaves. */
static pthread_barrier_t all_here;

static void make_barrier(void)
{
	pthread_barrier_init(&all_here, NULL, 2);
}

static uint64_t tensors(const struct rank *rank)
{
	struct sml_counters counters = {.size = sizeof(counters)};

	assert_int_equal(sml_get_counters(rank->context, -1, &counters, NULL), 0);
	return counters.tensors;
}

/* A done request and one in progress, neither of which was waited for. */
static void go_on_with_requests(struct rank *rank)
{
	struct sml_request *done = NULL, *unfinished = NULL;
	const int fd = sml_event_fd(rank->context);
	struct pollfd event = {.fd = fd, .events = POLLIN};
	float send = 1, recv = 0, unused[2] = {1, 1};
	uint64_t before, ignored;

	CHECK(rank, sml_allreduce(rank->context, &send, &recv, 1, SML_FLOAT32, SML_SUM, NULL,
				  &done) == 0);
	for (uint64_t began = now_ms(); tensors(rank) < 1 && now_ms() - began < SOON_MS;)
		usleep(1000);
	CHECK(rank, tensors(rank) == 1);
	pthread_barrier_wait(&all_here);
	if (rank->rank == 0)
		CHECK(rank, sml_allreduce(rank->context, &unused[0], &unused[1], 1, SML_FLOAT32,
					  SML_SUM, NULL, &unfinished) == 0);
	pthread_barrier_wait(&all_here);
	while (read(fd, &ignored, sizeof(ignored)) > 0)
		;
	CHECK(rank, reconfigure_as(rank, "next", 0) == 0);
	/* The descriptor is the same, and it is readable. */
	CHECK(rank, sml_event_fd(rank->context) == fd && poll(&event, 1, 0) == 1);
	before = tensors(rank);
	CHECK(rank, before >= 1);
	send = 2;
	CHECK(rank,
	      sml_allreduce(rank->context, &send, &send, 1, SML_FLOAT32, SML_SUM, NULL, NULL) == 0);
	CHECK(rank, send == 4 && recv == 2 && unused[0] == 1);
	CHECK(rank, tensors(rank) == before + 1);
	CHECK(rank, sml_wait(&done, 1, -1, NULL) == 0);
	if (unfinished)
		CHECK(rank, sml_wait(&unfinished, 1, -1, NULL) == SML_ERROR_ABORTED);
}

TEST(requests_counters_and_the_descriptor_outlive_the_job)
{
	for (int shares = 0; shares < 2; shares++)
		run_job(&(struct job){
			.n_ranks = 2, .host_group = shares, .body = go_on_with_requests});
}

/* What the second thread of rank 0 sees while the first waits for rank 1. */
static void *disturb(void *self)
{
	struct rank *rank = self;
	float value = 1;
	int error;

	do
		error = sml_allreduce(rank->context, &value, &value, 1, SML_FLOAT32, SML_SUM, NULL,
				      NULL);
	while (error == SML_ERROR_ABORTED); /* of the old job, for a moment */
	if (error != SML_ERROR_CLOSED || !strstr(sml_error_text(rank->context), "waits for"))
		complain(rank, "a call: %d, %s", error, sml_error_text(rank->context));
	error = reconfigure_as(rank, "other", 0);
	if (error != -EBUSY)
		complain(rank, "another sml_reconfigure(): %d, %s", error, sml_error_text(NULL));
	if (sml_abort(rank->context, "enough") != 0)
		complain(rank, "sml_abort(): %s", sml_error_text(NULL));
	return NULL;
}

static void race(struct rank *rank)
{
	pthread_t other;

	pthread_barrier_wait(&all_here);
	if (rank->rank == 0) {
		/* Before that, the other thread's call is one of the old job. */
		CHECK(rank, sml_abort(rank->context, "the old job is over") == 0);
		pthread_create(&other, NULL, disturb, rank);
		if (reconfigure_as(rank, "next", 0) != SML_ERROR_ABORTED)
			complain(rank, "not ended: %s", sml_error_text(NULL));
		pthread_join(other, NULL);
		CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_ABORTED,
			    "sml_abort()");
	}
	pthread_barrier_wait(&all_here);
	CHECK(rank, reconfigure_as(rank, "last", 0) == 0);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
}

TEST(one_thread_at_a_time_reconfigures_and_another_one_can_end_it)
{
	run_job(&(struct job){.n_ranks = 2, .body = race});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = race});
}

/* One for each of 64 ranks, and half for the application, are more than 100. */
static void lack_room(struct rank *rank)
{
	struct sml_membership larger = SML_MEMBERSHIP_INIT;
	struct rlimit usual, few;
	int error;

	larger.job = "next";
	larger.world_size = 64;
	pthread_barrier_wait(&all_here);
	if (rank->rank == 0) {
		getrlimit(RLIMIT_NOFILE, &usual);
		few = usual;
		few.rlim_cur = 100;
		setrlimit(RLIMIT_NOFILE, &few);
		error = sml_reconfigure(rank->context, &larger);
		if (error != -EMFILE ||
		    !strstr(sml_error_text(NULL), "rank 0 needs at least 128, one"))
			complain(rank, "%d: %s", error, sml_error_text(NULL));
		setrlimit(RLIMIT_NOFILE, &usual);
	}
	pthread_barrier_wait(&all_here);
	CHECK(rank, reconfigure_as(rank, "last", 0) == 0);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
}

TEST(rank_0_says_at_once_that_descriptors_will_not_do)
{
	run_job(&(struct job){.n_ranks = 2, .body = lack_room});
}

/* Threads of rank 0 that call again and again, whatever the result is. */
#define CALLERS 16
static bool callers_end;

static void *call_on(void *self)
{
	const struct rank *rank = self;
	float value = 1;

	/* Never made, because there is no buffer for its result. */
	while (!__atomic_load_n(&callers_end, __ATOMIC_RELAXED))
		(void)sml_allreduce(rank->context, &value, NULL, 1, SML_FLOAT32, SML_SUM, NULL,
				    NULL);
	return NULL;
}

/* A call that is never turned away. */
static void *count_on(void *self)
{
	const struct rank *rank = self;

	while (!__atomic_load_n(&callers_end, __ATOMIC_RELAXED))
		sml_count_elsewhere(rank->context, "another library", 1);
	return NULL;
}

static void go_on_among_callers(struct rank *rank)
{
	pthread_t callers[CALLERS];
	const int n = rank->rank == 0 ? CALLERS : 0;
	char next[16];
	int error = 0;

	for (int i = 0; i < n; i++)
		pthread_create(&callers[i], NULL, i == 0 ? count_on : call_on, rank);
	for (int i = 0; error == 0 && i < 5; i++) {
		pthread_barrier_wait(&all_here);
		snprintf(next, sizeof(next), "next %d", i);
		error = reconfigure_as(rank, next, 20000);
		if (error)
			complain(rank, "%d: %s", error, sml_error_text(NULL));
	}
	/* If rank 0 is held up, rank 1 has waited long enough. */
	__atomic_store_n(&callers_end, true, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		pthread_join(callers[i], NULL);
}

TEST(threads_that_call_all_the_time_do_not_hold_it_up)
{
	callers_end = false;
	run_job(&(struct job){.n_ranks = 2, .body = go_on_among_callers});
}

TESTS_BETWEEN(make_barrier, NULL)

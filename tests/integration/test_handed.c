/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A result that a rank was handed when its switch had died, and that another rank lacks, because
 * who handed it over has died meanwhile: the rank hands it over itself, in the next membership.
 *
 *	ranks 0 and 1 call, and rank 2 does not; the first switch is killed
 *	the second one hands rank 0 a result, says that rank 2 has died, and ends
 *	ranks 0 and 1 go on at the third one: rank 0 has completed the call, so rank 1 must have it
 *
 * The second one is this test: a switch hands over a result to all that lack it, one after the
 * other, and may die in between.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/envelope.h"
#include "core/base.h"
#include "core/pool.h"
#include "support/fake_switch.h"
#include "support/ranks.h"
#include "support/switch_process.h"
#include "support/test.h"

#define N_RANKS 3
#define COUNT	8

static struct switch_process first;
static char all[256], first_only[64];
/* Atomic: ranks that are in the call; rank 0 has completed it; ranks whose job has ended. */
static unsigned n_calls, n_ended;
static bool completed;

static void await(const unsigned *number, unsigned least)
{
	while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < least)
		usleep(1000);
}

static int32_t result_of(unsigned element)
{
	return (int32_t)(1000003 * (element + 1));
}

/* ---- the second switch ---- */

struct second {
	int listen_fd, fds[N_RANKS]; /* fds: of ranks that have joined; -1 otherwise */
};

static void say(int fd, const SmlControl__Envelope *message)
{
	struct evbuffer *out = evbuffer_new();

	assert_int_equal(sml_frame_write(out, message), 0);
	while (evbuffer_get_length(out) > 0)
		assert_true(evbuffer_write(out, fd) > 0);
	evbuffer_free(out);
}

/* The job's only call is a small one: it has one chunk, of the head stream. */
static void hand_over(int fd, const SmlControl__StreamReport *lacks)
{
	SmlControl__Result result = SML_CONTROL__RESULT__INIT;
	uint32_t lanes[COUNT];

	assert_true(lacks->n_lacking > 0);
	assert_int_equal(lacks->lacking[0], 0);
	for (unsigned i = 0; i < COUNT; i++)
		lanes[i] = sml_be32((uint32_t)result_of(i));
	result.stream = SML_HEAD;
	result.lanes.data = (uint8_t *)lanes;
	result.lanes.len = sizeof(lanes);
	say(fd, sml_envelope(RESULT, result, &result));
}

static void accept_rank(struct second *second)
{
	int fd = accept4(second->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	struct evbuffer *in = evbuffer_new();
	SmlControl__Envelope *message = NULL;

	assert_true(fd >= 0);
	while (sml_frame_read(in, &message) == 0)
		assert_true(evbuffer_read(in, fd, -1) > 0);
	assert_int_equal(message->body_case, SML_CONTROL__ENVELOPE__BODY_JOIN);
	assert_true(message->join->rank < N_RANKS);
	second->fds[message->join->rank] = fd;
	if (message->join->rank == 0)
		hand_over(fd, message->join->resume->streams[SML_HEAD]);
	sml_control__envelope__free_unpacked(message, NULL);
	evbuffer_free(in);
}

/* It ends. */
static void say_who_died(struct second *second)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	close(second->listen_fd);
	message.error = SML_ERROR_RANK_DIED;
	message.text = (char *)(uintptr_t) "rank 2 died";
	for (unsigned rank = 0; rank < N_RANKS; rank++) {
		if (second->fds[rank] < 0)
			continue;
		say(second->fds[rank], sml_envelope(ABORT, abort, &message));
		shutdown(second->fds[rank], SHUT_WR);
	}
}

static void *serve(void *self)
{
	struct second *second = self;

	while (second->fds[0] < 0 || second->fds[1] < 0)
		accept_rank(second);
	while (!__atomic_load_n(&completed, __ATOMIC_ACQUIRE))
		usleep(1000);
	say_who_died(second);
	await(&n_ended, 2);
	for (unsigned rank = 0; rank < N_RANKS; rank++)
		if (second->fds[rank] >= 0)
			close(second->fds[rank]);
	return NULL;
}

/* ---- the ranks ---- */

static void go_on(struct rank *rank)
{
	struct sml_membership members = SML_MEMBERSHIP_INIT;

	wait_until_told(rank);
	__atomic_add_fetch(&n_ended, 1, __ATOMIC_RELEASE);
	members.job = "second";
	members.rank = rank->rank;
	members.world_size = 2;
	members.keeps_buffers = 1;
	CHECK(rank, sml_reconfigure(rank->context, &members) == 0);
}

static void call(struct rank *rank)
{
	int32_t send[COUNT] = {1}, recv[COUNT] = {0};
	struct sml_request *request;
	int result;

	if (rank->rank == 2) {
		await(&n_ended, 2);
		CHECK(rank, sml_abort(rank->context, "it is dead") == 0);
		return;
	}
	CHECK(rank, sml_allreduce_async(rank->context, send, recv, COUNT, SML_INT32, SML_SUM, NULL,
					&request) == 0);
	__atomic_add_fetch(&n_calls, 1, __ATOMIC_RELEASE);
	await(&n_calls, 2);
	if (rank->rank == 0)
		switch_process_kill(&first);
	result = sml_wait(request);
	CHECK(rank, result == (rank->rank == 0 ? 0 : SML_ERROR_RANK_DIED));
	if (rank->rank == 0)
		__atomic_store_n(&completed, true, __ATOMIC_RELEASE);
	go_on(rank);
	if (rank->rank == 1)
		CHECK(rank, sml_completed(rank->context, 0) == 1);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(rank, recv[i] == result_of(i));
}

/* It cannot come to the others. */
static void adjust(struct sml_config *config, const struct job *job, int rank)
{
	(void)job;
	if (rank == 2)
		config->switch_address = first_only;
}

TEST(a_result_that_was_handed_over_is_handed_on_when_its_giver_has_died)
{
	struct second second = {.fds = {-1, -1, -1}};
	char third_address[64];
	struct sml_switch *third = serve_at(0, third_address);
	pthread_t thread;
	uint16_t port;

	switch_process_start(&first);
	second.listen_fd = listen_on_loopback(&port);
	snprintf(first_only, sizeof(first_only), "127.0.0.1:%u", first.port);
	snprintf(all, sizeof(all), "%s|127.0.0.1:%u|%s", first_only, port, third_address);
	assert_int_equal(pthread_create(&thread, NULL, serve, &second), 0);
	run_job(&(struct job){
		.n_ranks = N_RANKS, .switch_address = all, .adjust = adjust, .body = call});
	pthread_join(thread, NULL);
	sml_switch_close(third);
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	/* A rank that has got what it was told may close the connection first. */
	signal(SIGPIPE, SIG_IGN);
	return test_run(NULL, NULL);
}

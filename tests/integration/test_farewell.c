/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that gives its job up, and lives, says so to each switch at which it waits. The mere end
 * of its connection may be taken for its death, and others may wait for it in vain.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/frame.h"
#include "support/ranks.h"
#include "support/switch_process.h"
#include "support/test.h"

/* ---- while it looks for another switch ---- */

#define N_RANKS 3

static struct switch_process first;
static char both[128], first_only[64];
/* Ranks 0 and 1 wait at the second switch, and only rank 2 is missing; both have ended. */
static bool has_met, is_over;
/* Ranks that have the result of the only call. */
static int n_done;

static void await(const bool *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* A line of rank 0. */
static void note_line(void *self, int level, const char *text)
{
	(void)self;
	(void)level;
	if (strstr(text, "missing: 2"))
		__atomic_store_n(&has_met, true, __ATOMIC_RELEASE);
}

static void adjust(struct sml_config *config, const struct job *job, int rank)
{
	(void)job;
	config->wait_notice_ms = 50;
	if (rank == 0)
		config->log = note_line;
	/* It cannot come to the second one. */
	if (rank == 2)
		config->switch_address = first_only;
}

static void look_for_a_switch(struct rank *rank)
{
	int32_t one = 1, sum;

	CHECK(rank, sml_allreduce(rank->context, &one, &sum, 1, SML_INT32, SML_SUM, NULL) == 0);
	__atomic_fetch_add(&n_done, 1, __ATOMIC_RELEASE);
	if (rank->rank == 0) {
		while (__atomic_load_n(&n_done, __ATOMIC_ACQUIRE) < N_RANKS)
			usleep(1000);
		switch_process_kill(&first);
		await(&has_met);
		CHECK(rank, sml_abort(rank->context, "it has seen enough") == 0);
	} else if (rank->rank == 1) {
		wait_until_told(rank);
		__atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
		CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_ABORTED, "rank 0 (host");
		CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_ABORTED,
			    "aborted the job: it has seen enough");
	} else {
		/* Nobody can tell it. */
		await(&is_over);
		CHECK(rank, sml_abort(rank->context, "the others have ended") == 0);
	}
}

TEST(a_rank_that_gives_up_while_it_looks_for_a_switch_has_not_died)
{
	const char *const addresses[N_RANKS] = {both, both, first_only};
	struct job job = {.n_ranks = N_RANKS,
			  .switch_addresses = addresses,
			  .heartbeat_ms = 2000,
			  .adjust = adjust,
			  .body = look_for_a_switch};
	char second[64];
	struct sml_switch *other = serve_at(0, second);

	switch_process_start(&first);
	snprintf(first_only, sizeof(first_only), "127.0.0.1:%u", first.port);
	snprintf(both, sizeof(both), "%s|%s", first_only, second);
	run_job(&job);
	sml_switch_close(other);
}

/* ---- while it joins ---- */

/* What listens where it looks for a switch, and what it has been told. */
struct listener {
	int fd;
	volatile int interrupt;
	bool has_joined, has_left, has_ended;
};

static void note_message(struct listener *listener, const SmlControl__Envelope *message)
{
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN) {
		listener->has_joined = true;
		/* The switch admits it now, and it gives up before it reads that. */
		__atomic_store_n(&listener->interrupt, 1, __ATOMIC_RELAXED);
	} else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_LEAVE) {
		listener->has_left = !listener->has_ended;
	}
}

static void *listen_on(void *self)
{
	struct listener *listener = self;
	struct evbuffer *in = evbuffer_new();
	int fd = accept(listener->fd, NULL, NULL);
	SmlControl__Envelope *message;

	while (evbuffer_read(in, fd, -1) > 0) {
		while (sml_frame_read(in, &message) == 1) {
			note_message(listener, message);
			sml_control__envelope__free_unpacked(message, NULL);
		}
	}
	listener->has_ended = true;
	evbuffer_free(in);
	close(fd);
	return NULL;
}

TEST(a_rank_that_is_interrupted_before_it_is_admitted_says_that_it_leaves)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct listener listener = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
	const struct job job = {.n_ranks = 2};
	socklen_t length = sizeof(address);
	struct sml_context *context;
	struct sml_config config;
	char where[64];
	pthread_t thread;

	assert_int_equal(bind(listener.fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener.fd, 1), 0);
	getsockname(listener.fd, (struct sockaddr *)&address, &length);
	snprintf(where, sizeof(where), "127.0.0.1:%u", ntohs(address.sin_port));
	configure(&config, &job, 1);
	config.switch_address = where;
	config.interrupt = &listener.interrupt;
	pthread_create(&thread, NULL, listen_on, &listener);
	assert_int_equal(sml_open(&context, &config), -EINTR);
	pthread_join(thread, NULL);
	close(listener.fd);
	assert_true(listener.has_joined);
	assert_true(listener.has_left);
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	return test_run(NULL, NULL);
}

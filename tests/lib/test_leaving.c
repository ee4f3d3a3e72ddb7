/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch dies between two of its last messages: one rank has been told that all have left,
 * and the other has not. The other rank finds no rank at the next switch, and that switch
 * lets it leave.
 *
 *	rank 0: the library -----\   +-- the first switch: a child, killed
 *	rank 1: two sockets ------>--+
 *	                             +-- the next switch: in this process
 *
 * Or a switch dies while no rank has anything to do. The ranks go on at the next switch, so that
 * they can leave there.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/switch_client.h"
#include "support/test.h"

#define HOST "127.0.0.1"
#define JOB  "leaves"

static uint16_t port_of(const char *address)
{
	return (uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10);
}

struct leaver {
	const char *addresses;
	int result;
	char text[512];
};

static void *come_and_leave(void *argument)
{
	struct leaver *leaver = argument;
	const struct job job = {.n_ranks = 2, .name = JOB, .switch_address = leaver->addresses};
	struct sml_context *context;
	struct sml_config config;

	configure(&config, &job, 0);
	leaver->result = sml_open(&context, &config);
	if (leaver->result == 0)
		leaver->result = sml_close(context);
	snprintf(leaver->text, sizeof(leaver->text), "%s", sml_error_text(NULL));
	return NULL;
}

/* states: "running", or several */
static bool is_in_state(uint16_t port, const char *states)
{
	SmlControl__Envelope *status = client_status(HOST, port);
	bool is = false;

	for (size_t i = 0; i < status->status->n_jobs; i++)
		is |= strcmp(status->status->jobs[i]->job, JOB) == 0 &&
		      strstr(states, status->status->jobs[i]->state) != NULL;
	client_free(status);
	return is;
}

static bool comes_to_state(uint16_t port, const char *states)
{
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;

	while (!is_in_state(port, states)) {
		if (client_now_ms() >= until_ms)
			return false;
		usleep(10000);
	}
	return true;
}

TEST(a_rank_whose_switch_dies_before_its_last_word_leaves_elsewhere)
{
	char first[64], next[64], both[130];
	struct leaver leaver = {.addresses = both};
	SmlControl__Join join;
	struct client other;
	pthread_t thread;
	pid_t child = serve_in_child(serve_udp, first);

	serve_udp(next);
	snprintf(both, sizeof(both), "%s|%s", first, next);
	assert_int_equal(pthread_create(&thread, NULL, come_and_leave, &leaver), 0);
	client_open(&other, HOST, port_of(first));
	join = client_join_message(JOB, 1, 2);
	join.head_slots = join.data_slots = 0;
	client_join(&other, &join);
	client_admitted(&other);
	client_probe(&other, 0, other.lanes);
	client_ready(&other);
	client_started(&other);
	/* Rank 0 has asked to leave. */
	assert_true(comes_to_state(port_of(first), "leaving"));
	/* Only rank 1, which is gone, was told that all have left. */
	assert_int_equal(kill(child, SIGKILL), 0);
	client_close(&other);
	pthread_join(thread, NULL);
	waitpid(child, NULL, 0);
	if (leaver.result < 0)
		fail_msg("%d: %s", leaver.result, leaver.text);
}

struct idlers {
	pid_t first; /* the switch */
	uint16_t next;
};

static void be_idle(struct rank *rank)
{
	const struct idlers *idlers = rank->job->argument;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	CHECK(rank, rank->rank != 0 || kill(idlers->first, SIGKILL) == 0);
	CHECK(rank, comes_to_state(idlers->next, "running, leaving"));
}

TEST(idle_ranks_go_on_at_the_next_switch_and_leave_there)
{
	char first[64], next[64], both[130];
	struct sml_switch *opened;
	struct idlers idlers;
	struct job job = {.n_ranks = 3,
			  .name = JOB,
			  .switch_address = both,
			  .body = be_idle,
			  .argument = &idlers};

	for (int shared = 0; shared < 2; shared++) {
		idlers.first = serve_in_child(serve_udp, first);
		opened = serve_udp(next);
		idlers.next = sml_switch_port(opened);
		snprintf(both, sizeof(both), "%s|%s", first, next);
		job.host_group = shared;
		run_job(&job);
		waitpid(idlers.first, NULL, 0);
		stop_serving(opened);
	}
}

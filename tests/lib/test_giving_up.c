/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that gives its job up, and lives, says so to each switch at which it waits. The mere end
 * of its connection may be taken for its death, and others may wait for it in vain.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/fake_switch.h"
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
static void note_line(void *self, enum sml_log_level level, const char *text)
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

	CHECK(rank,
	      sml_allreduce(rank->context, &one, &sum, 1, SML_INT32, SML_SUM, NULL, NULL) == 0);
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
		CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_ABORTED,
			    "rank 0 (host");
		CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_ABORTED,
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

	serve_at(0, second);
	switch_process_start(&first);
	snprintf(first_only, sizeof(first_only), "127.0.0.1:%u", first.port);
	snprintf(both, sizeof(both), "%s|%s", first_only, second);
	run_job(&job);
}

/* ---- while it joins ---- */

/* What has been told to the switch that the rank finds, and the rank's own flag. */
struct news {
	volatile int interrupt;
	bool has_joined, has_left;
};

static void note_message(void *self, int fd, const SmlControl__Envelope *message)
{
	struct news *news = self;

	(void)fd;
	if (message->body_case == SML_CONTROL__ENVELOPE__BODY_JOIN) {
		news->has_joined = true;
		/* The switch admits it now, and it gives up before it reads that. */
		__atomic_store_n(&news->interrupt, 1, __ATOMIC_RELAXED);
	} else if (message->body_case == SML_CONTROL__ENVELOPE__BODY_LEAVE) {
		news->has_left = true;
	}
}

/* At a switch that does not answer. */
static void give_up_joining(bool interrupted, int error)
{
	struct news news = {.interrupt = 0};
	struct fake_switch fake = {.serve = fake_switch_read, .hear = note_message, .self = &news};
	const struct job job = {.n_ranks = 2, .heartbeat_ms = interrupted ? 0 : 200};
	struct sml_context *context;
	struct sml_config config;

	fake_switch_open(&fake);
	configure(&config, &job, 1);
	config.switch_address = fake.address;
	config.interrupt = interrupted ? &news.interrupt : NULL;
	assert_int_equal(sml_open(&context, &config), error);
	fake_switch_close(&fake);
	assert_true(news.has_joined);
	assert_true(news.has_left);
}

TEST(a_rank_that_is_interrupted_before_it_is_admitted_says_that_it_leaves)
{
	give_up_joining(true, -EINTR);
}

TEST(a_rank_that_gives_a_silent_switch_up_says_that_it_leaves)
{
	give_up_joining(false, SML_ERROR_UNREACHABLE);
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	return test_run();
}

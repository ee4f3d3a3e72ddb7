/* SPDX-License-Identifier: BSD-3-Clause */
/* The application's signals never reach threads of the library, whatever those do. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "base/thread.h"
#include "support/test.h"

static bool blocks_signals(void)
{
	sigset_t mask;

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT) &&
	       sigismember(&mask, SIGUSR1);
}

struct thread {
	bool starts_another;
	bool blocks_before, blocks_after;
};

/* As a control's thread starts the failover's. */
static void *run(void *self)
{
	struct thread *thread = self, another = {.starts_another = false};
	pthread_t started;

	thread->blocks_before = blocks_signals();
	thread->blocks_after = true;
	if (!thread->starts_another)
		return NULL;
	if (sml_thread_start(&started, "another", run, &another) < 0)
		return NULL;
	pthread_join(started, NULL);
	thread->blocks_after = blocks_signals() && another.blocks_before;
	return NULL;
}

TEST(a_thread_of_ours_blocks_signals_after_it_has_started_another_one)
{
	struct thread thread = {.starts_another = true};
	pthread_t started;

	assert_int_equal(sml_thread_start(&started, "first", run, &thread), 0);
	pthread_join(started, NULL);
	assert_true(thread.blocks_before);
	assert_true(thread.blocks_after);
	/* This thread's own mask is as it was. */
	assert_false(blocks_signals());
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop of the control planes: classes, budgets, times, posts, and what it may not do. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "support/count_entries.h"
#include "support/test.h"

#define N_WATCHES 200

struct counted {
	struct sml_watch *watch;
	int fds[2];
	unsigned n, what;
	struct counted *frees; /* in its turn */
};

static struct sml_loop *loop;
static struct counted counted[N_WATCHES];

static void open_loop(void)
{
	assert_int_equal(sml_loop_open(&loop), 0);
}

static void close_loop(void)
{
	for (unsigned i = 0; i < N_WATCHES; i++) {
		sml_watch_free(counted[i].watch);
		if (counted[i].fds[1] > 0) {
			close(counted[i].fds[0]);
			close(counted[i].fds[1]);
		}
		counted[i] = (struct counted){.watch = NULL};
	}
	sml_loop_close(loop);
}

static void count(void *self, unsigned what)
{
	struct counted *one = self;

	one->n++;
	one->what |= what;
	if (one->frees) {
		sml_watch_free(one->frees->watch);
		one->frees->watch = NULL;
	}
}

static struct counted *watch(unsigned i, unsigned class)
{
	struct counted *one = &counted[i];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, one->fds), 0);
	one->watch = sml_watch_new(loop, one->fds[0], count, one);
	assert_non_null(one->watch);
	sml_watch_set_class(one->watch, class);
	assert_int_equal(sml_watch_set(one->watch, SML_WATCH_READ), 0);
	return one;
}

static void make_readable(const struct counted *one)
{
	assert_int_equal(write(one->fds[1], "", 1), 1);
}

static unsigned total(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < N_WATCHES; i++)
		n += counted[i].n;
	return n;
}

/* ---- cases ---- */

TEST_WITH(the_first_class_is_served_before_all_others, open_loop, close_loop)
{
	for (unsigned i = 0; i < N_WATCHES; i++)
		make_readable(watch(i, i == N_WATCHES - 1 ? 1 : 2));
	assert_true(sml_loop_turn(loop, 0));
	assert_int_equal(total(), 1);
	assert_int_equal(counted[N_WATCHES - 1].n, 1);
}

TEST_WITH(a_turn_serves_no_more_than_its_budget_and_all_in_turns, open_loop, close_loop)
{
	sml_loop_limit(loop, 1, 16, SML_NS_PER_SEC * 60);
	for (unsigned i = 0; i < N_WATCHES; i++)
		make_readable(watch(i, 2));
	assert_true(sml_loop_turn(loop, 0));
	assert_int_equal(total(), 16);
	for (unsigned i = 1; i < (N_WATCHES + 15) / 16; i++)
		sml_loop_turn(loop, 0);
	for (unsigned i = 0; i < N_WATCHES; i++)
		assert_in_range(counted[i].n, 1, 2);
}

TEST_WITH(a_freed_watch_is_not_served, open_loop, close_loop)
{
	for (unsigned i = 0; i < 2; i++)
		make_readable(watch(i, 0));
	counted[0].frees = &counted[1];
	counted[1].frees = &counted[0];
	sml_loop_turn(loop, 0);
	assert_int_equal(total(), 1);
}

TEST_WITH(an_unwatched_descriptor_is_not_served, open_loop, close_loop)
{
	struct counted *one = watch(0, 0);

	make_readable(one);
	assert_int_equal(sml_watch_set(one->watch, 0), 0);
	assert_false(sml_loop_turn(loop, 0));
	/* Its error, too, waits until somebody wants to know. */
	close(one->fds[1]);
	one->fds[1] = -1;
	assert_false(sml_loop_turn(loop, 0));
	assert_int_equal(sml_watch_set(one->watch, SML_WATCH_WRITE), 0);
	assert_true(sml_loop_turn(loop, 0));
	assert_int_equal(one->what, SML_WATCH_WRITE);
	close(one->fds[0]);
}

TEST_WITH(a_time_acts_once_and_a_period_again_and_again, open_loop, close_loop)
{
	struct counted *once = watch(0, 0), *often = watch(1, 0);
	uint64_t begun_ns = sml_now_ns();

	sml_watch_at(once->watch, begun_ns + SML_NS_PER_MS);
	sml_watch_every(often->watch, 2 * SML_NS_PER_MS);
	while (often->n < 5)
		sml_loop_turn(loop, UINT64_MAX);
	assert_true(sml_now_ns() >= begun_ns + 10 * SML_NS_PER_MS);
	assert_int_equal(once->n, 1);
	assert_int_equal(often->what, SML_WATCH_TIME);
	sml_watch_at(often->watch, UINT64_MAX);
	assert_false(sml_loop_turn(loop, sml_now_ns() + 5 * SML_NS_PER_MS));
}

static void stop(void *self, unsigned what)
{
	count(self, what);
	sml_loop_stop(loop);
}

static void *post(void *self)
{
	for (unsigned i = 0; i < 1000; i++)
		sml_watch_post(self);
	return NULL;
}

TEST_WITH(a_post_of_another_thread_wakes_the_loop, open_loop, close_loop)
{
	struct counted *one = &counted[0];
	pthread_t thread;

	one->watch = sml_watch_new(loop, -1, stop, one);
	assert_int_equal(pthread_create(&thread, NULL, post, one->watch), 0);
	sml_loop_run(loop);
	pthread_join(thread, NULL);
	assert_in_range(one->n, 1, 1000);
	assert_int_equal(one->what, SML_WATCH_POST);
}

/* The n-th descriptor is refused: an error, nothing left, and no end of the process. */
TEST(without_descriptors_it_is_not_opened)
{
	struct rlimit before, limit;
	struct sml_loop *second = NULL;
	int next = dup(STDERR_FILENO);

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	for (unsigned n = 0; n < 2; n++) {
		limit.rlim_cur = (rlim_t)next + n;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		assert_int_equal(sml_loop_open(&second), -EMFILE);
		assert_null(second);
	}
	limit.rlim_cur = (rlim_t)next + 2;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(sml_loop_open(&second), 0);
	sml_loop_close(second);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

#define N_LOOPS 50

static void *open_many(void *argument)
{
	struct sml_loop *opened;

	(void)argument;
	for (unsigned i = 0; i < 1000; i++) {
		if (sml_loop_open(&opened) < 0)
			abort();
		sml_loop_close(opened);
	}
	return NULL;
}

TEST(threads_open_and_close_loops_at_the_same_time)
{
	const unsigned before = count_entries(FILES_FOLDER);
	pthread_t threads[2];

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_many, NULL), 0);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count_entries(FILES_FOLDER), before);
}

/* One for each, and one for all. */
TEST(many_loops_need_one_descriptor_each)
{
	struct sml_loop *loops[N_LOOPS];
	struct counted posted[N_LOOPS] = {{.watch = NULL}};
	const unsigned before = count_entries(FILES_FOLDER);

	for (unsigned i = 0; i < N_LOOPS; i++) {
		assert_int_equal(sml_loop_open(&loops[i]), 0);
		posted[i].watch = sml_watch_new(loops[i], -1, count, &posted[i]);
	}
	assert_int_equal(count_entries(FILES_FOLDER), before + N_LOOPS + 1);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < N_LOOPS; i += 2)
			sml_watch_post(posted[i].watch);
		for (unsigned i = 0; i < N_LOOPS; i++)
			(void)sml_loop_turn(loops[i], 0);
		for (unsigned i = 0; i < N_LOOPS; i++)
			assert_int_equal(posted[i].n, i % 2 ? 0 : round);
	}
	for (unsigned i = 0; i < N_LOOPS; i++) {
		sml_watch_free(posted[i].watch);
		sml_loop_close(loops[i]);
	}
	assert_int_equal(count_entries(FILES_FOLDER), before);
}

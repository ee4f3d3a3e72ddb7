/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks whose children were made by fork() and live on, like a data loader's workers. The
 * children keep nothing that others wait for. Each rank that ends is a process, created
 * before this one has threads.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

/* All ranks are told within this time. A heartbeat alone would take a minute. */
#define SOON_MS	     30000
#define HEARTBEAT_MS 60000
/* Children end by themselves if the test dies before it ends them. */
#define ORPHAN_S 300

static int test_lives[2]; /* a pipe: readable when the test, which holds the other end, has ended */

static void live_on(void)
{
	char byte;

	close(test_lives[1]);
	alarm(ORPHAN_S);
	while (read(test_lives[0], &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void leave_child(struct rank *rank)
{
	pid_t child = fork();

	if (child == 0)
		live_on();
	CHECK(rank, child > 0);
}

/* A child that fork()'s handlers do not see. */
static void leave_child_of_clone(struct rank *rank)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (child == 0)
		live_on();
	CHECK(rank, child > 0);
}

static void sum_some(struct rank *rank)
{
	float data[1000] = {0};

	for (int i = 0; i < 10; i++)
		CHECK(rank, sml_allreduce(rank->context, data, data, 1000, SML_FLOAT32, SML_SUM,
					  NULL, NULL) == 0);
}

static void set_up(void)
{
	assert_int_equal(pipe(test_lives), 0);
}

/* All children end. */
static void tear_down(void)
{
	close(test_lives[0]);
	close(test_lives[1]);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* ---- the same port again ---- */

static void sum_with_child(struct rank *rank)
{
	sum_some(rank);
	if (rank->rank == 0)
		leave_child(rank);
	sum_some(rank);
}

static void sum_with_child_of_clone(struct rank *rank)
{
	sum_some(rank);
	if (rank->rank == 0)
		leave_child_of_clone(rank);
	sum_some(rank);
}

TEST_WITH(rank_0_opens_again_while_its_child_lives, set_up, tear_down)
{
	struct job job = {.n_ranks = 2, .port = free_port(), .body = sum_with_child};

	run_job(&job);
	run_job(&job);
	job.body = sum_with_child_of_clone;
	run_job(&job);
	job.body = sum_some;
	run_job(&job);
}

/* ---- an orphan's port ---- */

static void die_with_child(struct rank *rank)
{
	sum_with_child(rank);
	if (rank->rank == 0)
		kill(getpid(), SIGKILL);
	wait_until_told(rank);
}

TEST_WITH(nobody_listens_when_rank_0_is_dead_and_its_child_lives, set_up, tear_down)
{
	struct job job = {.n_ranks = 2, .port = free_port(), .body = die_with_child};
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)job.port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	pid_t both = fork();
	int fd, status = 0;

	if (both == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_job(&job);
		_exit(0);
	}
	assert_int_equal(waitpid(both, &status, 0), both);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), -1);
	assert_int_equal(errno, ECONNREFUSED);
	close(fd);
}

/* ---- news ---- */

static void sum_until_told(struct rank *rank)
{
	float data[1000] = {0};
	uint64_t began;
	int error;

	do {
		began = now_ms();
		error = sml_allreduce(rank->context, data, data, 1000, SML_FLOAT32, SML_SUM, NULL,
				      NULL);
	} while (error == 0);
	if (error != SML_ERROR_RANK_DIED || now_ms() - began > SOON_MS)
		complain(rank, "%s, after %d ms", sml_error_text(rank->context),
			 (int)(now_ms() - began));
}

static void die_alone(struct rank *rank)
{
	sum_some(rank);
	leave_child(rank);
	kill(getpid(), SIGKILL);
}

static void let_die(int dying, const char *switch_address)
{
	struct job job = {.n_ranks = 3,
			  .switch_address = switch_address,
			  .port = free_port(),
			  .elsewhere = 1 << dying,
			  .heartbeat_ms = HEARTBEAT_MS,
			  .timeout_ms = 2 * HEARTBEAT_MS,
			  .body = sum_until_told};
	struct job childs = job;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		childs.body = die_alone;
		_exit(run_rank(&childs, dying));
	}
	run_job(&job);
	waitpid(child, NULL, 0);
}

TEST_WITH(a_death_is_told_at_once_while_a_child_lives, set_up, tear_down)
{
	let_die(2, NULL);
	let_die(0, NULL);
	let_die(1, "embedded");
}

/* ---- children of a rank ---- */

static void open_in_child(struct rank *rank)
{
	const struct job own = {.n_ranks = 2, .port = free_port(), .body = sum_some};
	int status = -1;
	pid_t child;

	sum_some(rank);
	if (rank->rank == 0) {
		child = fork();
		if (child == 0) {
			run_job(&own);
			_exit(0);
		}
		waitpid(child, &status, 0);
		CHECK(rank, status == 0);
	}
	sum_some(rank);
}

TEST_WITH(a_child_has_a_job_of_its_own, set_up, tear_down)
{
	run_job(&(struct job){.n_ranks = 2, .body = open_in_child});
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the log when standard error has gone: nobody reads the pipe, or it is closed. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/log.h"
#include "support/test.h"
#include "switch/shared/log.h"

static int terminal;

/* Standard error becomes this descriptor. What cmocka says goes to the terminal again after that.
 */
static void end_at(int fd)
{
	terminal = dup(STDERR_FILENO);
	assert_true(terminal >= 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
}

static void come_back(void)
{
	assert_int_equal(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
	close(terminal);
}

static bool is_pending(void)
{
	sigset_t pending;

	assert_int_equal(sigpending(&pending), 0);
	return sigismember(&pending, SIGPIPE);
}

/* As a rank, and as a switch, which also runs inside an application. */
static void log_both(void)
{
	const struct sml_log log = {.level = SML_LOG_ERROR, .rank = 3};

	errno = EDOM;
	sml_log(&log, SML_LOG_ERROR, "a line of %s", "a rank");
	assert_int_equal(errno, EDOM);
	sml_switch_log(SML_LOG_WARN, "a line of %s", "a switch");
	assert_int_equal(errno, EDOM);
}

static void log_without_reader(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	end_at(fds[1]);
	log_both();
	come_back();
	close(fds[1]);
}

/* A process that dies of SIGPIPE would end this test. */
TEST(a_log_without_a_reader_ends_no_process)
{
	sigset_t before, after;

	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
	log_without_reader();
	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
	assert_false(sigismember(&before, SIGPIPE) || sigismember(&after, SIGPIPE));
	assert_false(is_pending());
}

/* A thread of the library has all signals blocked, and may take them later (base/thread.h). */
TEST(a_log_leaves_no_signal_in_a_thread_that_blocks_it)
{
	sigset_t broken_pipe, before;

	sigemptyset(&broken_pipe);
	sigaddset(&broken_pipe, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &broken_pipe, &before), 0);
	log_without_reader();
	assert_false(is_pending());
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

TEST(a_signal_that_the_application_waits_for_stays)
{
	sigset_t broken_pipe, before;
	int got = 0;

	sigemptyset(&broken_pipe);
	sigaddset(&broken_pipe, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &broken_pipe, &before), 0);
	assert_int_equal(raise(SIGPIPE), 0);
	log_without_reader();
	assert_true(is_pending());
	assert_int_equal(sigwait(&broken_pipe, &got), 0);
	assert_int_equal(got, SIGPIPE);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

TEST(a_line_reaches_a_reader_whole)
{
	char line[128] = "";
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	end_at(fds[1]);
	sml_log(&(struct sml_log){.rank = 2}, SML_LOG_ERROR, "all is %s", "well");
	come_back();
	assert_true(read(fds[0], line, sizeof(line) - 1) > 0);
	assert_string_equal(line, "switchml[rank 2]: all is well\n");
	close(fds[0]);
	close(fds[1]);
}

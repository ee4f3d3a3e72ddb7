/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control port of a switch that has few descriptors, or none left. These tests fork, so they
 * are in a program without threads.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/switch_client.h"
#include "support/test.h"
#include "support/unharmed.h"

static void end_poor_switch(pid_t pid)
{
	clients_close(members, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * A child process with few descriptors. Returns its pid; its port is known. It is an application
 * that does more once it serves.
 */
static pid_t start_poor_application(void (*does_more)(void))
{
	struct sml_switch_config config = config_of_test();
	const struct rlimit few = {48, 48};
	int fds[2];
	pid_t pid;

	config.greeting_ms = 60000;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_NOFILE, &few);
		port = client_open_switch(&config);
		if (write(fds[1], &port, sizeof(port)) != sizeof(port))
			_exit(1);
		does_more();
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
	close(fds[0]);
	return pid;
}

static void do_nothing(void)
{
}

static pid_t start_poor_switch(void)
{
	return start_poor_application(do_nothing);
}

TEST_WITH(few_descriptors_are_enough, NULL, tear_down)
{
	struct client many[200];
	pid_t poor = start_poor_switch();

	for (unsigned i = 0; i < 200; i++)
		client_open(&many[i], "127.0.0.1", port);
	start_job();
	expect_unharmed();
	clients_close(many, 200);
	end_poor_switch(poor);
}

/*
 * All connections that came while the switch could not look are accepted at once. None may
 * delay another.
 */
TEST_WITH(who_comes_last_in_a_crowd_joins, NULL, tear_down)
{
	struct client many[100];
	pid_t poor = start_poor_switch();

	for (unsigned before = 60; before <= 100; before++) {
		kill(poor, SIGSTOP);
		assert_int_equal(waitpid(poor, NULL, WUNTRACED), poor);
		for (unsigned i = 0; i < before; i++)
			client_open(&many[i], "127.0.0.1", port);
		clients_join(members, 2, "127.0.0.1", port, "last");
		kill(poor, SIGCONT);
		clients_begin(members, 2);
		expect_unharmed();
		clients_close(many, before);
		clients_close(members, 2);
	}
	end_poor_switch(poor);
}

static int log_of_child[2], orders[2];

static void give_order(void)
{
	assert_int_equal(write(orders[1], "", 1), 1);
}

static void await_order(void)
{
	char order;

	if (read(orders[0], &order, 1) != 1)
		_exit(1);
}

/* It takes all descriptors, says so, and gives them back when it is told to. */
static void take_all_descriptors(void)
{
	int taken[64], n = 0;

	dup2(log_of_child[1], STDERR_FILENO);
	while (n < 64 && (taken[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	if (write(STDERR_FILENO, "none is left\n", 13) < 0)
		_exit(1);
	await_order();
	while (n > 0)
		close(taken[--n]);
}

/* The log up to the end of a line that has this part. */
static void read_log_until(const char *part, char *text, size_t bytes)
{
	size_t n = strlen(text);

	while (strstr(text, part) == NULL || text[n - 1] != '\n') {
		struct pollfd ready = {.fd = log_of_child[0], .events = POLLIN};
		ssize_t more;

		if (poll(&ready, 1, CLIENT_WAIT_MS) != 1)
			fail_msg("the log does not say \"%s\", but: %s", part, text);
		more = read(log_of_child[0], text + n, bytes - 1 - n);
		assert_true(more > 0);
		n += (size_t)more;
		text[n] = '\0';
	}
}

TEST_WITH(a_switch_that_has_no_descriptors_left_says_so_once, NULL, tear_down)
{
	char log[4096] = "";
	pid_t poor;

	assert_int_equal(pipe(log_of_child), 0);
	assert_int_equal(pipe(orders), 0);
	poor = start_poor_application(take_all_descriptors);
	close(log_of_child[1]);
	read_log_until("none is left", log, sizeof(log));
	clients_join(members, 2, "127.0.0.1", port, "poor");
	read_log_until("a connection cannot be accepted: Too many open files. The limit of "
		       "descriptors is 48: raise it (ulimit -n; LimitNOFILE= of a service)",
		       log, sizeof(log));
	give_order();
	/* Those that waited are served now. */
	clients_begin(members, 2);
	expect_unharmed();
	end_poor_switch(poor);
	for (ssize_t n; (n = read(log_of_child[0], log, sizeof(log) - 1)) > 0;) {
		log[n] = '\0';
		assert_null(strstr(log, "cannot be accepted"));
	}
	close(log_of_child[0]);
	close(orders[0]);
	close(orders[1]);
}

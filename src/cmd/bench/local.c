/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml bench --local-workers N`: N processes on this machine, one per
 * rank. The switch runs in this process, unless another one is named. The
 * workers are forked before the switch's threads begin, and learn its port
 * through a pipe.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "cmd/bench/bench.h"
#include "cmd/shared/command.h"
#include "cmd/shared/status_client.h"
#include "switch/switch.h"

struct local_ranks {
	pid_t pids[BENCH_MAX_LOCAL];
	unsigned n;
	int port_pipe[2];
};

/* In the child: wait for the switch, then be a rank. */
static int be_worker(const struct bench_options *options, const struct sml_config *config,
		     const struct local_ranks *ranks, unsigned rank)
{
	struct sml_config mine = *config;
	char address[32];
	uint16_t port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Who reads the news may be gone. */
	signal(SIGPIPE, options->news >= 0 ? SIG_IGN : SIG_DFL);
	close(ranks->port_pipe[1]);
	if (read(ranks->port_pipe[0], &port, sizeof(port)) != (ssize_t)sizeof(port))
		return 1; /* the parent has said why */
	close(ranks->port_pipe[0]);
	if (!options->switch_address) {
		snprintf(address, sizeof(address), "127.0.0.1:%u", port);
		mine.switch_address = address;
	}
	mine.rank = (int)rank;
	mine.world_size = (int)options->local_workers;
	return bench_rank(options, &mine);
}

static int start_workers(struct local_ranks *ranks, const struct bench_options *options,
			 const struct sml_config *config)
{
	if (pipe(ranks->port_pipe) < 0)
		return -errno;
	fflush(NULL);
	for (; ranks->n < options->local_workers; ranks->n++) {
		pid_t pid = fork();

		if (pid < 0)
			return -errno;
		if (pid == 0)
			exit(sml_standard_finish("bench",
						 be_worker(options, config, ranks, ranks->n)));
		ranks->pids[ranks->n] = pid;
	}
	return 0;
}

static int send_port(const struct local_ranks *ranks, uint16_t port)
{
	for (unsigned i = 0; i < ranks->n; i++) {
		if (write(ranks->port_pipe[1], &port, sizeof(port)) != (ssize_t)sizeof(port))
			return -errno;
	}
	return 0;
}

static int start_switch(struct sml_switch **opened)
{
	struct sml_switch_config config;
	int error;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.tls = sml_environment_tls_files();
	config.job_key = sml_environment_key_source();
	config.job_key_names = sml_key_variables;
	error = sml_switch_open(opened, &config);
	if (error)
		fprintf(stderr, "switchml bench: the switch cannot be started: %s\n",
			sml_error_last());
	return error;
}

/* Wait for one worker. True if it succeeded. */
static bool has_succeeded(pid_t pid, unsigned rank)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	if (WIFSIGNALED(status))
		fprintf(stderr, "switchml bench: rank %u: ended by signal %d (%s)\n", rank,
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int bench_local(const struct bench_options *options, const struct sml_config *config)
{
	struct sml_switch *embedded = NULL;
	struct local_ranks ranks = {.port_pipe = {-1, -1}};
	uint16_t port = 0;
	int error = start_workers(&ranks, options, config);
	bool good;

	if (options->seconds && ranks.n > 0)
		bench_pass_on_the_end(ranks.pids[0]);
	if (error)
		fprintf(stderr, "switchml bench: cannot start %u workers: %s\n",
			options->local_workers, strerror(-error));
	if (!error && !options->switch_address)
		error = start_switch(&embedded);
	if (embedded)
		port = sml_switch_port(embedded);
	if (!error)
		error = send_port(&ranks, port);
	/* Workers that still wait for the port see the pipe's end, and exit. */
	close(ranks.port_pipe[0]);
	close(ranks.port_pipe[1]);
	good = !error;
	for (unsigned i = 0; i < ranks.n; i++) {
		good &= has_succeeded(ranks.pids[i], i);
		bench_keep_the_end();
	}
	sml_switch_close(embedded);
	return good ? 0 : 1;
}

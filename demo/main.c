/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * switchml-demo: training on gradients that the network sums.
 *
 * If a launcher started this process, it is one rank. Otherwise, it is the parent of
 * `workers` processes, one for each rank, and only waits for them. The parent forks before
 * it opens anything, and it never uses the library itself.
 *
 *	parent -- fork --> rank 0 (with the switch), rank 1, ... rank n - 1
 *	   '----- wait: says what went wrong first, if anything did
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo/report.h"
#include "demo/worker.h"

#define DEFAULT_WORKERS 4
/* No call of the library waits longer than this. */
#define TIMEOUT_MS 30000

struct family {
	int n_workers, n_alive;
	pid_t workers[DEMO_MAX_WORKERS];
	int cause;	  /* the rank that failed first, or -1 */
	int cause_status; /* as returned by wait() */
	int n_failed;
	bool interrupted;
	sigset_t signals; /* blocked except in wait_for_workers() */
};

/*
 * A port that is free now. It stays unreserved until rank 0 takes it, but a collision is
 * unlikely.
 */
static int free_port(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		port = ntohs(address.sin_port);
	if (port < 0)
		demo_error(-1, "no free TCP port on 127.0.0.1 for the switch: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return port;
}

/* Each rank has its own seed for faults, which is the same in every run. */
static const char *faults_of(const struct demo_options *options, int rank, char *text, size_t size)
{
	if (options->drop + options->duplicate + options->reorder == 0)
		return NULL;
	snprintf(text, size, "drop=%u,duplicate=%u,reorder=%u,seed=%d", options->drop,
		 options->duplicate, options->reorder, rank + 1);
	return text;
}

/* Options of the command line override variables of the environment. */
static void apply(struct demo_options *options, struct sml_config *config, const char *faults)
{
	if (faults)
		config->faults = faults;
	if (options->switch_address)
		config->switch_address = options->switch_address;
	if (options->wire != SML_WIRE_DEFAULT)
		config->wire = options->wire;
	options->wire = config->wire;
	if (config->timeout_ms > TIMEOUT_MS)
		config->timeout_ms = TIMEOUT_MS;
}

static int be_rank(struct demo_options *options, struct sml_config *config)
{
	char text[128];

	apply(options, config, faults_of(options, config->rank, text, sizeof(text)));
	return demo_worker(options, config);
}

/*
 * Runs in the child. If the parent dies, its children die too. A terminal's Ctrl-C also
 * reaches the children, but only the parent tells them to stop.
 */
static _Noreturn void child_main(struct demo_options *options, struct sml_config *config,
				 const struct family *family, pid_t parent)
{
	signal(SIGINT, SIG_IGN);
	sigprocmask(SIG_UNBLOCK, &family->signals, NULL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(DEMO_FAILED);
	exit(be_rank(options, config));
}

static void signal_workers(const struct family *family, int signal)
{
	for (int rank = 0; rank < family->n_workers; rank++) {
		if (family->workers[rank] > 0)
			kill(family->workers[rank], signal);
	}
}

static int fork_workers(struct family *family, struct demo_options *options,
			struct sml_config *config, int world)
{
	pid_t parent = getpid();
	char job[64];

	snprintf(job, sizeof(job), "demo-%d", (int)parent);
	config->job = job;
	config->world_size = world;
	config->master_port = free_port();
	if (config->master_port < 0)
		return -EADDRINUSE;
	for (int rank = 0; rank < world; rank++) {
		pid_t pid = fork();

		config->rank = rank;
		if (pid == 0)
			child_main(options, config, family, parent);
		if (pid < 0) {
			demo_error(-1, "cannot start worker %d: %s", rank, strerror(errno));
			signal_workers(family, SIGTERM);
			return -EAGAIN;
		}
		family->workers[family->n_workers++] = pid;
		family->n_alive++;
	}
	return 0;
}

/* Death by signal is a cause. A failed exit may only be the consequence of another failure. */
static void take_note(struct family *family, pid_t pid, int status)
{
	int rank = 0;

	while (rank < family->n_workers && family->workers[rank] != pid)
		rank++;
	if (rank == family->n_workers)
		return;
	family->workers[rank] = 0;
	family->n_alive--;
	if (status == 0)
		return;
	if (WIFEXITED(status) && WEXITSTATUS(status) == DEMO_INTERRUPTED) {
		family->interrupted = true;
		return;
	}
	family->n_failed++;
	if (family->cause < 0 || (WIFSIGNALED(status) && !WIFSIGNALED(family->cause_status))) {
		family->cause = rank;
		family->cause_status = status;
	}
}

/*
 * Every request to stop is passed on as SIGTERM: the first asks the ranks to stop, the
 * second kills.
 */
static void wait_for_workers(struct family *family)
{
	while (family->n_alive > 0) {
		int signal = sigwaitinfo(&family->signals, NULL), status;
		pid_t pid;

		if (signal == SIGINT || signal == SIGTERM) {
			family->interrupted = true;
			signal_workers(family, SIGTERM);
		}
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			take_note(family, pid, status);
	}
}

static int conclude(const struct family *family)
{
	int status = family->cause_status;

	if (family->interrupted) {
		demo_error(-1, "interrupted");
		return DEMO_INTERRUPTED;
	}
	if (family->cause < 0)
		return DEMO_GOOD;
	if (WIFSIGNALED(status))
		demo_error(-1,
			   "failed: rank %d was killed by signal %d (%s); %d of %d workers failed",
			   family->cause, WTERMSIG(status), strsignal(WTERMSIG(status)),
			   family->n_failed, family->n_workers);
	else
		demo_error(-1, "failed: %d of %d workers, rank %d first", family->n_failed,
			   family->n_workers, family->cause);
	return DEMO_FAILED;
}

static int be_parent(struct demo_options *options, struct sml_config *config)
{
	struct family family = {.cause = -1};
	int status;

	sigemptyset(&family.signals);
	sigaddset(&family.signals, SIGCHLD);
	sigaddset(&family.signals, SIGINT);
	sigaddset(&family.signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &family.signals, NULL);
	status = fork_workers(&family, options, config,
			      options->workers ? options->workers : DEFAULT_WORKERS);
	wait_for_workers(&family);
	return status < 0 ? DEMO_FAILED : conclude(&family);
}

/* A launcher that starts only one process is a launcher, too. */
static bool launched(const struct sml_config *config)
{
	return config->world_size > 1 || getenv("WORLD_SIZE") || getenv("SWITCHML_WORLD_SIZE");
}

int main(int argc, char **argv)
{
	struct demo_options options;
	struct sml_config config = SML_CONFIG_INIT;

	demo_options_parse(&options, argc, argv);
	if (sml_config_init(&config) < 0) {
		demo_error(-1, "%s", sml_error_text(NULL));
		return DEMO_FAILED;
	}
	/* The report has it all. */
	if (!getenv("SWITCHML_SUMMARY"))
		config.summary = 0;
	if (!launched(&config))
		return be_parent(&options, &config);
	if (options.workers && options.workers != config.world_size) {
		demo_error(-1,
			   "--workers is %d, but the launcher has started %d ranks: leave out "
			   "--workers",
			   options.workers, config.world_size);
		return DEMO_FAILED;
	}
	return be_rank(&options, &config);
}

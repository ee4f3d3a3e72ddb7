/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build/tests/chaos --chaos: a process that runs the switch in a child process, kills it with
 * SIGKILL at random times, and starts it again at the same address. Times come from the seed.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/plural.h"
#include "chaos/chaos.h"
#include "sim/gen.h"
#include "support/switch_process.h"

/* Milliseconds that a switch lives, and that no switch runs. */
#define LIFE_LEAST_MS 300
#define LIFE_MOST_MS  1500
#define GONE_MOST_MS  400

/* How often the switch was killed: in memory that the keeper's process shares. NULL: not known. */
static unsigned *n_kills;

uint32_t chaos_life_ms(struct gen *gen)
{
	return gen_range(gen, LIFE_LEAST_MS, LIFE_MOST_MS);
}

uint32_t chaos_gap_ms(struct gen *gen)
{
	return gen_below(gen, GONE_MOST_MS);
}

static void await_job(unsigned n_workers, int news)
{
	char byte;

	for (unsigned i = 0; i < n_workers; i++) {
		if (read(news, &byte, 1) != 1)
			break;
	}
}

/*
 * Leaving a job is not a call: ranks whose switch dies when it has told some of them that all have
 * left need one that lives for five seconds. So from a worker's last call on, the switch lives.
 */
static void live(uint32_t ms, int news)
{
	struct pollfd told = {.fd = news, .events = POLLIN};

	if (poll(&told, 1, (int)ms) <= 0)
		return;
	for (;;)
		pause();
}

/*
 * In the keeper's process: never returns. It kills switches from the time when a byte of each
 * worker has arrived, because a job that has not begun does not survive its switch.
 */
static void keep(const struct chaos_options *options, const int news[2], int tell)
{
	struct switch_process process = {.port = 0};
	struct gen gen;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(news[1]);
	gen_from_seed(&gen, options->bench.seed);
	for (unsigned life = 0;; life++) {
		switch_process_start(&process);
		if (life == 0 && write(tell, &process.port, sizeof(process.port)) !=
					 (ssize_t)sizeof(process.port))
			_exit(1);
		if (life == 0)
			await_job(options->bench.local_workers, news[0]);
		live(chaos_life_ms(&gen), news[0]);
		switch_process_kill(&process);
		if (n_kills != NULL)
			__atomic_store_n(n_kills, life + 1, __ATOMIC_RELAXED);
		fprintf(stderr, "chaos: the switch was killed, %u time%s now\n", life + 1,
			life ? "s" : "");
		usleep(chaos_gap_ms(&gen) * 1000);
	}
}

/* Returns when the first switch can be used. Returns the keeper's process, or -1 after a message.
 */
static pid_t start_keeper(const struct chaos_options *options, const int news[2], uint16_t *port)
{
	int fds[2];
	ssize_t got;
	pid_t pid;

	if (pipe(fds) < 0)
		return -1;
	n_kills = mmap(NULL, sizeof(*n_kills), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (n_kills == MAP_FAILED)
		n_kills = NULL;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		keep(options, news, fds[1]);
	close(fds[1]);
	got = pid > 0 ? read(fds[0], port, sizeof(*port)) : 0;
	close(fds[0]);
	return got == (ssize_t)sizeof(*port) ? pid : -1;
}

/* good: all ranks have ended without an error. */
static void report(const struct chaos_options *options, bool good)
{
	unsigned n;

	if (n_kills == NULL)
		return;
	n = __atomic_load_n(n_kills, __ATOMIC_RELAXED);
	/* nccl-tests' readers do not expect it among their lines. */
	fprintf(options->bench.nccl_tests ? stderr : stdout,
		"# Chaos: the switch was killed %u time%s (--seed %llu), and the job %s\n", n,
		sml_plural(n), (unsigned long long)options->bench.seed,
		!good	? "failed"
		: n > 0 ? "went on each time"
			: "was over before that");
}

int chaos_kill_switches(struct chaos_options *options, struct sml_config *config)
{
	char address[32];
	uint16_t port = 0;
	int news[2], status;
	pid_t keeper;

	if (pipe(news) < 0 || (keeper = start_keeper(options, news, &port)) < 0) {
		fprintf(stderr, "chaos: the process that kills switches cannot be started\n");
		return 1;
	}
	snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	options->bench.switch_address = config->switch_address = address;
	options->bench.news = news[1];
	if (options->bench.seconds)
		bench_end_by_signals(SA_RESTART);
	status = bench_local(&options->bench, config);
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	report(options, status == 0);
	return status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The launcher of an elastic job: see elastic.h. It has no threads, and never uses the library. */
#include "demo/elastic.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "demo/report.h"
#include "demo/worker.h"

#define DEFAULT_WORKERS 4
#define LEAST_WORKERS	3
/* Longer than any call of a worker. */
#define SILENCE_MS 90000
/* How often the launcher looks at the steps. */
#define LOOK_MS 2
/* The members train until something happens. */
#define NO_END 1000000000

struct child {
	pid_t pid; /* 0: it is not there */
	int fd;
};

static struct launcher {
	const struct demo_options *options;
	struct sml_config config;
	struct child children[DEMO_MAX_WORKERS];
	int n, membership;
	int *steps; /* of each worker, in memory that all share */
	double began;
} launcher;

/* ---- workers ---- */

static int start_worker(int w)
{
	struct child *child = &launcher.children[w];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	fflush(NULL);
	child->pid = fork();
	if (child->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		for (int i = 0; i < launcher.n; i++)
			if (launcher.children[i].pid > 0)
				close(launcher.children[i].fd);
		_exit(demo_elastic_worker(launcher.options, &launcher.config, ends[1],
					  &launcher.steps[w]));
	}
	close(ends[1]);
	child->fd = ends[0];
	if (child->pid < 0) {
		child->pid = 0;
		close(ends[0]);
		return -EAGAIN;
	}
	return 0;
}

static void kill_worker(int w)
{
	struct child *child = &launcher.children[w];

	if (child->pid == 0)
		return;
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
	close(child->fd);
	child->pid = 0;
}

static int n_there(void)
{
	int n = 0;

	for (int w = 0; w < launcher.n; w++)
		n += launcher.children[w].pid > 0;
	return n;
}

/* This worker's next answer must be this one. *last: the answer. */
static int hear(int w, enum demo_event what, struct demo_answer *last)
{
	struct pollfd readable = {.fd = launcher.children[w].fd, .events = POLLIN};
	int n;

	while ((n = poll(&readable, 1, SILENCE_MS)) < 0 && errno == EINTR)
		;
	if (n != 1 || read(readable.fd, last, sizeof(*last)) != (ssize_t)sizeof(*last)) {
		demo_error(-1, "worker %d %s", w, n == 1 ? "has ended" : "does not answer");
		return -1;
	}
	if (last->what == what)
		return 0;
	demo_error(-1, "worker %d at step %d: %s", w, last->step,
		   last->text[0] ? last->text : "it answers out of turn");
	return -1;
}

/* All workers that are there. *last is the latest answer. */
static int hear_all(enum demo_event what, struct demo_answer *last)
{
	struct demo_answer one;

	*last = (struct demo_answer){.at = 0};
	for (int w = 0; w < launcher.n; w++) {
		if (launcher.children[w].pid == 0)
			continue;
		if (hear(w, what, &one) < 0)
			return -1;
		if (one.at >= last->at)
			*last = one;
	}
	return 0;
}

/* ---- events ---- */

__attribute__((format(printf, 3, 4))) static void tell(int step, double since, const char *format,
						       ...)
{
	char text[800];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (since > 0)
		printf("step %4d  %7.1f ms later: %s\n", step, 1e3 * since, text);
	else
		printf("step %4d  %s\n", step, text);
	fflush(stdout);
}

/* All that are there become the members, in the order of `first` and then the others. */
static int order(const int ranks[DEMO_MAX_WORKERS], int last)
{
	struct demo_order next = {
		.membership = ++launcher.membership, .world = n_there(), .last = last};

	for (; next.rank < next.world; next.rank++) {
		const struct child *child = &launcher.children[ranks[next.rank]];

		if (send(child->fd, &next, sizeof(next), MSG_NOSIGNAL) != (ssize_t)sizeof(next)) {
			demo_error(-1, "worker %d has ended", ranks[next.rank]);
			return -1;
		}
	}
	return 0;
}

/* Says when all have the model, and when they have made the next step; times since `began`. */
static int go_on(const int ranks[DEMO_MAX_WORKERS], int last, double began)
{
	struct demo_answer joined, stepped;

	if (order(ranks, last) < 0 || hear_all(DEMO_JOINED, &joined) < 0)
		return -1;
	tell(joined.step, joined.at - began, "%d workers are the job%s, with the same model",
	     n_there(),
	     launcher.options->switch_decides && launcher.membership > 1
		     ? ", as the switch has decided"
		     : "");
	if (hear_all(DEMO_STEPPED, &stepped) < 0)
		return -1;
	tell(stepped.step, stepped.at - began, "all of them have made the next step");
	return 0;
}

/* Or until it has something to say, which it should not have: that is for the next hear(). */
static void await_step(int w, int step)
{
	struct pollfd readable = {.fd = launcher.children[w].fd, .events = POLLIN};

	while (__atomic_load_n(&launcher.steps[w], __ATOMIC_RELAXED) < step &&
	       poll(&readable, 1, LOOK_MS) <= 0)
		;
}

/* ---- what happens ---- */

static int begin_membership(int ranks[DEMO_MAX_WORKERS])
{
	struct demo_answer ready;
	int error = 0;

	for (int w = 0; w < launcher.n && error == 0; w++) {
		ranks[w] = w;
		error = start_worker(w);
	}
	if (error) {
		demo_error(-1, "cannot start the workers: %s", strerror(-error));
		return -1;
	}
	if (hear_all(DEMO_READY, &ready) < 0)
		return -1;
	return go_on(ranks, NO_END, launcher.began);
}

/* A worker in the middle is killed; the others become ranks without a gap. */
static int lose_one(int ranks[DEMO_MAX_WORKERS], int victim)
{
	pid_t pid = launcher.children[victim].pid;
	struct demo_answer failed;
	double began = demo_now();
	int n = 0;

	kill_worker(victim);
	tell(launcher.steps[victim], 0, "kill -9 of worker %d (pid %d)", victim, (int)pid);
	if (hear_all(DEMO_FAILED_CALL, &failed) < 0)
		return -1;
	tell(failed.step, failed.at - began, "all others have the error: %s", failed.text);
	for (int w = 0; w < launcher.n; w++)
		if (w != victim)
			ranks[n++] = w;
	return go_on(ranks, NO_END, began);
}

/* It is the last rank from now on. The others stop after the same step to let it in. */
static int bring_back(int ranks[DEMO_MAX_WORKERS], int victim)
{
	int last = launcher.options->steps, more = launcher.options->steps / 3 + 1;
	struct demo_answer answer;
	double began = demo_now();

	tell(launcher.steps[ranks[0]], 0, "worker %d is started again", victim);
	if (start_worker(victim) < 0 || hear(victim, DEMO_READY, &answer) < 0)
		return -1;
	tell(launcher.steps[ranks[0]], answer.at - began,
	     "it asks to join; the others stop after a step");
	kill(launcher.children[ranks[0]].pid, SIGUSR1);
	for (int rank = 0; rank < launcher.n - 1; rank++)
		if (hear(ranks[rank], DEMO_STOPPED, &answer) < 0)
			return -1;
	ranks[launcher.n - 1] = victim;
	/* On a busy machine, the others may be past their last step already. */
	if (last < answer.step + more)
		last = answer.step + more;
	return go_on(ranks, last, began);
}

static int conclude(const int ranks[DEMO_MAX_WORKERS])
{
	struct demo_answer first, other;
	bool same = true, good = true;
	int status;

	if (hear(ranks[0], DEMO_STOPPED, &first) < 0)
		return -1;
	for (int rank = 1; rank < launcher.n; rank++) {
		if (hear(ranks[rank], DEMO_STOPPED, &other) < 0)
			return -1;
		same &= other.hash == first.hash && other.step == first.step;
	}
	tell(first.step, 0, "the end: loss %.4f, %.1f %% of the test images", first.loss,
	     100 * first.accuracy);
	printf("  %s  all %d workers have the same parameters, bit for bit (%016llx)\n",
	       same ? "ok" : "NO", launcher.n, (unsigned long long)first.hash);
	if (order(ranks, 0) < 0)
		return -1;
	for (int w = 0; w < launcher.n; w++) {
		struct child *child = &launcher.children[w];

		good &= waitpid(child->pid, &status, 0) == child->pid && status == 0;
		close(child->fd);
		child->pid = 0;
	}
	if (!good)
		demo_error(-1, "a worker could not leave the job");
	return same && good ? 0 : -1;
}

static int play(void)
{
	int ranks[DEMO_MAX_WORKERS] = {0}, steps = launcher.options->steps, victim = launcher.n / 2;

	if (begin_membership(ranks) < 0)
		return -1;
	await_step(0, steps / 3);
	if (lose_one(ranks, victim) < 0)
		return -1;
	await_step(0, 2 * steps / 3);
	if (bring_back(ranks, victim) < 0)
		return -1;
	return conclude(ranks);
}

int demo_elastic(const struct demo_options *options, const struct sml_config *config)
{
	char job[64];
	int status;

	launcher.options = options;
	launcher.config = *config;
	launcher.n = options->workers ? options->workers : DEFAULT_WORKERS;
	launcher.began = demo_now();
	if (launcher.n < LEAST_WORKERS) {
		demo_error(-1, "--elastic needs %d workers: two go on when one dies",
			   LEAST_WORKERS);
		return DEMO_FAILED;
	}
	if (options->switch_decides && (!config->switch_address || !*config->switch_address)) {
		demo_error(-1, "--switch-decides needs a switch: name one with --switch");
		return DEMO_FAILED;
	}
	snprintf(job, sizeof(job), "demo-%d", (int)getpid());
	launcher.config.job = job;
	launcher.steps = mmap(NULL, sizeof(int) * DEMO_MAX_WORKERS, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (launcher.steps == MAP_FAILED) {
		demo_error(-1, "no memory");
		return DEMO_FAILED;
	}
	status = play();
	for (int w = 0; w < launcher.n; w++)
		kill_worker(w);
	return status < 0 ? DEMO_FAILED : DEMO_GOOD;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml bench --chaos-ranks`: the keeper of ranks that are killed with SIGKILL and started
 * again about once a second. It decides who the members are, as a launcher would, and judges every
 * error: it must follow from what was killed, and name nobody who was not.
 *
 *	        started         order             first sum
 *	ABSENT --------> IDLE ---------> JOINING -----------> RUNNING
 *	   ^              ^                 |                    |
 *	   |              '-----------------+--------------------'
 *	   '--- killed, in any state        an error, or all have agreed to stop
 *
 * When no member of the last membership is in it any more, all idle processes are the next one. A
 * member that dies ends it, and so does the wish to let in a process that is back.
 *
 * This process has no threads, because it forks while ranks run. The switch is another process.
 */
#include "cmd/bench/chaos_ranks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plural.h"
#include "cmd/bench/chaos_report.h"
#include "sim/gen.h"

/* Milliseconds between two kills, and how long a process is away. */
#define KILL_LEAST_MS 500
#define KILL_MOST_MS  1500
#define AWAY_LEAST_MS 50
#define AWAY_MOST_MS  800
/* Some deaths come together: one kill in this many is followed by another one at once. */
#define TOGETHER 6
/*
 * A member that has not noticed for so long that its job has ended is told so: its switch may have
 * died before it could, and then the member waits for all others to come to the next one.
 */
#define UNTOLD_MS 1000
/* Whoever has made no call and given no answer for so long hangs. */
#define HANG_MS 90000
/* Of every call of a rank. Whatever reaches it is an error here. */
#define CALL_MS 45000
/* Pids of killed processes, for the judge; a pid is used again only after many others. */
#define REMEMBERED 4096

enum state { ABSENT, IDLE, JOINING, RUNNING };

struct process {
	enum state state;
	pid_t pid;
	int fd;
	uint32_t number;
	bool member; /* of the last membership, and not killed since */
	bool told;   /* to abandon it */
	bool summed; /* its first sum is there */
	bool closed;
	uint64_t back_ns; /* ABSENT: when it is started again */
	uint64_t heard_ns,
		progress; /* when it was seen to do something, and its calls until then */
};

static struct keeper {
	const struct bench_options *options;
	struct sml_config config;
	struct gen gen;
	struct chaos_memory *memory;
	struct process processes[BENCH_MAX_LOCAL];
	unsigned n;
	uint32_t n_started, membership;
	uint64_t kill_ns, end_ns;
	/* The last membership. */
	uint64_t ordered_ns, last_sum_ns;
	uint64_t broken_ns; /* when a member had died, or had an error; 0: none has */
	bool has_begun, is_over, has_cause;
	int order_of[BENCH_MAX_LOCAL]; /* the processes, by rank */
	int world_size;
	char unexplained[1000]; /* an error that follows from another one, which is to come */
	uint64_t struck_ns;	/* the first kill since the last membership that summed; 0: none */
	pid_t killed[REMEMBERED];
	/* The switch, if this process started it. */
	pid_t switch_pid;
	uint16_t port;
	uint64_t switch_ns;	   /* when it is killed or started */
	uint64_t switch_killed_ns; /* when it was killed last */
	char address[32];
	struct chaos_results results;
} keeper;

static uint64_t after_ms(uint64_t ns, uint32_t ms)
{
	return ns + ms * SML_NS_PER_MS;
}

/* ---- the switch ---- */

static int start_switch(void)
{
	keeper.switch_pid = bench_switch_start(&keeper.port, true);
	if (keeper.switch_pid < 0)
		return -EIO;
	keeper.switch_ns = after_ms(bench_now_ns(), bench_chaos_life_ms(&keeper.gen));
	snprintf(keeper.address, sizeof(keeper.address), "127.0.0.1:%u", keeper.port);
	keeper.config.switch_address = keeper.address;
	return 0;
}

/* A rank that joins does not wait for a switch that does not listen. */
static bool has_switch(void)
{
	return keeper.options->switch_address || keeper.switch_pid > 0;
}

static void kill_switch(void)
{
	if (keeper.switch_pid <= 0)
		return;
	kill(keeper.switch_pid, SIGKILL);
	waitpid(keeper.switch_pid, NULL, 0);
	keeper.switch_pid = 0;
}

static int strike_switch(uint64_t now_ns)
{
	if (!keeper.options->chaos || now_ns < keeper.switch_ns)
		return 0;
	if (keeper.switch_pid == 0)
		return start_switch();
	kill_switch();
	keeper.results.switch_kills++;
	keeper.switch_killed_ns = now_ns;
	keeper.switch_ns = after_ms(now_ns, bench_chaos_gap_ms(&keeper.gen));
	return 0;
}

/* ---- processes ---- */

static _Noreturn void be_process(unsigned place, int fd)
{
	struct sml_config config = keeper.config;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* the keeper ends all */
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT)
			close(keeper.processes[i].fd);
	/* Half of them send packets, even if all could share memory. */
	if (!getenv("SWITCHML_HOST_GROUP"))
		config.host_group = place % 2 ? 0 : -1;
	bench_chaos_rank(keeper.options, &config, keeper.memory, place, fd);
}

static int start_process(unsigned place)
{
	struct process *process = &keeper.processes[place];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	fflush(NULL);
	process->pid = fork();
	if (process->pid == 0) {
		close(ends[0]);
		be_process(place, ends[1]);
	}
	close(ends[1]);
	if (process->pid < 0)
		return -errno;
	process->fd = ends[0];
	process->number = ++keeper.n_started;
	process->state = IDLE;
	process->member = process->closed = false;
	return 0;
}

static void end_process(struct process *process)
{
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	close(process->fd);
	process->state = ABSENT;
	process->member = false;
}

static unsigned count(enum state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < keeper.n; i++)
		n += keeper.processes[i].state == state;
	return n;
}

/* ---- kills ---- */

static void strike(struct process *process, uint64_t now_ns)
{
	keeper.killed[keeper.results.kills++ % REMEMBERED] = process->pid;
	keeper.has_cause |= process->member;
	if (keeper.struck_ns == 0)
		keeper.struck_ns = bench_now_ns();
	end_process(process);
	process->back_ns = after_ms(now_ns, gen_range(&keeper.gen, AWAY_LEAST_MS, AWAY_MOST_MS));
}

/* Any of those that are there, but at least one stays, and two of three or more. */
static void strike_one(uint64_t now_ns)
{
	unsigned there = keeper.n - count(ABSENT), chosen;

	if (now_ns < keeper.kill_ns || !keeper.has_begun)
		return;
	keeper.kill_ns =
		gen_chance(&keeper.gen, 1, TOGETHER)
			? now_ns
			: after_ms(now_ns, gen_range(&keeper.gen, KILL_LEAST_MS, KILL_MOST_MS));
	if (there <= (keeper.n > 2 ? 2u : 1u))
		return;
	chosen = gen_below(&keeper.gen, there);
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT && chosen-- == 0)
			strike(&keeper.processes[i], now_ns);
}

static int bring_back(uint64_t now_ns)
{
	int error = 0;

	for (unsigned i = 0; i < keeper.n && error == 0; i++)
		if (keeper.processes[i].state == ABSENT && now_ns >= keeper.processes[i].back_ns) {
			error = start_process(i);
			keeper.results.returns += keeper.has_begun;
		}
	return error;
}

/* ---- errors ---- */

static void complain(const char *what, const struct process *process, const char *text)
{
	fprintf(stderr, "switchml bench: %s: process %u (pid %d) in membership %u: %s\n", what,
		process->number, process->pid, keeper.membership, text);
}

static bool was_killed(long pid)
{
	for (unsigned i = 0; i < REMEMBERED; i++)
		if (keeper.killed[i] == pid)
			return true;
	return false;
}

/* Of a text about a rank that has died: does it name one that was not killed? */
static bool names_falsely(const char *text)
{
	const char *pid = strstr(text, "pid "), *rank = strstr(text, "rank ");
	long n;

	if (pid)
		return !was_killed(strtol(pid + strlen("pid "), NULL, 10));
	n = rank ? strtol(rank + strlen("rank "), NULL, 10) : -1;
	if (n < 0 || n >= keeper.world_size)
		return true;
	return keeper.processes[keeper.order_of[n]].member;
}

static void unexpected(const struct process *process, const char *text)
{
	keeper.results.unexpected++;
	complain("an error without a cause", process, text);
}

static void judge(const struct process *process, const struct chaos_answer *answer)
{
	bool switch_gone = keeper.switch_killed_ns >= keeper.ordered_ns;

	switch (answer->error) {
	case SML_ERROR_RANK_DIED:
		if (names_falsely(answer->text)) {
			keeper.results.false_names++;
			complain("a false name", process, answer->text);
		}
		keeper.has_cause = true;
		return;
	case SML_ERROR_TIMEOUT:
		if (answer->joining && keeper.has_cause)
			return;
		keeper.results.hangs++;
		complain("a call did not end in time", process, answer->text);
		return;
	case SML_ERROR_ABORTED:
	case -EINTR:
		/* What another member's error has ended: that one may still be on its way. */
		snprintf(keeper.unexplained, sizeof(keeper.unexplained), "%s", answer->text);
		return;
	case SML_ERROR_SWITCH_DIED:
	case SML_ERROR_UNREACHABLE:
		keeper.has_cause |= switch_gone;
		if (!switch_gone)
			unexpected(process, answer->text);
		return;
	default:
		unexpected(process, answer->text);
	}
}

/* All members have said how it ended. */
static void judge_membership(void)
{
	if (keeper.unexplained[0] && !keeper.has_cause) {
		keeper.results.unexpected++;
		fprintf(stderr, "switchml bench: membership %u was aborted without a cause: %s\n",
			keeper.membership, keeper.unexplained);
	}
	keeper.unexplained[0] = '\0';
}

/* ---- answers ---- */

static void note_sum(struct process *process, const struct chaos_answer *answer)
{
	process->state = RUNNING;
	process->summed = true;
	if (answer->at_ns > keeper.last_sum_ns)
		keeper.last_sum_ns = answer->at_ns;
	for (int rank = 0; rank < keeper.world_size; rank++) {
		const struct process *other = &keeper.processes[keeper.order_of[rank]];

		if (!other->member || !other->summed)
			return;
	}
	/* All of them have it. */
	keeper.results.changes += keeper.has_begun;
	keeper.has_begun = true;
	if (keeper.struck_ns)
		bench_times_add(&keeper.results.times, keeper.last_sum_ns - keeper.struck_ns);
	keeper.struck_ns = 0;
	if (keeper.kill_ns == 0)
		keeper.kill_ns = after_ms(keeper.last_sum_ns, KILL_LEAST_MS);
}

static void take_answer(struct process *process, const struct chaos_answer *answer)
{
	process->heard_ns = bench_now_ns();
	switch (answer->what) {
	case ANSWER_SUMMED:
		note_sum(process, answer);
		return;
	case ANSWER_FAILED:
		judge(process, answer);
		break;
	case ANSWER_CLOSED:
		process->closed = true;
		if (answer->error && process->member)
			unexpected(process, answer->text);
		break;
	case ANSWER_STOPPED:
		break;
	}
	process->state = IDLE;
	keeper.is_over |= answer->what == ANSWER_FAILED;
}

static void hear(struct process *process)
{
	struct chaos_answer answer;

	if (read(process->fd, &answer, sizeof(answer)) == (ssize_t)sizeof(answer)) {
		take_answer(process, &answer);
		return;
	}
	unexpected(process, "it has ended by itself");
	strike(process, bench_now_ns());
}

/* Up to `ms`, and then all that are there. */
static void hear_all(int ms)
{
	struct pollfd fds[BENCH_MAX_LOCAL];

	for (unsigned i = 0; i < keeper.n; i++) {
		const struct process *process = &keeper.processes[i];

		fds[i] = (struct pollfd){.fd = process->state == ABSENT ? -1 : process->fd,
					 .events = POLLIN};
	}
	if (poll(fds, keeper.n, ms) <= 0)
		return;
	for (unsigned i = 0; i < keeper.n; i++)
		if (fds[i].revents)
			hear(&keeper.processes[i]);
}

static void look_for_hangs(uint64_t now_ns)
{
	for (unsigned i = 0; i < keeper.n; i++) {
		struct process *process = &keeper.processes[i];
		uint64_t progress = __atomic_load_n(&keeper.memory->progress[i], __ATOMIC_RELAXED);

		if (progress != process->progress || process->state <= IDLE)
			process->heard_ns = now_ns;
		process->progress = progress;
		if (now_ns <= process->heard_ns + HANG_MS * SML_NS_PER_MS)
			continue;
		keeper.results.hangs++;
		complain("a hang", process, "it does not answer");
		strike(process, now_ns);
	}
}

/* ---- memberships ---- */

static void tell(struct process *process, const struct chaos_order *order)
{
	/* If it has just died, its socket says so. */
	if (send(process->fd, order, sizeof(*order), MSG_NOSIGNAL) == (ssize_t)sizeof(*order))
		process->heard_ns = bench_now_ns();
}

/* A member has died, or has an error. */
static bool is_broken(void)
{
	bool broken = keeper.is_over;

	for (int rank = 0; rank < keeper.world_size; rank++)
		broken |= !keeper.processes[keeper.order_of[rank]].member;
	return broken;
}

static void abandon(struct process *process)
{
	const struct chaos_order order = {.verb = ORDER_ABANDON, .membership = keeper.membership};

	if (process->told)
		return;
	process->told = keeper.has_cause = true;
	keeper.results.untold += process->state == RUNNING;
	tell(process, &order);
}

/* Members that join would wait for the dead one until they have no time left. */
static void abandon_broken(void)
{
	uint64_t now_ns = bench_now_ns();
	bool is_late;

	if (keeper.broken_ns == 0)
		keeper.broken_ns = now_ns;
	is_late = now_ns >= after_ms(keeper.broken_ns, UNTOLD_MS);
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state == JOINING ||
		    (keeper.processes[i].state == RUNNING && is_late))
			abandon(&keeper.processes[i]);
}

static void begin_membership(void)
{
	struct chaos_order order = {.verb = ORDER_JOIN, .membership = ++keeper.membership};

	judge_membership();
	keeper.world_size = 0;
	for (unsigned i = 0; i < keeper.n; i++) {
		struct process *process = &keeper.processes[i];

		process->member = process->state == IDLE;
		process->summed = process->told = false;
		if (!process->member)
			continue;
		order.members[keeper.world_size] = process->number;
		keeper.order_of[keeper.world_size++] = (int)i;
	}
	keeper.is_over = keeper.has_cause = false;
	keeper.broken_ns = 0;
	keeper.ordered_ns = bench_now_ns();
	keeper.last_sum_ns = 0;
	order.world_size = keeper.world_size;
	for (; order.rank < order.world_size; order.rank++) {
		struct process *process = &keeper.processes[keeper.order_of[order.rank]];

		process->state = JOINING;
		tell(process, &order);
	}
}

static void stop_sums(void)
{
	__atomic_store_n(&keeper.memory->stop, keeper.membership, __ATOMIC_RELAXED);
}

static void change_members(void)
{
	unsigned idle = count(IDLE), busy = count(JOINING) + count(RUNNING);

	if (busy == 0 && idle > 0 && has_switch())
		begin_membership();
	else if (busy > 0 && is_broken())
		abandon_broken();
	else if (idle > 0)
		stop_sums();
}

/* ---- the whole ---- */

static bool is_enough(uint64_t now_ns)
{
	const struct bench_options *options = keeper.options;

	return bench_is_told_to_end() || keeper.results.unexpected > 0 ||
	       keeper.results.hangs > 0 ||
	       (options->changes > 0 && keeper.results.changes >= options->changes) ||
	       (keeper.end_ns > 0 && now_ns >= keeper.end_ns);
}

static int next_ms(uint64_t now_ns)
{
	uint64_t until_ns = now_ns + 50 * SML_NS_PER_MS;

	if (keeper.kill_ns > now_ns && keeper.kill_ns < until_ns)
		until_ns = keeper.kill_ns;
	if (keeper.options->chaos && keeper.switch_ns > now_ns && keeper.switch_ns < until_ns)
		until_ns = keeper.switch_ns;
	return (int)((until_ns - now_ns) / SML_NS_PER_MS) + 1;
}

static int keep(void)
{
	uint64_t now_ns = bench_now_ns();
	int error = 0;

	while (error == 0 && !is_enough(now_ns)) {
		error = strike_switch(now_ns);
		strike_one(now_ns);
		if (error == 0)
			error = bring_back(now_ns);
		change_members();
		look_for_hangs(now_ns);
		hear_all(next_ms(now_ns));
		now_ns = bench_now_ns();
	}
	return error;
}

static bool all_are(bool (*so)(const struct process *process))
{
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT && !so(&keeper.processes[i]))
			return false;
	return true;
}

static bool is_idle(const struct process *process)
{
	return process->state == IDLE;
}

static bool is_closed(const struct process *process)
{
	return process->closed;
}

/* False: not in time. */
static bool await_all(bool (*so)(const struct process *process))
{
	uint64_t until_ns = bench_now_ns() + HANG_MS * SML_NS_PER_MS;

	while (!all_are(so) && bench_now_ns() < until_ns) {
		if (is_broken())
			abandon_broken();
		hear_all(50);
	}
	return all_are(so);
}

/* All stop after the same sum and leave: who has no job any more has nothing to leave. */
static int end_all(void)
{
	const struct chaos_order order = {.verb = ORDER_CLOSE, .membership = keeper.membership};
	int error = keeper.options->chaos && keeper.switch_pid == 0 ? start_switch() : 0;
	bool is_whole;

	stop_sums();
	if (error == 0 && await_all(is_idle)) {
		judge_membership();
		is_whole = keeper.has_begun && !is_broken();
		for (unsigned i = 0; i < keeper.n; i++) {
			struct process *process = &keeper.processes[i];

			process->member &= is_whole;
			if (process->state == IDLE)
				tell(process, &order);
		}
	}
	if (error == 0 && !await_all(is_closed)) {
		keeper.results.hangs++;
		fprintf(stderr, "switchml bench: not all ranks have stopped\n");
	}
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT)
			end_process(&keeper.processes[i]);
	return error;
}

static int prepare(const struct bench_options *options, const struct sml_config *config)
{
	keeper.options = options;
	keeper.config = *config;
	keeper.n = options->local_workers;
	gen_from_seed(&keeper.gen, options->seed);
	if (keeper.config.timeout_ms > CALL_MS)
		keeper.config.timeout_ms = CALL_MS;
	if (!options->job && !getenv("SWITCHML_JOB"))
		keeper.config.job = "chaos";
	keeper.memory = mmap(NULL, sizeof(*keeper.memory), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (keeper.memory == MAP_FAILED)
		return -ENOMEM;
	if (options->seconds)
		keeper.end_ns = after_ms(bench_now_ns(), options->seconds * 1000);
	return options->switch_address ? 0 : start_switch();
}

int bench_chaos_ranks(const struct bench_options *options, const struct sml_config *config)
{
	int error = prepare(options, config);

	if (error == 0) {
		error = keep();
		if (end_all() < 0)
			error = -EIO;
	}
	kill_switch();
	if (error)
		fprintf(stderr, "switchml bench: %s\n", strerror(-error));
	keeper.results.sums = keeper.memory->sums;
	keeper.results.wrong = keeper.memory->wrong;
	return chaos_report(options, &keeper.results) || error ? 1 : 0;
}

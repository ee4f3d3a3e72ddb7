/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks die, leave and join, and the others go on with sml_reconfigure(). Every rank is a process,
 * so that it can be killed or frozen. The parent gives each of them one membership after the other
 * over a socket, as a launcher would, and reads what each has summed.
 *
 * The property: a sum is that of the members of exactly one membership. Each process contributes
 * a bit of its own, so a sum of int32 names those whose contributions it has.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/switch_process.h"
#include "support/test.h"

#define MAX_PROCESSES 10
#define COUNT	      20000
/* Whatever is slow here is a hang. */
#define SOON_MS 60000

/* From the parent to a process: what to do next. */
struct order {
	enum { JOIN, AWAIT_JOINERS, SUM, SUM_UNTIL_IT_FAILS, CALL_UNTIL_ONE_FAILS, CLOSE } verb;
	char job[96];
	int rank, world_size, port, timeout_ms;
	/* The switch decides on all of this but the first job. */
	bool asks;
	int joiners; /* that the process awaits */
	int members; /* of the job whose calls it makes, as bits */
	bool keeps;  /* the buffers of calls that have failed */
	int min_ranks, max_ranks, wait_ms;
};

/* And its answer. */
struct answer {
	int result;
	int32_t sum; /* of the last complete call: the members, as bits */
	int calls;   /* that were complete before the one that failed */
	int handed;  /* calls that had failed, and were completed by sml_reconfigure() */
	int place;   /* all its complete calls, then; -1: it had none since the last time */
	int rank, world_size;
	int previous[MAX_PROCESSES]; /* of each rank, as the switch says */
	char text[400];
};

struct process {
	pid_t pid;
	int fd; /* to it */
};

/* How the job runs; the same for all of its processes. */
static struct form {
	const char *switch_address, *other_address; /* of processes with even and odd numbers */
	bool shares;
	int alone; /* bit i: process i does not share memory */
} form;
/* Of the rank that freezes. It may stall this long before it is meant to. */
#define FROZEN_HEARTBEAT_MS 4000
static int heartbeat_ms; /* 0: 20 s */
static const char *faults;
static struct process processes[MAX_PROCESSES];

/* ---- a process ---- */

static int open_context(struct sml_context **context, const struct order *order, int self)
{
	struct job job = {.n_ranks = order->world_size,
			  .name = order->job,
			  .switch_address = self & 1 && form.other_address ? form.other_address
									   : form.switch_address,
			  .port = order->port,
			  .host_group = form.shares && !(form.alone >> self & 1),
			  .faults = faults,
			  .heartbeat_ms = heartbeat_ms};
	struct sml_config config;

	configure(&config, &job, order->rank);
	config.join = order->asks;
	return sml_open(context, &config);
}

static int reconfigure(struct sml_context *context, const struct order *order)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	if (!order->asks) {
		next.job = order->job;
		next.rank = order->rank;
		next.world_size = order->world_size;
		next.master_port = order->port;
	}
	next.min_ranks = order->min_ranks;
	next.max_ranks = order->max_ranks;
	next.wait_ms = order->wait_ms;
	next.timeout_ms = order->timeout_ms;
	next.keeps_buffers = order->keeps;
	return sml_reconfigure(context, &next);
}

/* Every element must be the same sum. Not in place: the input survives an error. */
static int sum(struct sml_context *context, int self, int32_t *members)
{
	static int32_t send[COUNT], recv[COUNT];
	int error;

	for (int i = 0; i < COUNT; i++)
		send[i] = 1 << self;
	error = sml_allreduce(context, send, recv, COUNT, SML_INT32, SML_SUM, NULL);
	if (error)
		return error;
	for (int i = 0; i < COUNT; i++)
		if (recv[i] != recv[0])
			abort();
	*members = recv[0];
	return 0;
}

/*
 * Several calls at once, each of another kind, over and over. Call i adds values that depend on i,
 * so that whoever completes it later than the others has its own bits, and no other call's.
 */
#define KINDS 5

static struct {
	float in_place[COUNT], send[COUNT], recv[COUNT];
	int64_t least[COUNT / 4];
	int32_t own[COUNT / 4], parts[COUNT / 4 * MAX_PROCESSES];
	struct sml_request *requests[KINDS];
	int results[KINDS]; /* of the last calls */
	bool failed;	    /* one of them has, and it has not joined another job since */
	int n;		    /* calls that were made, of all kinds */
	int first;	    /* number of the last calls' first */
	int members, self;
} work;

static float value(int call, int i, int process)
{
	return (float)((call * 31 + i * 7 + process * 3) % 1000) / 8;
}

static void fill(void)
{
	for (int i = 0; i < COUNT; i++) {
		work.in_place[i] = value(work.n, i, work.self);
		work.send[i] = value(work.n + 1, i, work.self);
		work.recv[i] = -1;
	}
	for (int i = 0; i < COUNT / 4; i++) {
		work.least[i] = (int64_t)(work.n + 2 + i) * -4294967296 + work.self;
		work.own[i] = work.n + 3 + i + work.self;
	}
	memset(work.parts, 0, sizeof(work.parts));
}

/* Of the calls that were made with fill(): is this one's result there? */
static bool has_result(int kind)
{
	int n = 0, least = MAX_PROCESSES;

	for (int i = 0; i < MAX_PROCESSES; i++)
		if (work.members >> i & 1) {
			least = least < i ? least : i;
			for (int j = 0; kind == 3 && j < COUNT / 4; j++)
				if (work.parts[n * (COUNT / 4) + j] != work.first + 3 + j + i)
					return false;
			n++;
		}
	for (int i = 0; kind < 2 && i < COUNT; i++) {
		const float sum = kind ? work.recv[i] : work.in_place[i];
		float expected = 0;

		for (int j = 0; j < MAX_PROCESSES; j++)
			if (work.members >> j & 1)
				expected += value(work.first + kind, i, j);
		if (sum < expected - 1e-3F || sum > expected + 1e-3F)
			return false;
	}
	for (int i = 0; kind == 2 && i < COUNT / 4; i++)
		if (work.least[i] != (int64_t)(work.first + 2 + i) * -4294967296 + least)
			return false;
	return true;
}

static int begin_calls(struct sml_context *context)
{
	int error;

	work.first = work.n;
	fill();
	memset(work.requests, 0, sizeof(work.requests));
	error = sml_allreduce_async(context, work.in_place, work.in_place, COUNT, SML_FLOAT32,
				    SML_SUM, NULL, &work.requests[0]);
	if (error == 0)
		error = sml_allreduce_async(context, work.send, work.recv, COUNT, SML_FLOAT32,
					    SML_SUM, NULL, &work.requests[1]);
	if (error == 0)
		error = sml_allreduce_async(context, work.least, work.least, COUNT / 4, SML_INT64,
					    SML_MIN, NULL, &work.requests[2]);
	if (error == 0)
		error = sml_allgather_async(context, work.own, work.parts, COUNT / 4, SML_INT32,
					    &work.requests[3]);
	if (error == 0)
		error = sml_barrier_async(context, &work.requests[4]);
	return error;
}

static int call_until_one_fails(struct sml_context *context, int self)
{
	int error = 0;

	work.self = self;
	while (error == 0) {
		error = begin_calls(context);
		for (int i = 0; i < KINDS; i++) {
			work.results[i] = work.requests[i] ? sml_wait(work.requests[i]) : error;
			error = work.results[i] ? work.results[i] : error;
			if (work.results[i] == 0 && !has_result(i))
				abort();
		}
		work.n += KINDS;
	}
	work.failed = true;
	return error;
}

/* After sml_reconfigure(): how many failed calls are complete now, and where that leaves it. */
static void count_completed(struct sml_context *context, struct answer *answer)
{
	int failed = 0, complete = 0;

	answer->place = -1;
	if (!work.failed)
		return;
	work.failed = false;

	for (int i = 0; i < KINDS; i++) {
		bool completed;

		if (!work.requests[i])
			continue;
		completed = work.results[i] != 0 && sml_completed(context, failed++) == 1;
		if (completed && !has_result(i))
			abort();
		answer->handed += completed;
		if (work.results[i] == 0 || completed)
			complete |= 1 << i;
	}
	/* All of these, or none of the next ones, is the same place. */
	answer->place = work.first / KINDS << KINDS;
	answer->place += complete == (1 << KINDS) - 1 ? 1 << KINDS : complete;
}

static int await_joiners(struct sml_context *context, int n)
{
	uint64_t began = now_ms();

	while (sml_waiting(context) != n && now_ms() - began < SOON_MS)
		usleep(1000);
	return sml_waiting(context) == n ? 0 : SML_ERROR_TIMEOUT;
}

static void say_who(struct sml_context *context, struct answer *answer)
{
	answer->rank = sml_rank(context);
	answer->world_size = sml_world_size(context);
	for (int rank = 0; rank < MAX_PROCESSES; rank++)
		answer->previous[rank] = sml_previous_rank(context, rank);
}

static int join(struct sml_context **context, const struct order *order, int self,
		struct answer *answer)
{
	int error = *context ? reconfigure(*context, order) : open_context(context, order, self);

	if (error == 0)
		say_who(*context, answer);
	if (error == 0 && order->keeps)
		count_completed(*context, answer);
	return error;
}

static int obey(struct sml_context **context, const struct order *order, int self,
		struct answer *answer)
{
	int error = 0;

	switch (order->verb) {
	case JOIN:
		return join(context, order, self, answer);
	case AWAIT_JOINERS:
		return await_joiners(*context, order->joiners);
	case SUM:
		return sum(*context, self, &answer->sum);
	case SUM_UNTIL_IT_FAILS:
		for (; error == 0; answer->calls += error == 0)
			error = sum(*context, self, &answer->sum);
		return error;
	case CALL_UNTIL_ONE_FAILS:
		work.members = order->members;
		return call_until_one_fails(*context, self);
	case CLOSE:
		error = sml_close(*context);
		*context = NULL;
		break;
	}
	return error;
}

static const char *text_of(const struct sml_context *context, const struct order *order)
{
	return sml_error_text(order->verb == JOIN ? NULL : context);
}

static _Noreturn void be_process(int self, int fd)
{
	struct sml_context *context = NULL;
	struct order order;

	while (read(fd, &order, sizeof(order)) == sizeof(order)) {
		struct answer answer = {.sum = 0};

		answer.result = obey(&context, &order, self, &answer);
		if (answer.result)
			snprintf(answer.text, sizeof(answer.text), "%s", text_of(context, &order));
		if (write(fd, &answer, sizeof(answer)) != sizeof(answer))
			break;
	}
	_exit(0);
}

/* ---- the parent ---- */

/* Before this process has threads. */
static void start(int i)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	processes[i].pid = fork();
	if (processes[i].pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int j = 0; j < MAX_PROCESSES; j++)
			if (processes[j].fd > 0)
				close(processes[j].fd);
		close(ends[0]);
		be_process(i, ends[1]);
	}
	assert_true(processes[i].pid > 0);
	close(ends[1]);
	processes[i].fd = ends[0];
}

static void start_all(int n)
{
	for (int i = 0; i < n; i++)
		start(i);
}

static void end_process(int i)
{
	if (processes[i].pid == 0)
		return;
	kill(processes[i].pid, SIGKILL);
	waitpid(processes[i].pid, NULL, 0);
	close(processes[i].fd);
	processes[i] = (struct process){0, 0};
}

static void end_all(void)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		end_process(i);
}

static void tell(int i, const struct order *order)
{
	assert_int_equal(write(processes[i].fd, order, sizeof(*order)), sizeof(*order));
}

static struct answer hear(int i)
{
	struct pollfd readable = {.fd = processes[i].fd, .events = POLLIN};
	struct answer answer;

	if (poll(&readable, 1, SOON_MS) != 1)
		fail_msg("process %d does not answer", i);
	if (read(processes[i].fd, &answer, sizeof(answer)) != sizeof(answer))
		fail_msg("process %d has ended", i);
	return answer;
}

/* To each process whose bit is set. They become ranks in this order. */
static void tell_members(int members, struct order order)
{
	order.world_size = __builtin_popcount((unsigned)members);
	order.rank = 0;
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1) {
			tell(i, &order);
			order.rank++;
		}
}

/* What else has been answered: the first error may only follow from another one. */
static void print_answers(void)
{
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct pollfd readable = {.fd = processes[i].fd, .events = POLLIN};
		struct answer answer;

		if (processes[i].pid == 0 || poll(&readable, 1, 0) != 1)
			continue;
		answer = hear(i);
		print_error("process %d answers %d: %s\n", i, answer.result, answer.text);
	}
}

/*
 * However a job ends, its ranks differ by one call at most: one that has completed a call had the
 * contributions of all.
 */
static void expect(int members, int result, int32_t total)
{
	int fewest = INT_MAX, most = 0;

	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = hear(i);
		fewest = answer.calls < fewest ? answer.calls : fewest;
		most = answer.calls > most ? answer.calls : most;
		if (answer.result == result && (result || answer.sum == total))
			continue;
		print_answers();
		fail_msg("process %d: %d, not %d; sum %x, not %x: %s", i, answer.result, result,
			 answer.sum, total, answer.text);
	}
	if (most > fewest + 1)
		fail_msg("one member has completed %d calls, and another %d", most, fewest);
}

/* All do it, and it works. */
static void let(int members, struct order order)
{
	tell_members(members, order);
	expect(members, 0, order.verb == SUM ? members : 0);
}

static struct order to_job(const char *name, int port)
{
	struct order order = {.verb = JOIN, .port = port};

	snprintf(order.job, sizeof(order.job), "%s", name);
	return order;
}

static const struct order make_sum = {.verb = SUM}, sum_on = {.verb = SUM_UNTIL_IT_FAILS},
			  leave = {.verb = CLOSE};

/* ---- the switch decides ---- */

static const struct order ask = {.verb = JOIN, .asks = true};

/* The processes, old ones in their old order, then the new ones, are the next membership. */
static void expect_decision(int old, int left, int joined)
{
	const int members = (old & left) | joined;
	int previous[MAX_PROCESSES], n = 0;

	/* New ones have the highest numbers. */
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1)
			previous[n++] =
				old >> i & 1 ? __builtin_popcount((unsigned)(old & ((1 << i) - 1)))
					     : -1;
	for (int i = 0, rank = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = hear(i);
		if (answer.result || answer.rank != rank || answer.world_size != n ||
		    memcmp(answer.previous, previous, (size_t)n * sizeof(*previous)) != 0) {
			print_answers();
			fail_msg("process %d is rank %d of %d, not %d of %d (%d: %s)", i,
				 answer.rank, answer.world_size, rank, n, answer.result,
				 answer.text);
		}
		rank++;
	}
	let(members, make_sum);
}

/* They wait at the switch until the job's ranks let them in, who know how many there are. */
static void wait_to_join(int members, int joiners, const char *job)
{
	struct order wish = to_job(job, 0);
	const struct order await = {.verb = AWAIT_JOINERS,
				    .joiners = __builtin_popcount((unsigned)joiners)};

	wish.asks = true;
	tell_members(joiners, wish);
	let(members, await);
}

/* As survive() and die_and_join(). */
static void survive_without_a_list(int members, int dying, int joining, struct order order)
{
	const int left = members & ~dying;

	if (joining)
		wait_to_join(members, joining, "decided");
	tell_members(members, sum_on);
	usleep(20000);
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (dying >> i & 1)
			end_process(i);
	expect(left, SML_ERROR_RANK_DIED, 0);
	tell_members(left, order);
	expect_decision(members, left, joining);
}

static void die_and_be_decided_on(int n)
{
	const int all = (1 << n) - 1;
	struct order quick = ask;

	/* Of two ranks that die together, the switch may not have seen the second one go. */
	quick.wait_ms = 500;
	start_all(n + 2);
	let(all, to_job("decided", 0));
	let(all, make_sum);
	survive_without_a_list(all, 1 << 1, 0, ask);
	survive_without_a_list(all & ~2, 1 << 0 | 1 << (n - 1), 0, quick);
	/* New ones are let in without an error, and after one. */
	int members = all & ~(1 << 0 | 1 << 1 | 1 << (n - 1));

	wait_to_join(members, 1 << n, "decided");
	tell_members(members, ask);
	expect_decision(members, members, 1 << n);
	members |= 1 << n;
	survive_without_a_list(members, 1 << 2, 1 << (n + 1), ask);
	members = (members & ~(1 << 2)) | 1 << (n + 1);
	let(members, leave);
	end_all();
}

/* ---- deaths ---- */

/* All of them sum; those in `dying` are killed in a call, and the others go on without them. */
static void survive(int members, int dying, const char *next, int port)
{
	int left = members & ~dying;

	tell_members(members, sum_on);
	usleep(20000);
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (dying >> i & 1)
			end_process(i);
	expect(left, SML_ERROR_RANK_DIED, 0);
	let(left, to_job(next, port));
	let(left, make_sum);
}

/* A rank dies, and rank 0 with another one, and then new processes join. */
static void die_and_join(int n)
{
	const int port = free_port();
	int members = (1 << n) - 1;

	start_all(n + 2);
	let(members, to_job("first", port));
	let(members, make_sum);
	survive(members, 1 << 1, "second", port);
	members &= ~(1 << 1);
	/* Without a switch, the control port dies with rank 0. */
	survive(members, 1 << 0 | 1 << (n - 1), "third", port);
	members &= ~(1 << 0 | 1 << (n - 1));
	/* The new ones have never been in a job, and become the last ranks. */
	members |= 3 << n;
	let(members, to_job("fourth", port));
	let(members, make_sum);
	let(members, leave);
	end_all();
}

/* Switches that each form of the test may use, as processes. */
static struct switch_process root, second, leaf;
static char root_address[32], both_addresses[64], leaf_address[32];

/* A rank that joins at a leaf which has not reached its parent yet is refused. */
static void await_leaf(void)
{
	uint64_t began = now_ms();
	struct order order = to_job("alone", 0);
	int result;

	order.world_size = 1;
	form = (struct form){.switch_address = leaf_address};
	start(0);
	do {
		tell(0, &order);
		result = hear(0).result;
	} while (result == SML_ERROR_UNREACHABLE && now_ms() - began < SOON_MS);
	end_process(0);
	assert_int_equal(result, 0);
}

static void start_switches(void)
{
	root = second = leaf = (struct switch_process){.pid = 0};
	switch_process_start(&root);
	switch_process_start(&second);
	snprintf(root_address, sizeof(root_address), "127.0.0.1:%u", root.port);
	snprintf(both_addresses, sizeof(both_addresses), "127.0.0.1:%u,127.0.0.1:%u", root.port,
		 second.port);
	leaf.parent = root_address;
	switch_process_start(&leaf);
	snprintf(leaf_address, sizeof(leaf_address), "127.0.0.1:%u", leaf.port);
	await_leaf();
}

/* Four processes, which know the second switch as a standby of the first. */
static void start_with_standby(bool shares)
{
	static char list[80];

	start_switches();
	snprintf(list, sizeof(list), "%s|127.0.0.1:%u", root_address, second.port);
	form = (struct form){.switch_address = list, .shares = shares};
	start_all(4);
}

static void end_switches(void)
{
	switch_process_kill(&leaf);
	switch_process_kill(&second);
	switch_process_kill(&root);
}

TEST(the_others_go_on_after_deaths_and_new_processes_join)
{
	start_switches();
	const struct form forms[] = {
		{NULL, NULL, false, 0},
		{"embedded", NULL, false, 0},
		{NULL, NULL, true, 0},
		{NULL, NULL, true, 1 << 2},
		{root_address, NULL, false, 0},
		{root_address, NULL, true, 0},
		{root_address, NULL, true, 1 << 2},
		{both_addresses, NULL, false, 0},
		{both_addresses, NULL, true, 1 << 3},
		{leaf_address, NULL, false, 0},
		{root_address, leaf_address, true, 0},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		form = forms[i];
		die_and_join(i % 2 ? 8 : 4);
		if (form.switch_address && strcmp(form.switch_address, "embedded") != 0)
			die_and_be_decided_on(i % 2 ? 8 : 4);
	}
	end_switches();
}

TEST(they_go_on_with_a_job_key)
{
	if (!sml_has_tls())
		skip();
	setenv("SWITCHML_JOB_KEY", "a secret of the elastic job", 1);
	start_switches();
	form = (struct form){root_address, leaf_address, true, 0};
	die_and_join(4);
	form = (struct form){.switch_address = NULL};
	die_and_join(4);
	end_switches();
	unsetenv("SWITCHML_JOB_KEY");
}

/* ---- all or none ---- */

/* The others need so long to end their calls without it. */
#define STALL_US 5000
/* ThreadSanitizer makes all so slow that members hardly ever differ: it looks for races only. */
#ifdef __SANITIZE_THREAD__
#define MOST_TRIES 3
#define NEEDS_LUCK false
#else
#define MOST_TRIES 15
#define NEEDS_LUCK true
#endif
static int places[MAX_PROCESSES], n_handed;

static struct order call_as(int members)
{
	return (struct order){.verb = CALL_UNTIL_ONE_FAILS, .members = members};
}

/* They are told to join. What has come of calls that had failed is noted, where it is told. */
static void note_places(int members, bool all_join)
{
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = hear(i);
		if (all_join && answer.result)
			fail_msg("process %d: %d: %s", i, answer.result, answer.text);
		if (answer.result == 0 && answer.place >= 0) {
			places[i] = answer.place;
			n_handed += answer.handed;
		}
	}
}

static void expect_the_same_place(int members)
{
	int first = __builtin_ctz((unsigned)members);

	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1 && places[i] != places[first])
			fail_msg("process %d has completed %x calls, and process %d %x", i,
				 places[i], first, places[first]);
}

static struct order to_job_as_they_are(const char *name)
{
	struct order order = to_job(name, 0);

	order.keeps = true;
	return order;
}

/*
 * All n call, and one of them dies. Another one stalls before: then it has often contributed to a
 * call that only others complete. Their switch may have died, so another one takes over by then.
 */
static void die_while_all_call(int n, int dying, bool with_switch, unsigned wait_us)
{
	const int all = (1 << n) - 1, stalled = (dying + 2) % n;

	let(all, to_job("first", 0));
	tell_members(all, call_as(all));
	usleep(20000 + wait_us);
	if (with_switch) {
		switch_process_kill(&root);
		usleep(20000 + 10 * wait_us);
	}
	kill(processes[stalled].pid, SIGSTOP);
	usleep(STALL_US);
	end_process(dying);
	kill(processes[stalled].pid, SIGCONT);
	expect(all & ~(1 << dying), SML_ERROR_RANK_DIED, 0);
}

/* `dying` is killed while they call, and `late` when the others may already join without it. */
static void die_and_settle(int n, int dying, int late, unsigned wait_us)
{
	int left = ((1 << n) - 1) & ~(1 << dying);

	start_all(n + 1);
	die_while_all_call(n, dying, false, wait_us);
	if (late >= 0) {
		struct order early = to_job_as_they_are("second");

		/* Or it dies before it has come, and they wait in vain. */
		early.timeout_ms = 1000;
		tell_members(left, early);
		usleep(wait_us);
		end_process(late);
		left &= ~(1 << late);
		note_places(left, false);
	}
	/* A new one takes part, and has nothing to settle. */
	tell_members(left | 1 << n, to_job_as_they_are("third"));
	note_places(left | 1 << n, true);
	expect_the_same_place(left);
	let(left | 1 << n, make_sum);
	end_all();
}

/*
 * Until a call was completed late, which needs luck: where all share memory, they have nearly the
 * same results at each time. So not each form must have had it.
 */
static int settle_in_this_form(unsigned *seed)
{
	n_handed = 0;
	for (int tries = 0; tries < MOST_TRIES && (n_handed == 0 || tries < 3); tries++) {
		unsigned wait_us = (unsigned)rand_r(seed) % 20000;

		die_and_settle(4, tries % 4, tries % 2 ? (tries + 1) % 4 : -1, wait_us);
	}
	return n_handed;
}

TEST(a_call_is_complete_on_all_that_go_on_or_on_none)
{
	unsigned seed = (unsigned)sml_now_ns();
	int forms_with_luck = 0;

	print_message("seed %u\n", seed);
	start_switches();
	/* Results that are lost are late on one rank. */
	faults = "drop=50000";
	const struct form forms[] = {
		{root_address, NULL, false, 0},		{root_address, NULL, true, 0},
		{root_address, NULL, true, 1 << 2},	{both_addresses, NULL, false, 0},
		{both_addresses, NULL, true, 1 << 3},	{leaf_address, NULL, false, 0},
		{root_address, leaf_address, false, 0},
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		form = forms[i];
		forms_with_luck += settle_in_this_form(&seed) > 0;
	}
	if (NEEDS_LUCK && forms_with_luck < 2)
		fail_msg("calls were completed late in %d forms only", forms_with_luck);
	faults = NULL;
	end_switches();
}

/* They ask the switch who goes on; or it has died, and they have a list. */
static void settle_once(bool with_switch, unsigned *seed)
{
	const int dying = rand_r(seed) % 4, left = 15 & ~(1 << dying);
	struct order order = with_switch ? to_job_as_they_are("second") : ask;

	order.keeps = true;
	die_while_all_call(4, dying, with_switch, (unsigned)rand_r(seed) % 20000);
	tell_members(left, order);
	note_places(left, true);
	expect_the_same_place(left);
	let(left, make_sum);
	end_all();
}

TEST(so_it_is_where_the_switch_decides)
{
	unsigned seed = (unsigned)sml_now_ns();

	print_message("seed %u\n", seed);
	start_switches();
	faults = "drop=50000";
	n_handed = 0;
	form = (struct form){.switch_address = root_address};
	for (int tries = 0; tries < 4 * MOST_TRIES && (n_handed == 0 || tries < 3); tries++) {
		start_all(4);
		settle_once(false, &seed);
	}
	assert_true(n_handed > 0 || !NEEDS_LUCK);
	faults = NULL;
	end_switches();
}

TEST(so_it_is_where_another_switch_has_taken_over_or_is_about_to)
{
	unsigned seed = (unsigned)sml_now_ns();

	print_message("seed %u\n", seed);
	faults = "drop=50000";
	heartbeat_ms = FROZEN_HEARTBEAT_MS;
	n_handed = 0;
	for (int tries = 0; tries < 4 * MOST_TRIES && (n_handed == 0 || tries < 4); tries++) {
		start_with_standby(tries % 2);
		settle_once(true, &seed);
		switch_process_kill(&leaf);
		switch_process_kill(&second);
	}
	assert_true(n_handed > 0 || !NEEDS_LUCK);
	heartbeat_ms = 0;
	faults = NULL;
}

/* ---- errors during it ---- */

TEST(the_switch_may_die_while_they_join)
{
	start_with_standby(false);
	let(15, to_job("first", 0));
	tell_members(15, sum_on);
	end_process(3);
	expect(7, SML_ERROR_RANK_DIED, 0);
	/* Of three ranks, rank 0 has asked, or is about to, when the switch dies. */
	struct order order = to_job("second", 0);

	order.world_size = 3;
	tell(0, &order);
	usleep(20000);
	switch_process_kill(&root);
	for (order.rank = 1; order.rank < 3; order.rank++)
		tell(order.rank, &order);
	expect(7, 0, 0);
	let(7, make_sum);
	let(7, leave);
	end_all();
	switch_process_kill(&leaf);
	switch_process_kill(&second);
}

/* Nobody is left that has seen it die. The others learn it at the next switch. */
TEST(a_rank_that_dies_with_the_switch_is_missed_there)
{
	uint64_t began;

	heartbeat_ms = FROZEN_HEARTBEAT_MS;
	for (int shares = 0; shares < 2; shares++) {
		start_with_standby(shares);
		let(15, to_job("first", 0));
		tell_members(15, sum_on);
		usleep(20000);
		began = now_ms();
		switch_process_kill(&root);
		end_process(3);
		expect(7, SML_ERROR_RANK_DIED, 0);
		/* Otherwise it takes as long as a call may. */
		if (now_ms() - began > 30000)
			fail_msg("it took %d ms", (int)(now_ms() - began));
		let(7, to_job("second", 0));
		let(7, make_sum);
		let(7, leave);
		end_all();
		switch_process_kill(&leaf);
		switch_process_kill(&second);
	}
	heartbeat_ms = 0;
}

TEST(a_rank_that_dies_before_it_has_joined_is_missed_within_the_limit)
{
	struct order order = to_job("second", free_port());

	start_switches();
	for (int with_switch = 0; with_switch < 2; with_switch++) {
		form = (struct form){.switch_address = with_switch ? root_address : NULL};
		start_all(4);
		let(15, to_job("first", order.port));
		tell_members(15, sum_on);
		end_process(3);
		expect(7, SML_ERROR_RANK_DIED, 0);
		/* Process 2 dies as well, and the others do not know it yet. */
		end_process(2);
		order.world_size = 3;
		order.timeout_ms = 1000;
		for (order.rank = 0; order.rank < 2; order.rank++)
			tell(order.rank, &order);
		for (int i = 0; i < 2; i++) {
			struct answer answer = hear(i);

			/* Without a switch, rank 0's port may be gone when rank 1 looks again. */
			if (answer.result == 0 ||
			    (with_switch && strstr(answer.text, "rank 2") == NULL))
				fail_msg("%d: %s", answer.result, answer.text);
		}
		/* The context has no job, but it can be in one again. */
		tell_members(3, make_sum);
		for (int i = 0; i < 2; i++)
			assert_int_not_equal(hear(i).result, 0);
		let(3, to_job("third", order.port));
		let(3, make_sum);
		let(1, to_job("alone", order.port));
		let(1, make_sum);
		let(3, to_job("again", order.port));
		let(3, make_sum);
		let(3, leave);
		end_all();
	}
	end_switches();
}

/* Processes 0 and 1 cannot meet, and say so. They have no job then, and can be in one again. */
static void expect_to_part(const char *next, int port)
{
	for (int i = 0; i < 2; i++)
		assert_int_not_equal(hear(i).result, 0);
	let(3, to_job(next, port));
	let(3, make_sum);
}

TEST(a_member_that_closes_or_has_another_list_is_an_error_within_the_limit)
{
	struct order order = to_job("", free_port());

	start_switches();
	for (int with_switch = 0; with_switch < 2; with_switch++) {
		form = (struct form){.switch_address = with_switch ? root_address : NULL};
		start_all(3);
		let(7, to_job("first", order.port));
		let(7, make_sum);
		/* Process 2 leaves, while the others go on with it. */
		snprintf(order.job, sizeof(order.job), "second");
		order.timeout_ms = 1000;
		order.world_size = 3;
		for (order.rank = 0; order.rank < 2; order.rank++)
			tell(order.rank, &order);
		tell(2, &leave);
		(void)hear(2);
		expect_to_part("third", order.port);
		/* Process 1 has not heard of another member. */
		snprintf(order.job, sizeof(order.job), "fourth");
		for (order.rank = 0; order.rank < 2; order.rank++) {
			order.world_size = 3 - order.rank;
			tell(order.rank, &order);
		}
		expect_to_part("fifth", order.port);
		let(3, leave);
		end_all();
	}
	end_switches();
}

/* It gets this error, at once. */
static void expect_refusal(int i, int result, const char *part)
{
	const uint64_t began = now_ms();
	struct answer answer = hear(i);

	if (answer.result != result || strstr(answer.text, part) == NULL)
		fail_msg("process %d: %d: \"%s\" should say \"%s\"", i, answer.result, answer.text,
			 part);
	if (now_ms() - began > SOON_MS / 2)
		fail_msg("process %d has waited for %d ms", i, (int)(now_ms() - began));
}

TEST(the_switch_forms_no_second_membership_and_none_that_is_too_small)
{
	struct order few = ask, quick = ask, nobody = {.verb = AWAIT_JOINERS};
	start_with_standby(false);
	let(7, to_job("decided", 0));
	tell_members(7, sum_on);
	end_process(2);
	expect(3, SML_ERROR_RANK_DIED, 0);
	/* Too few; and then enough. */
	few.min_ranks = 3;
	few.wait_ms = quick.wait_ms = 300;
	tell_members(3, few);
	expect_refusal(0, SML_ERROR_REFUSED, "too few ranks to go on: 2, of at least 3");
	expect_refusal(1, SML_ERROR_REFUSED, "too few");
	tell_members(3, ask);
	expect_decision(7, 3, 0);
	/* Process 1 asks too late, and process 3 dies while it waits. */
	wait_to_join(3, 1 << 3, "decided");
	end_process(3);
	let(3, nobody);
	tell(0, &quick);
	expect_decision(3, 1, 0);
	tell(1, &ask);
	expect_refusal(1, SML_ERROR_REFUSED, "too late");
	/* It can be let in as a new process. */
	tell(1, &leave);
	(void)hear(1);
	wait_to_join(1, 1 << 1, "decided");
	tell(0, &ask);
	expect_decision(1, 1, 1 << 1);
	/* The switch dies, and a rank, which another switch cannot know. */
	end_process(1);
	switch_process_kill(&root);
	tell(0, &quick);
	expect_refusal(0, SML_ERROR_TIMEOUT, "your program must decide");
	let(1, to_job("another name", 0));
	let(1, make_sum);
	let(1, leave);
	end_all();
	switch_process_kill(&leaf);
	switch_process_kill(&second);
}

/* Three jobs of three at once. The frozen one is process 1 of each. */
TEST(a_frozen_rank_of_the_old_job_changes_nothing)
{
	const int ports[] = {free_port(), free_port(), free_port()};
	char names[3][2][16];

	start_switches();
	const struct form forms[] = {{root_address, NULL, false, 0},
				     {root_address, NULL, true, 0},
				     {NULL, NULL, true, 0}};

	for (int i = 0; i < 9; i++) {
		form = forms[i / 3];
		heartbeat_ms = i % 3 == 1 ? FROZEN_HEARTBEAT_MS : 60000;
		start(i);
	}
	heartbeat_ms = 0;
	for (int j = 0; j < 3; j++) {
		snprintf(names[j][0], sizeof(names[j][0]), "frozen %d", j);
		snprintf(names[j][1], sizeof(names[j][1]), "thawed %d", j);
		let(7 << 3 * j, to_job(names[j][0], ports[j]));
		tell_members(7 << 3 * j, sum_on);
	}
	usleep(20000);
	for (int j = 0; j < 3; j++)
		kill(processes[3 * j + 1].pid, SIGSTOP);
	for (int j = 0; j < 3; j++) {
		expect(5 << 3 * j, SML_ERROR_RANK_DIED, 0);
		let(5 << 3 * j, to_job(names[j][1], ports[j]));
		let(5 << 3 * j, make_sum);
		tell_members(5 << 3 * j, sum_on);
		kill(processes[3 * j + 1].pid, SIGCONT);
	}
	/*
	 * It gets an error, and what it has summed before is of the old members: nothing, if it had
	 * no processor before it froze.
	 */
	for (int j = 0; j < 3; j++) {
		struct answer answer = hear(3 * j + 1);

		assert_int_not_equal(answer.result, 0);
		assert_int_equal(answer.sum, answer.calls ? 7 << 3 * j : 0);
		/* The others have been summing all the time, without it. */
		end_process(3 * j + 2);
		answer = hear(3 * j);
		assert_int_equal(answer.result, SML_ERROR_RANK_DIED);
		assert_int_equal(answer.sum, answer.calls ? 5 << 3 * j : 0);
	}
	end_all();
	end_switches();
}

/* ---- one process ---- */

static int reconfigure_as(struct rank *rank, const char *name, int timeout_ms)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;

	next.job = name;
	next.rank = rank->rank;
	next.world_size = rank->n;
	next.timeout_ms = timeout_ms;
	return sml_reconfigure(rank->context, &next);
}

#define BYTES sizeof(struct sml_membership)

static const struct wrong {
	struct sml_membership membership;
	const char *part; /* of the text */
} wrong[] = {
	{{.size = 0, .job = "next", .world_size = 2}, "SML_MEMBERSHIP_INIT"},
	{{.size = BYTES + 8, .job = "next", .world_size = 2}, "bytes"},
	{{.size = BYTES, .world_size = 2}, "without a dedicated switch"},
	{{.size = BYTES, .job = "", .world_size = 2}, "no job"},
	{{.size = BYTES, .job = "test", .world_size = 2}, "none has had"},
	{{.size = BYTES, .job = "next", .world_size = 0}, "it must be 1 to"},
	{{.size = BYTES, .job = "next", .world_size = 65}, "without a switch"},
	{{.size = BYTES, .job = "next", .world_size = 2, .rank = 2}, "ranks are 0 to 1"},
	{{.size = BYTES, .job = "next", .world_size = 2, .rank = -1}, "ranks are 0 to 1"},
	{{.size = BYTES, .job = "next", .world_size = 2, .master_port = 65536}, "master_port"},
	{{.size = BYTES, .job = "next", .world_size = 2, .timeout_ms = -1}, "timeout_ms"},
};

static void be_refused(struct rank *rank)
{
	float one = 1;
	int error = sml_reconfigure(rank->context, NULL);

	CHECK(rank, error == -EINVAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error = sml_reconfigure(rank->context, &wrong[i].membership);
		if (error != -EINVAL || !strstr(sml_error_text(NULL), wrong[i].part))
			complain(rank, "%d: \"%s\" should say \"%s\"", error, sml_error_text(NULL),
				 wrong[i].part);
	}
	/* Nothing has changed. */
	CHECK(rank, sml_allreduce(rank->context, &one, &one, 1, SML_FLOAT32, SML_SUM, NULL) == 0);
	CHECK(rank, one == 2);
}

TEST(a_wrong_membership_changes_nothing)
{
	run_job(&(struct job){.n_ranks = 2, .body = be_refused});
}

static void stay_within_ports(struct rank *rank)
{
	struct sml_membership next = SML_MEMBERSHIP_INIT;
	int error;

	next.job = "next";
	next.world_size = 2;
	next.master_port = 30100;
	error = sml_reconfigure(rank->context, &next);
	if (error != -EINVAL || !strstr(sml_error_text(NULL), "SWITCHML_PORTS, 30000 to 30099"))
		complain(rank, "%d: %s", error, sml_error_text(NULL));
	/* Alone, a rank takes any of its ports. */
	next.world_size = 1;
	CHECK(rank, sml_reconfigure(rank->context, &next) == 0);
}

TEST(rank_0_listens_at_one_of_its_ports)
{
	setenv("SWITCHML_PORTS", "30000-30099", 1);
	run_job(&(struct job){.n_ranks = 1, .body = stay_within_ports});
	unsetenv("SWITCHML_PORTS");
}

/* All ranks have completed their calls: nobody's are in progress when another one leaves. */
static pthread_barrier_t all_here;

static uint64_t tensors(const struct rank *rank)
{
	struct sml_counters counters = {.size = sizeof(counters)};

	assert_int_equal(sml_get_counters(rank->context, &counters), 0);
	return counters.tensors;
}

/* A done request and one in progress, neither of which was waited for. */
static void go_on_with_requests(struct rank *rank)
{
	struct sml_request *done = NULL, *unfinished = NULL;
	const int fd = sml_event_fd(rank->context);
	struct pollfd bell = {.fd = fd, .events = POLLIN};
	float send = 1, recv = 0, unused[2] = {1, 1};
	uint64_t before, ignored;

	CHECK(rank, sml_allreduce_async(rank->context, &send, &recv, 1, SML_FLOAT32, SML_SUM, NULL,
					&done) == 0);
	for (uint64_t began = now_ms(); tensors(rank) < 1 && now_ms() - began < SOON_MS;)
		usleep(1000);
	CHECK(rank, tensors(rank) == 1);
	pthread_barrier_wait(&all_here);
	if (rank->rank == 0)
		CHECK(rank, sml_allreduce_async(rank->context, &unused[0], &unused[1], 1,
						SML_FLOAT32, SML_SUM, NULL, &unfinished) == 0);
	pthread_barrier_wait(&all_here);
	while (read(fd, &ignored, sizeof(ignored)) > 0)
		;
	CHECK(rank, reconfigure_as(rank, "next", 0) == 0);
	/* The descriptor is the same, and it rang. */
	CHECK(rank, sml_event_fd(rank->context) == fd && poll(&bell, 1, 0) == 1);
	before = tensors(rank);
	CHECK(rank, before >= 1);
	send = 2;
	CHECK(rank, sml_allreduce(rank->context, &send, &send, 1, SML_FLOAT32, SML_SUM, NULL) == 0);
	CHECK(rank, send == 4 && recv == 2 && unused[0] == 1);
	CHECK(rank, tensors(rank) == before + 1);
	CHECK(rank, sml_wait(done) == 0);
	if (unfinished)
		CHECK(rank, sml_wait(unfinished) == SML_ERROR_ABORTED);
}

TEST(requests_counters_and_the_descriptor_outlive_the_job)
{
	pthread_barrier_init(&all_here, NULL, 2);
	for (int shares = 0; shares < 2; shares++)
		run_job(&(struct job){
			.n_ranks = 2, .host_group = shares, .body = go_on_with_requests});
	pthread_barrier_destroy(&all_here);
}

/* What the second thread of rank 0 sees while the first waits for rank 1. */
static void *disturb(void *self)
{
	struct rank *rank = self;
	float value = 1;
	int error;

	do
		error = sml_allreduce(rank->context, &value, &value, 1, SML_FLOAT32, SML_SUM, NULL);
	while (error == SML_ERROR_ABORTED); /* of the old job, for a moment */
	if (error != SML_ERROR_CLOSED || !strstr(sml_error_text(rank->context), "waits for"))
		complain(rank, "a call: %d, %s", error, sml_error_text(rank->context));
	error = reconfigure_as(rank, "other", 0);
	if (error != -EBUSY)
		complain(rank, "another sml_reconfigure(): %d, %s", error, sml_error_text(NULL));
	if (sml_abort(rank->context, "enough") != 0)
		complain(rank, "sml_abort(): %s", sml_error_text(NULL));
	return NULL;
}

static void race(struct rank *rank)
{
	pthread_t other;

	pthread_barrier_wait(&all_here);
	if (rank->rank == 0) {
		/* Before that, the other thread's call is one of the old job. */
		CHECK(rank, sml_abort(rank->context, "the old job is over") == 0);
		pthread_create(&other, NULL, disturb, rank);
		if (reconfigure_as(rank, "next", 0) != SML_ERROR_ABORTED)
			complain(rank, "not ended: %s", sml_error_text(NULL));
		pthread_join(other, NULL);
		CHECK_ERROR(rank, sml_barrier(rank->context), SML_ERROR_ABORTED, "sml_abort()");
	}
	pthread_barrier_wait(&all_here);
	CHECK(rank, reconfigure_as(rank, "last", 0) == 0);
	CHECK(rank, sml_barrier(rank->context) == 0);
}

TEST(one_thread_at_a_time_reconfigures_and_another_one_can_end_it)
{
	pthread_barrier_init(&all_here, NULL, 2);
	run_job(&(struct job){.n_ranks = 2, .body = race});
	run_job(&(struct job){.n_ranks = 2, .host_group = true, .body = race});
	pthread_barrier_destroy(&all_here);
}

/* Threads of rank 0 that call again and again, whatever the result is. */
#define CALLERS 16
static bool callers_end;

static void *call_on(void *self)
{
	const struct rank *rank = self;
	float value = 1;

	/* Never made, because there is no buffer for its result. */
	while (!__atomic_load_n(&callers_end, __ATOMIC_RELAXED))
		(void)sml_allreduce(rank->context, &value, NULL, 1, SML_FLOAT32, SML_SUM, NULL);
	return NULL;
}

/* A call that is never turned away. */
static void *count_on(void *self)
{
	const struct rank *rank = self;

	while (!__atomic_load_n(&callers_end, __ATOMIC_RELAXED))
		sml_count_elsewhere(rank->context, "another library", 1);
	return NULL;
}

static void go_on_among_callers(struct rank *rank)
{
	pthread_t callers[CALLERS];
	const int n = rank->rank == 0 ? CALLERS : 0;
	char next[16];
	int error = 0;

	for (int i = 0; i < n; i++)
		pthread_create(&callers[i], NULL, i == 0 ? count_on : call_on, rank);
	for (int i = 0; error == 0 && i < 5; i++) {
		pthread_barrier_wait(&all_here);
		snprintf(next, sizeof(next), "next %d", i);
		error = reconfigure_as(rank, next, 20000);
		if (error)
			complain(rank, "%d: %s", error, sml_error_text(NULL));
	}
	/* If rank 0 is held up, rank 1 has waited long enough. */
	__atomic_store_n(&callers_end, true, __ATOMIC_RELAXED);
	for (int i = 0; i < n; i++)
		pthread_join(callers[i], NULL);
}

TEST(threads_that_call_all_the_time_do_not_hold_it_up)
{
	pthread_barrier_init(&all_here, NULL, 2);
	callers_end = false;
	run_job(&(struct job){.n_ranks = 2, .body = go_on_among_callers});
	pthread_barrier_destroy(&all_here);
}

/* ---- how long it takes: test_elastic --measure 20 ---- */

#define MEASURED_RANKS 8
#define MEASURED_MOST  1000

/* From the kill on, in milliseconds. */
struct times {
	double told, joined, summed;
};

static int earlier(const void *a, const void *b)
{
	double first = *(const double *)a, other = *(const double *)b;

	return (first > other) - (first < other);
}

static double since(uint64_t began_ns)
{
	return (double)(sml_now_ns() - began_ns) / SML_NS_PER_MS;
}

/* One of eight is killed in a call, at any moment of it: until seven have their next sum. */
static struct times measure_one(unsigned number)
{
	const int all = (1 << MEASURED_RANKS) - 1, dying = 1 << number % MEASURED_RANKS;
	char next[32];
	struct times times;
	uint64_t began_ns;

	snprintf(next, sizeof(next), "after %u", number);
	tell_members(all, sum_on);
	usleep(50000 + number * 7919 % 20000);
	began_ns = sml_now_ns();
	kill(processes[number % MEASURED_RANKS].pid, SIGKILL);
	expect(all & ~dying, SML_ERROR_RANK_DIED, 0);
	times.told = since(began_ns);
	let(all & ~dying, to_job(next, 0));
	times.joined = since(began_ns);
	let(all & ~dying, make_sum);
	times.summed = since(began_ns);
	return times;
}

static void print_row(const char *what, double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), earlier);
	printf("%-34s %8.1f %8.1f %8.1f\n", what, values[0],
	       (values[(n - 1) / 2] + values[n / 2]) / 2, values[n - 1]);
}

static int measure(unsigned n)
{
	static double told[MEASURED_MOST], joined[MEASURED_MOST], summed[MEASURED_MOST];

	start_switches();
	form = (struct form){.switch_address = root_address};
	for (unsigned i = 0; i < n; i++) {
		char name[32];
		struct times times;

		snprintf(name, sizeof(name), "before %u", i);
		start_all(MEASURED_RANKS);
		let((1 << MEASURED_RANKS) - 1, to_job(name, 0));
		times = measure_one(i);
		told[i] = times.told;
		joined[i] = times.joined;
		summed[i] = times.summed;
		end_all();
	}
	end_switches();
	printf("kill -9 of 1 of %d ranks, %u times; ms     least   median     most\n",
	       MEASURED_RANKS, n);
	print_row("until all survivors have the error", told, n);
	print_row("until they have joined again", joined, n);
	print_row("until they have the next sum", summed, n);
	return 0;
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	if (argc == 3 && strcmp(argv[1], "--measure") == 0) {
		long n = strtol(argv[2], NULL, 10);

		return n < 1 || n > MEASURED_MOST ? 2 : measure((unsigned)n);
	}
	if (argc > 1)
		test_select(argv[1]);
	return test_run(NULL, NULL);
}

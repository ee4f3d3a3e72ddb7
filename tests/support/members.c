/* SPDX-License-Identifier: BSD-3-Clause */
/* The test's side of processes that are ranks. */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/members.h"
#include "support/ranks.h"
#include "support/test.h"

struct form form;
int heartbeat_ms;
const char *faults;
struct process processes[MAX_PROCESSES];
struct switch_process root, second, leaf;
char root_address[32], both_addresses[64], leaf_address[32];

const struct order make_sum = {.verb = SUM}, sum_on = {.verb = SUM_UNTIL_IT_FAILS},
		   leave = {.verb = CLOSE}, ask = {.verb = JOIN, .asks = true};

void start_process(int i)
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

void start_all(int n)
{
	for (int i = 0; i < n; i++)
		start_process(i);
}

void end_process(int i)
{
	if (processes[i].pid == 0)
		return;
	kill(processes[i].pid, SIGKILL);
	waitpid(processes[i].pid, NULL, 0);
	close(processes[i].fd);
	processes[i] = (struct process){0, 0};
}

void end_all(void)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		end_process(i);
}

void send_order(int i, const struct order *order)
{
	assert_int_equal(write(processes[i].fd, order, sizeof(*order)), sizeof(*order));
}

struct answer read_answer(int i)
{
	struct pollfd readable = {.fd = processes[i].fd, .events = POLLIN};
	struct answer answer;

	if (poll(&readable, 1, SOON_MS) != 1)
		fail_msg("process %d does not answer", i);
	if (read(processes[i].fd, &answer, sizeof(answer)) != sizeof(answer))
		fail_msg("process %d has ended", i);
	return answer;
}

void send_orders(int members, struct order order)
{
	order.world_size = __builtin_popcount((unsigned)members);
	order.rank = 0;
	order.members = members;
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1) {
			send_order(i, &order);
			order.rank++;
		}
}

int previous_rank(int was, int i)
{
	return was >> i & 1 ? __builtin_popcount((unsigned)(was & ((1 << i) - 1))) : -1;
}

void print_answers(void)
{
	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct pollfd readable = {.fd = processes[i].fd, .events = POLLIN};
		struct answer answer;

		if (processes[i].pid == 0 || poll(&readable, 1, 0) != 1)
			continue;
		answer = read_answer(i);
		print_error("process %d answers %d: %s\n", i, answer.result, answer.text);
	}
}

void expect(int members, int result, int32_t total)
{
	int fewest = INT_MAX, most = 0;

	for (int i = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = read_answer(i);
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

void let(int members, struct order order)
{
	send_orders(members, order);
	expect(members, 0, order.verb == SUM ? members : 0);
}

struct order to_job(const char *name, int port)
{
	struct order order = {.verb = JOIN, .port = port};

	snprintf(order.job, sizeof(order.job), "%s", name);
	return order;
}
void expect_decision(int old, int left, int joined)
{
	const int members = (old & left) | joined;
	int previous[MAX_PROCESSES], n = 0;

	/* New ones have the highest numbers. */
	for (int i = 0; i < MAX_PROCESSES; i++)
		if (members >> i & 1)
			previous[n++] = previous_rank(old, i);
	for (int i = 0, rank = 0; i < MAX_PROCESSES; i++) {
		struct answer answer;

		if (!(members >> i & 1))
			continue;
		answer = read_answer(i);
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

/* A rank that joins at a leaf which has not reached its parent yet is refused. */
static void await_leaf(void)
{
	uint64_t began = now_ms();
	struct order order = to_job("alone", 0);
	int result;

	order.world_size = 1;
	form = (struct form){.switch_address = leaf_address};
	start_process(0);
	do {
		send_order(0, &order);
		result = read_answer(0).result;
	} while (result == SML_ERROR_UNREACHABLE && now_ms() - began < SOON_MS);
	end_process(0);
	assert_int_equal(result, 0);
}

void start_switches(void)
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

void start_with_standby(bool shares)
{
	static char list[80];

	start_switches();
	snprintf(list, sizeof(list), "%s|127.0.0.1:%u", root_address, second.port);
	form = (struct form){.switch_address = list, .shares = shares};
	start_all(4);
}

void end_switches(void)
{
	switch_process_kill(&leaf);
	switch_process_kill(&second);
	switch_process_kill(&root);
}

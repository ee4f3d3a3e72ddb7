/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process of a test of elastic jobs does: it obeys orders, and answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/members.h"
#include "support/ranks.h"

#define COUNT 20000

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

_Noreturn void be_process(int self, int fd)
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

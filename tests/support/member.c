/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process of a test of elastic jobs does: it obeys orders, and answers. */
#include <stdio.h>
#include <stdlib.h>
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
	int previous[MAX_PROCESSES], n = 0;

	for (int i = 0; i < MAX_PROCESSES; i++)
		if (order->members >> i & 1)
			previous[n++] = previous_rank(order->was, i);
	if (order->was)
		next.previous_ranks = previous;
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
	return sml_reconfigure(context, &next);
}

/* Every element must be the same sum. Not in place: the input survives an error. */
static int sum(struct sml_context *context, int self, int32_t *members)
{
	static int32_t send[COUNT], recv[COUNT];
	int error;

	for (int i = 0; i < COUNT; i++)
		send[i] = 1 << self;
	error = sml_allreduce(context, send, recv, COUNT, SML_INT32, SML_SUM, NULL, NULL);
	if (error)
		return error;
	for (int i = 0; i < COUNT; i++)
		if (recv[i] != recv[0])
			abort();
	*members = recv[0];
	return 0;
}

static int await_joiners(struct sml_context *context, int n)
{
	struct sml_info info = SML_INFO_INIT;
	uint64_t began = now_ms();

	while (sml_get_info(context, &info) == 0 && info.waiting != n && now_ms() - began < SOON_MS)
		usleep(1000);
	return info.waiting == n ? 0 : SML_ERROR_TIMEOUT;
}

static void say_who(struct sml_context *context, struct answer *answer)
{
	struct sml_info info = SML_INFO_INIT;

	sml_get_info(context, &info);
	answer->rank = info.rank;
	answer->world_size = info.world_size;
	for (int rank = 0; rank < MAX_PROCESSES; rank++)
		answer->previous[rank] = info.previous_ranks && rank < info.world_size
						 ? info.previous_ranks[rank]
						 : -1;
}

static int join(struct sml_context **context, const struct order *order, int self,
		struct answer *answer)
{
	int error = *context ? reconfigure(*context, order) : open_context(context, order, self);

	if (error == 0)
		say_who(*context, answer);
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* Who the members are, and what they answer: keeper.h. */
#include "chaos/keeper.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- answers ---- */

static bool all_have_summed(void)
{
	for (int rank = 0; rank < keeper.world_size; rank++) {
		const struct chaos_process *other = chaos_find(keeper.members[rank]);

		if (!other || !other->summed)
			return false;
	}
	return true;
}

static void note_sum(struct chaos_process *process, const struct chaos_answer *answer)
{
	if (keeper.options->switch_decides && !chaos_learn_members(process, answer))
		return;
	process->state = RUNNING;
	process->summed = true;
	if (answer->at_ns > keeper.last_sum_ns)
		keeper.last_sum_ns = answer->at_ns;
	if (!all_have_summed())
		return;
	keeper.results.changes += keeper.has_begun;
	keeper.results.decisions += keeper.options->switch_decides && !keeper.is_first;
	if (!keeper.has_begun)
		keeper.first_ns = keeper.last_sum_ns - keeper.ordered_ns;
	keeper.has_begun = true;
	if (keeper.struck_ns)
		bench_times_add(&keeper.results.times, keeper.last_sum_ns - keeper.struck_ns);
	keeper.struck_ns = 0;
}

static void note_failure(struct chaos_process *process, const struct chaos_answer *answer)
{
	if (keeper.options->switch_decides)
		chaos_judge_decided(process, answer);
	else
		chaos_judge(process, answer);
	keeper.is_over |= !keeper.options->switch_decides || keeper.ending_ns > 0 ||
			  answer->membership == keeper.formed;
}

static void take_answer(struct chaos_process *process, const struct chaos_answer *answer)
{
	process->heard_ns = sml_now_ns();
	switch (answer->what) {
	case ANSWER_SUMMED:
		note_sum(process, answer);
		return;
	case ANSWER_FAILED:
		process->state = answer->goes_on ? JOINING : IDLE;
		note_failure(process, answer);
		return;
	case ANSWER_CLOSED:
		process->closed = true;
		if (answer->error && process->member)
			chaos_unexpected(process, answer->text);
		break;
	case ANSWER_STOPPED:
		break;
	}
	process->state = IDLE;
}

static void hear(struct chaos_process *process)
{
	struct chaos_answer answer;

	if (read(process->fd, &answer, sizeof(answer)) == (ssize_t)sizeof(answer)) {
		take_answer(process, &answer);
		return;
	}
	chaos_unexpected(process, "it has ended by itself");
	chaos_strike(process, sml_now_ns(), 0);
}

/* Up to `ms`, and then all that are there. */
void chaos_hear_all(int ms)
{
	struct pollfd fds[BENCH_MAX_LOCAL];

	for (unsigned i = 0; i < keeper.n; i++) {
		const struct chaos_process *process = &keeper.processes[i];

		fds[i] = (struct pollfd){.fd = process->state == ABSENT ? -1 : process->fd,
					 .events = POLLIN};
	}
	if (poll(fds, keeper.n, ms) <= 0)
		return;
	for (unsigned i = 0; i < keeper.n; i++)
		if (fds[i].revents)
			hear(&keeper.processes[i]);
}

/* ---- memberships ---- */

void chaos_send_order(struct chaos_process *process, const struct chaos_order *order)
{
	/* If it has just died, its socket says so. */
	if (send(process->fd, order, sizeof(*order), MSG_NOSIGNAL) == (ssize_t)sizeof(*order))
		process->heard_ns = sml_now_ns();
}

/* A member has died, or has an error. */
bool chaos_is_broken(void)
{
	bool broken = keeper.is_over;

	for (int rank = 0; rank < keeper.world_size; rank++)
		broken |= !chaos_find(keeper.members[rank]);
	return broken;
}

void chaos_abandon(struct chaos_process *process)
{
	const struct chaos_order order = {.verb = ORDER_ABANDON, .membership = keeper.membership};

	if (process->told)
		return;
	process->told = keeper.has_cause = true;
	chaos_send_order(process, &order);
}

/* Members that join would wait for the dead one until they have no time left. */
static void abandon_broken(void)
{
	uint64_t now_ns = sml_now_ns();
	bool is_late;

	if (keeper.broken_ns == 0)
		keeper.broken_ns = now_ns;
	is_late = now_ns >= chaos_after_ms(keeper.broken_ns, CHAOS_UNTOLD_MS);
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state == JOINING ||
		    (keeper.processes[i].state == RUNNING && is_late))
			chaos_abandon(&keeper.processes[i]);
}

static void notify_members(void)
{
	struct chaos_order order = {.verb = ORDER_JOIN,
				    .membership = keeper.membership,
				    .world_size = keeper.world_size};

	memcpy(order.members, keeper.members, sizeof(order.members));
	for (; order.rank < order.world_size; order.rank++) {
		struct chaos_process *process = chaos_find(order.members[order.rank]);

		process->state = JOINING;
		chaos_send_order(process, &order);
	}
}

void chaos_begin_membership(void)
{
	chaos_judge_membership();
	keeper.membership++;
	keeper.world_size = 0;
	for (unsigned i = 0; i < keeper.n; i++) {
		struct chaos_process *process = &keeper.processes[i];

		process->member = process->state == IDLE;
		process->summed = process->told = process->urged = process->is_candidate = false;
		if (process->member)
			keeper.members[keeper.world_size++] = process->number;
	}
	keeper.is_over = keeper.has_cause = false;
	keeper.is_ordered = keeper.is_first = true;
	keeper.broken_ns = 0;
	keeper.ordered_ns = sml_now_ns();
	keeper.last_sum_ns = 0;
	notify_members();
}

static void stop_sums_until(uint32_t membership)
{
	__atomic_store_n(&keeper.memory->stop, membership, __ATOMIC_RELAXED);
}

void chaos_stop_sums(void)
{
	stop_sums_until(UINT32_MAX);
	keeper.ending_ns = sml_now_ns();
}

void chaos_hasten_end(void)
{
	if (keeper.options->switch_decides)
		chaos_end_decisions();
	else if (chaos_is_broken())
		abandon_broken();
}

static void change_members(void)
{
	unsigned idle = chaos_count(IDLE), busy = chaos_count(JOINING) + chaos_count(RUNNING);

	if (busy == 0 && idle > 0 && chaos_has_switch())
		chaos_begin_membership();
	else if (busy > 0 && chaos_is_broken())
		abandon_broken();
	else if (idle > 0)
		stop_sums_until(keeper.membership);
}

void chaos_change_members(void)
{
	if (keeper.options->switch_decides)
		chaos_follow_decisions();
	else
		change_members();
}

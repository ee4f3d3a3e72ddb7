/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml bench --chaos-ranks --switch-decides`: ranks ask the switch who goes on, and new
 * processes wait there. The keeper only kills, and checks that all members know the same members,
 * in the right order (keeper.h).
 *
 * If a rank dies while there is no switch, the next switch cannot know who is left, and says that
 * the program must decide. Then the keeper does: all give up, and those that are there begin a job
 * with another name.
 */
#include "chaos/keeper.h"

#include <errno.h>
#include <string.h>

/* ---- errors ---- */

static bool has_cause(const struct chaos_process *process)
{
	return keeper.killed_ns >= process->since_ns || keeper.started_ns >= process->since_ns ||
	       keeper.switch_killed_ns >= process->since_ns;
}

/* Of a membership that has not begun, nobody here knows who the ranks are. */
static bool names_falsely(const struct chaos_process *process, const struct chaos_answer *answer)
{
	if (answer->joining && !strstr(answer->text, "pid "))
		return keeper.killed_ns < process->since_ns;
	return chaos_names_falsely(answer);
}

/* Its process cannot go on. */
static void begin_anew(struct chaos_process *process)
{
	keeper.results.late++;
	chaos_strike(process, sml_now_ns(), 0);
}

void chaos_judge_decided(struct chaos_process *process, const struct chaos_answer *answer)
{
	bool switch_gone = keeper.switch_killed_ns >= process->since_ns;

	if (answer->error == SML_ERROR_RANK_DIED) {
		if (names_falsely(process, answer))
			chaos_false_name(process, answer->text);
	} else if (answer->error == SML_ERROR_TIMEOUT) {
		if (!answer->joining || process->is_candidate || !switch_gone)
			chaos_hang(process, answer->text);
	} else if (answer->error == SML_ERROR_REFUSED && answer->joining && has_cause(process) &&
		   strstr(answer->text, "too late")) {
		begin_anew(process);
	} else if (answer->error == SML_ERROR_SWITCH_DIED ||
		   answer->error == SML_ERROR_UNREACHABLE) {
		if (!switch_gone)
			chaos_unexpected(process, answer->text);
	} else if ((answer->error != SML_ERROR_ABORTED && answer->error != -EINTR) ||
		   !(process->told || has_cause(process))) {
		chaos_unexpected(process, answer->text);
	}
}

/* ---- who the members are ---- */

static int rank_in(const uint32_t members[], int world_size, uint32_t number)
{
	for (int rank = 0; rank < world_size; rank++)
		if (members[rank] == number)
			return rank;
	return -1;
}

/* Those of the last membership are first, and in its order. */
static bool is_in_order(const struct chaos_answer *answer)
{
	int last = -1;

	for (int rank = 0; rank < answer->world_size; rank++) {
		int old = rank_in(keeper.members, keeper.world_size, answer->members[rank]);

		if (old < 0)
			old = keeper.world_size;
		else if (old <= last)
			return false;
		last = old;
	}
	return true;
}

static bool has_members(const struct chaos_answer *answer)
{
	return answer->world_size == keeper.world_size &&
	       !memcmp(answer->members, keeper.members,
		       (size_t)answer->world_size * sizeof(*keeper.members));
}

static void form(const struct chaos_answer *answer)
{
	keeper.is_first = keeper.is_ordered && has_members(answer);
	keeper.is_ordered = false;
	memcpy(keeper.members, answer->members, sizeof(keeper.members));
	keeper.world_size = answer->world_size;
	keeper.formed = answer->membership;
	keeper.is_over = false;
	keeper.broken_ns = keeper.last_sum_ns = 0;
	for (unsigned i = 0; i < keeper.n; i++) {
		struct chaos_process *process = &keeper.processes[i];

		process->summed = process->urged = false;
		process->member = rank_in(keeper.members, keeper.world_size, process->number) >= 0;
	}
}

bool chaos_learn_members(struct chaos_process *process, const struct chaos_answer *answer)
{
	process->is_candidate = false;
	process->since_ns = process->summed_ns;
	process->summed_ns = answer->at_ns;
	if (answer->membership < keeper.formed)
		return false;
	if (answer->membership > keeper.formed) {
		if (!is_in_order(answer))
			chaos_unexpected(process, "the ranks are not in their old order");
		form(answer);
	}
	if (!has_members(answer) || answer->members[answer->rank] != process->number)
		chaos_unexpected(process, "two members do not agree on who is one");
	return true;
}

/* ---- what the keeper does ---- */

static void let_wait(struct chaos_process *process)
{
	const struct chaos_order order = {.verb = ORDER_JOIN,
					  .membership = keeper.membership,
					  .members = {process->number},
					  .waits = true};

	process->state = JOINING;
	process->told = false;
	chaos_send_order(process, &order);
}

/* A rank has given up, or nobody is left whom new processes could join. */
static bool is_stranded(void)
{
	bool has_members = false;

	for (unsigned i = 0; i < keeper.n; i++) {
		const struct chaos_process *process = &keeper.processes[i];

		if (process->state == IDLE && !process->is_candidate)
			return true;
		has_members |= process->state > IDLE && !process->is_candidate;
	}
	return !has_members;
}

/* Who computes will have an error, and gives up then. */
static void give_up(void)
{
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state > IDLE)
			chaos_abandon(&keeper.processes[i]);
}

/* Members that do not know of a death: the switch died before it could tell them. */
static void urge_members(void)
{
	const struct chaos_order order = {.verb = ORDER_ABORT, .membership = keeper.membership};
	uint64_t now_ns = sml_now_ns();

	if (keeper.broken_ns == 0)
		keeper.broken_ns = now_ns;
	for (unsigned i = 0; i < keeper.n; i++) {
		struct chaos_process *process = &keeper.processes[i];

		if (process->state != RUNNING || process->urged ||
		    now_ns < chaos_after_ms(keeper.broken_ns, CHAOS_UNTOLD_MS))
			continue;
		process->urged = true;
		chaos_send_order(process, &order);
	}
}

void chaos_follow_decisions(void)
{
	unsigned busy = chaos_count(JOINING) + chaos_count(RUNNING);

	/* Those that this process has chosen would wait for the dead one until their time is up. */
	if (keeper.is_ordered && chaos_is_broken())
		give_up();
	if (is_stranded()) {
		if (busy > 0)
			give_up();
		else if (chaos_count(IDLE) > 0 && chaos_has_switch())
			chaos_begin_membership();
		return;
	}
	for (unsigned i = 0; i < keeper.n && chaos_has_switch(); i++)
		if (keeper.processes[i].state == IDLE)
			let_wait(&keeper.processes[i]);
	if (chaos_is_broken())
		urge_members();
}

void chaos_end_decisions(void)
{
	bool is_late = sml_now_ns() >= chaos_after_ms(keeper.ending_ns, 2 * CHAOS_UNTOLD_MS);

	/* Those that can agree to stop. */
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state > IDLE &&
		    (keeper.processes[i].is_candidate || is_late))
			chaos_abandon(&keeper.processes[i]);
}

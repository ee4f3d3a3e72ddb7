/* SPDX-License-Identifier: BSD-3-Clause */
/* The judge of errors: keeper.h. */
#include "chaos/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void chaos_complain(const char *what, const struct chaos_process *process, const char *text)
{
	fprintf(stderr, "chaos: %s: process %u (pid %d) in membership %u: %s\n", what,
		process->number, process->pid, keeper.membership, text);
}

static bool was_killed(long pid)
{
	for (unsigned i = 0; i < CHAOS_REMEMBERED; i++)
		if (keeper.killed[i] == pid)
			return true;
	return false;
}

static bool is_alive(const struct chaos_answer *answer, unsigned long rank)
{
	return rank >= (unsigned long)answer->world_size || chaos_find(answer->members[rank]);
}

/* The next of "1, 2 and 5 died"; NULL: there is none. "3 others" are none. */
static const char *next_in_list(const char *text)
{
	text += strspn(text, ", ");
	if (strncmp(text, "and ", 4) == 0)
		text += strlen("and ");
	if (*text < '0' || *text > '9')
		return NULL;
	return strncmp(text + strspn(text, "0123456789"), " other", 6) == 0 ? NULL : text;
}

/* All that it names are dead, or it names one falsely. */
static bool names_living(const struct chaos_answer *answer, const char *list)
{
	bool living = false;
	char *end;

	for (; list != NULL && !living; list = next_in_list(end))
		living = is_alive(answer, strtoul(list, &end, 10));
	return living;
}

bool chaos_names_falsely(const struct chaos_answer *answer)
{
	const char *pid = strstr(answer->text, "pid "), *rank = strstr(answer->text, "rank "),
		   *ranks = strstr(answer->text, "ranks ");

	if (pid)
		return !was_killed(strtol(pid + strlen("pid "), NULL, 10));
	rank = rank ? rank + strlen("rank ") : ranks ? ranks + strlen("ranks ") : "";
	rank = next_in_list(rank);
	return rank == NULL || names_living(answer, rank);
}

void chaos_false_name(const struct chaos_process *process, const char *text)
{
	keeper.results.false_names++;
	chaos_complain("a false name", process, text);
}

void chaos_hang(const struct chaos_process *process, const char *text)
{
	keeper.results.hangs++;
	chaos_complain("a call did not end in time", process, text);
}

void chaos_unexpected(const struct chaos_process *process, const char *text)
{
	keeper.results.unexpected++;
	chaos_complain("an error without a cause", process, text);
}

void chaos_judge(const struct chaos_process *process, const struct chaos_answer *answer)
{
	bool switch_gone = keeper.switch_killed_ns >= keeper.ordered_ns;

	switch (answer->error) {
	case SML_ERROR_RANK_DIED:
		if (chaos_names_falsely(answer))
			chaos_false_name(process, answer->text);
		keeper.has_cause = true;
		return;
	case SML_ERROR_TIMEOUT:
		if (!answer->joining || !keeper.has_cause)
			chaos_hang(process, answer->text);
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
			chaos_unexpected(process, answer->text);
		return;
	default:
		chaos_unexpected(process, answer->text);
	}
}

/* All members have said how it ended. */
void chaos_judge_membership(void)
{
	if (keeper.unexplained[0] && !keeper.has_cause) {
		keeper.results.unexpected++;
		fprintf(stderr, "chaos: membership %u was aborted without a cause: %s\n",
			keeper.membership, keeper.unexplained);
	}
	keeper.unexplained[0] = '\0';
}

void chaos_look_for_hangs(uint64_t now_ns)
{
	for (unsigned i = 0; i < keeper.n; i++) {
		struct chaos_process *process = &keeper.processes[i];
		uint64_t progress = __atomic_load_n(&keeper.memory->progress[i], __ATOMIC_RELAXED);

		if (progress != process->progress || process->state <= IDLE)
			process->heard_ns = now_ns;
		process->progress = progress;
		if (now_ns <= process->heard_ns + CHAOS_HANG_MS * SML_NS_PER_MS)
			continue;
		chaos_hang(process, "it does not answer");
		chaos_strike(process, now_ns, 0);
	}
}

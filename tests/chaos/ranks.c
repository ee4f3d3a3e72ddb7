/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * build/tests/chaos --chaos-ranks: the keeper of ranks that are killed with SIGKILL and started
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
 * member that dies ends it, and so does the wish to let in a process that is back. With
 * --switch-decides, it decides only at first, and where the switch cannot (decided.c).
 *
 * This process has no threads, because it forks while ranks run. The switch is another process.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "chaos/keeper.h"

/* Of every call of a rank. Whatever reaches it is an error here. */
#define CALL_MS 45000

/*
 * If the switch is to decide, it has: without that, the changes say nothing about it. A switch that
 * does not decide in ten times as many changes never will.
 */
static bool has_changed_enough(void)
{
	const struct chaos_options *options = keeper.options;
	uint64_t enough = options->changes;

	if (options->switch_decides && keeper.results.decisions == 0)
		enough *= 10;
	return enough > 0 && keeper.results.changes >= enough;
}

static bool is_enough(uint64_t now_ns)
{
	return bench_must_end() || keeper.results.unexpected > 0 || keeper.results.hangs > 0 ||
	       has_changed_enough() || (keeper.end_ns > 0 && now_ns >= keeper.end_ns);
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
	uint64_t now_ns = sml_now_ns();
	int error = 0;

	while (error == 0 && !is_enough(now_ns)) {
		chaos_strike_switch(now_ns);
		chaos_strike_one(now_ns);
		error = chaos_bring_back(now_ns);
		chaos_change_members();
		chaos_look_for_hangs(now_ns);
		chaos_hear_all(next_ms(now_ns));
		now_ns = sml_now_ns();
	}
	return error;
}

static bool all_are(bool (*so)(const struct chaos_process *process))
{
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT && !so(&keeper.processes[i]))
			return false;
	return true;
}

static bool is_idle(const struct chaos_process *process)
{
	return process->state == IDLE;
}

static bool is_closed(const struct chaos_process *process)
{
	return process->closed;
}

/* False: not in time. */
static bool await_all(bool (*so)(const struct chaos_process *process))
{
	uint64_t until_ns = sml_now_ns() + CHAOS_HANG_MS * SML_NS_PER_MS;

	while (!all_are(so) && sml_now_ns() < until_ns) {
		chaos_hasten_end();
		chaos_hear_all(50);
	}
	return all_are(so);
}

/* All stop after the same sum and leave: who has no job any more has nothing to leave. */
static void end_all(void)
{
	const struct chaos_order order = {.verb = ORDER_CLOSE};
	bool is_whole;

	if (keeper.options->chaos && !keeper.has_switch)
		chaos_start_switch();
	chaos_stop_sums();
	if (await_all(is_idle)) {
		chaos_judge_membership();
		is_whole = keeper.has_begun && !chaos_is_broken();
		for (unsigned i = 0; i < keeper.n; i++) {
			struct chaos_process *process = &keeper.processes[i];

			process->member &= is_whole;
			if (process->state == IDLE)
				chaos_send_order(process, &order);
		}
	}
	if (!await_all(is_closed)) {
		keeper.results.hangs++;
		fprintf(stderr, "chaos: not all ranks have stopped\n");
	}
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT)
			chaos_end_process(&keeper.processes[i]);
}

static int prepare(const struct chaos_options *options, const struct sml_config *config)
{
	keeper.options = options;
	keeper.config = *config;
	keeper.n = options->bench.local_workers;
	gen_from_seed(&keeper.gen, options->bench.seed);
	if (keeper.config.timeout_ms > CALL_MS)
		keeper.config.timeout_ms = CALL_MS;
	if (!options->bench.job && !getenv("SWITCHML_JOB"))
		keeper.config.job = "chaos";
	keeper.memory = mmap(NULL, sizeof(*keeper.memory), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (keeper.memory == MAP_FAILED)
		return -ENOMEM;
	if (options->bench.seconds)
		keeper.end_ns = chaos_after_ms(sml_now_ns(), options->bench.seconds * 1000);
	if (!options->bench.switch_address)
		chaos_start_switch();
	return 0;
}

int chaos_kill_ranks(const struct chaos_options *options, const struct sml_config *config)
{
	int error = prepare(options, config);

	if (error == 0) {
		error = keep();
		end_all();
	}
	chaos_kill_switch();
	if (error)
		fprintf(stderr, "chaos: %s\n", strerror(-error));
	keeper.results.sums = keeper.memory->sums;
	keeper.results.wrong = keeper.memory->wrong;
	return chaos_report() || error ? 1 : 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch of build/tests/chaos --chaos-ranks, which dies as well with --chaos: keeper.h. */
#include "chaos/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

int chaos_start_switch(void)
{
	keeper.switch_pid = chaos_switch_start(&keeper.port, true);
	if (keeper.switch_pid < 0)
		return -EIO;
	keeper.switch_ns = chaos_after_life(sml_now_ns(), chaos_life_ms(&keeper.gen));
	snprintf(keeper.address, sizeof(keeper.address), "127.0.0.1:%u", keeper.port);
	keeper.config.switch_address = keeper.address;
	return 0;
}

bool chaos_has_switch(void)
{
	return keeper.options->bench.switch_address || keeper.switch_pid > 0;
}

void chaos_kill_switch(void)
{
	if (keeper.switch_pid <= 0)
		return;
	kill(keeper.switch_pid, SIGKILL);
	waitpid(keeper.switch_pid, NULL, 0);
	keeper.switch_pid = 0;
}

int chaos_strike_switch(uint64_t now_ns)
{
	if (!keeper.options->chaos || !keeper.has_begun || now_ns < keeper.switch_ns)
		return 0;
	if (keeper.switch_pid == 0)
		return chaos_start_switch();
	chaos_kill_switch();
	keeper.results.switch_kills++;
	keeper.switch_killed_ns = now_ns;
	keeper.switch_ns = chaos_after_ms(now_ns, chaos_gap_ms(&keeper.gen));
	return 0;
}

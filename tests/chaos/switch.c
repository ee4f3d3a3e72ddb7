/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch of build/tests/chaos --chaos-ranks, which dies as well with --chaos: keeper.h. */
#include "chaos/keeper.h"

#include <stdio.h>
#include <stdlib.h>

void chaos_start_switch(void)
{
	keeper.switch_process.is_silent = !getenv("SWITCHML_DEBUG");
	switch_process_start(&keeper.switch_process);
	keeper.has_switch = true;
	keeper.switch_ns = chaos_after_life(sml_now_ns(), chaos_life_ms(&keeper.gen));
	snprintf(keeper.address, sizeof(keeper.address), "127.0.0.1:%u",
		 keeper.switch_process.port);
	keeper.config.switch_address = keeper.address;
}

bool chaos_has_switch(void)
{
	return keeper.options->bench.switch_address || keeper.has_switch;
}

void chaos_kill_switch(void)
{
	if (keeper.has_switch)
		switch_process_kill(&keeper.switch_process);
	keeper.has_switch = false;
}

void chaos_strike_switch(uint64_t now_ns)
{
	if (!keeper.options->chaos || !keeper.has_begun || now_ns < keeper.switch_ns)
		return;
	if (!keeper.has_switch) {
		chaos_start_switch();
		return;
	}
	chaos_kill_switch();
	keeper.results.switch_kills++;
	keeper.switch_killed_ns = now_ns;
	keeper.switch_ns = chaos_after_ms(now_ns, chaos_gap_ms(&keeper.gen));
}

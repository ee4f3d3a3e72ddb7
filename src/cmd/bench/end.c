/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that end `switchml bench` early, and well. */
#include <signal.h>

#include "cmd/bench/bench.h"

static volatile sig_atomic_t must_end;
static volatile pid_t to_be_told; /* 0: nobody else */

static void request_end(int signal_number)
{
	(void)signal_number;
	must_end = 1;
	if (to_be_told > 0)
		kill(to_be_told, SIGTERM);
}

/* Unless the signal is ignored. A second Ctrl-C ends the process as usual. */
static void end_by_signal(int number, int flags)
{
	struct sigaction action = {.sa_handler = request_end, .sa_flags = flags}, before;

	sigaction(number, NULL, &before);
	if (before.sa_handler != SIG_IGN)
		sigaction(number, &action, NULL);
}

void bench_end_by_signals(int flags)
{
	end_by_signal(SIGINT, flags | (int)SA_RESETHAND);
	end_by_signal(SIGTERM, flags);
}

void bench_pass_on_the_end(pid_t rank_0)
{
	to_be_told = rank_0;
	/* Without SA_RESTART: a wait that restarts may keep the handler from running. */
	bench_end_by_signals(0);
	if (must_end)
		kill(rank_0, SIGTERM);
}

void bench_keep_the_end(void)
{
	to_be_told = 0;
}

bool bench_must_end(void)
{
	return must_end;
}

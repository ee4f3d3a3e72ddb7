/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as processes that are started, killed and started again: keeper.h. */
#include "chaos/keeper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Milliseconds between two kills, and how long a process is away. */
#define KILL_LEAST_MS 500
#define KILL_MOST_MS  1500
#define AWAY_LEAST_MS 50
#define AWAY_MOST_MS  800
/* A machine on which the first membership takes longer to begin is slow: chaos_after_life(). */
#define AT_EASE_MS 200
/* Some deaths come together: one kill in this many is followed by another one at once. */
#define TOGETHER 6

struct chaos_keeper keeper;

static _Noreturn void be_process(unsigned place, int fd)
{
	struct sml_config config = keeper.config;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN); /* the keeper ends all */
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT)
			close(keeper.processes[i].fd);
	/* Half of them send packets, even if all could share memory. */
	if (!getenv("SWITCHML_SHARED_MEMORY"))
		config.shared_memory = place % 2 ? 0 : -1;
	chaos_rank(keeper.options, &config, keeper.memory, place, fd);
}

static int start_process(unsigned place)
{
	struct chaos_process *process = &keeper.processes[place];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	fflush(NULL);
	process->pid = fork();
	if (process->pid == 0) {
		close(ends[0]);
		be_process(place, ends[1]);
	}
	close(ends[1]);
	if (process->pid < 0)
		return -errno;
	process->fd = ends[0];
	process->number = ++keeper.n_started;
	process->state = IDLE;
	process->member = process->closed = false;
	process->is_candidate = true;
	keeper.started_ns = process->since_ns = process->summed_ns = sml_now_ns();
	return 0;
}

void chaos_end_process(struct chaos_process *process)
{
	kill(process->pid, SIGKILL);
	waitpid(process->pid, NULL, 0);
	close(process->fd);
	process->state = ABSENT;
	process->member = false;
}

unsigned chaos_count(enum chaos_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < keeper.n; i++)
		n += keeper.processes[i].state == state;
	return n;
}

struct chaos_process *chaos_find(uint32_t number)
{
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].number == number && keeper.processes[i].state != ABSENT)
			return &keeper.processes[i];
	return NULL;
}

/* ---- kills ---- */

uint64_t chaos_after_life(uint64_t ns, uint32_t ms)
{
	uint64_t first_ms = keeper.first_ns / SML_NS_PER_MS;

	return chaos_after_ms(ns, first_ms > AT_EASE_MS ? ms * first_ms / AT_EASE_MS : ms);
}

void chaos_strike(struct chaos_process *process, uint64_t now_ns, uint32_t away_ms)
{
	keeper.killed[keeper.n_killed++ % CHAOS_REMEMBERED] = process->pid;
	keeper.has_cause |= process->member;
	keeper.killed_ns = sml_now_ns();
	if (keeper.struck_ns == 0)
		keeper.struck_ns = keeper.killed_ns;
	chaos_end_process(process);
	process->back_ns = chaos_after_ms(now_ns, away_ms);
}

static uint64_t next_kill_ns(uint64_t now_ns)
{
	if (gen_chance(&keeper.gen, 1, TOGETHER))
		return now_ns;
	return chaos_after_life(now_ns, gen_range(&keeper.gen, KILL_LEAST_MS, KILL_MOST_MS));
}

void chaos_strike_one(uint64_t now_ns)
{
	unsigned there = keeper.n - chaos_count(ABSENT), chosen;

	if (!keeper.has_begun || now_ns < keeper.kill_ns)
		return;
	if (keeper.kill_ns == 0) {
		keeper.kill_ns = chaos_after_ms(now_ns, KILL_LEAST_MS);
		return;
	}
	keeper.kill_ns = next_kill_ns(now_ns);
	if (there <= (keeper.n > 2 ? 2u : 1u))
		return;
	chosen = gen_below(&keeper.gen, there);
	for (unsigned i = 0; i < keeper.n; i++)
		if (keeper.processes[i].state != ABSENT && chosen-- == 0)
			chaos_strike(&keeper.processes[i], now_ns,
				     gen_range(&keeper.gen, AWAY_LEAST_MS, AWAY_MOST_MS));
	keeper.results.kills++;
}

int chaos_bring_back(uint64_t now_ns)
{
	int error = 0;

	for (unsigned i = 0; i < keeper.n && error == 0; i++)
		if (keeper.processes[i].state == ABSENT && now_ns >= keeper.processes[i].back_ns) {
			error = start_process(i);
			keeper.results.returns += keeper.has_begun;
		}
	return error;
}

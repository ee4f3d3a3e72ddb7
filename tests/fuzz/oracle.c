/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See oracle.h. This file is built without sanitizers, because the clock is used before they
 * are ready. In a sanitizer build, the next function of the same name is the sanitizer's.
 */
#include "fuzz/oracle.h"

#include <dlfcn.h>
#include <malloc.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>

#include "sim/gen.h"

#define INTERPOSED __attribute__((visibility("default")))
#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)

/* The sanitizer's function, if there is a sanitizer. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static _Thread_local bool active, in_turn;
static _Thread_local uint64_t begun_ns, begun_used_ns, passed_ns, turn_used_ns;
static _Thread_local uint64_t longest_ns, n_turns;
static _Thread_local void (*on_wait)(void *self);
static _Thread_local void *on_wait_self;

typedef int clock_function(clockid_t clock, struct timespec *time);

static int ask(clockid_t clock, struct timespec *time)
{
	static clock_function *next;
	clock_function *function = __atomic_load_n(&next, __ATOMIC_RELAXED);

	if (function == NULL) {
		function = (clock_function *)dlsym(RTLD_NEXT, "clock_gettime");
		__atomic_store_n(&next, function, __ATOMIC_RELAXED);
	}
	return function(clock, time);
}

static uint64_t ask_ns(clockid_t clock)
{
	struct timespec time = {0};

	(void)ask(clock, &time);
	return (uint64_t)time.tv_sec * NS_PER_SEC + (uint64_t)time.tv_nsec;
}

static uint64_t used_ns(void)
{
	return ask_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void end_turn(void)
{
	uint64_t took_ns;

	if (!active || !in_turn)
		return;
	took_ns = used_ns() - turn_used_ns;
	if (took_ns > longest_ns)
		longest_ns = took_ns;
	n_turns++;
	in_turn = false;
}

static void begin_turn(void)
{
	turn_used_ns = used_ns();
	in_turn = true;
}

void oracle_begin(void)
{
	begun_ns = ask_ns(CLOCK_MONOTONIC);
	begun_used_ns = used_ns();
	passed_ns = longest_ns = n_turns = 0;
	in_turn = false;
	active = true;
}

void oracle_end(void)
{
	active = in_turn = false;
}

void oracle_pass(uint64_t ns)
{
	passed_ns += ns;
}

void oracle_returned(void)
{
	end_turn();
}

void oracle_on_wait(void (*act)(void *self), void *self)
{
	on_wait = act;
	on_wait_self = self;
}

/* Returns how long the wait may last. */
static int act_before_wait(int timeout_ms)
{
	void (*act)(void *self) = on_wait;

	if (act == NULL || timeout_ms == 0)
		return timeout_ms;
	/* act() itself may wait, so it must not run again. */
	on_wait = NULL;
	act(on_wait_self);
	on_wait = act;
	return 1;
}

uint64_t oracle_longest_turn_ns(void)
{
	return longest_ns;
}

uint64_t oracle_turns(void)
{
	return n_turns;
}

size_t oracle_live_bytes(void)
{
	struct mallinfo2 info;

	if (__sanitizer_get_current_allocated_bytes)
		return __sanitizer_get_current_allocated_bytes();
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

uint64_t oracle_turn_limit_ns(void)
{
	bool slow = __sanitizer_get_current_allocated_bytes != NULL;

	return ORACLE_TURN_NS * (slow ? ORACLE_SLOW_BUILD_BY : ORACLE_SLOW_MACHINE_BY);
}

const char *oracle_run(struct gen *gen, struct oracle_verdict (*run)(struct gen *gen))
{
	const struct gen begun = *gen;

	for (unsigned i = 0; i < ORACLE_TRIES; i++) {
		struct oracle_verdict verdict;

		*gen = begun;
		verdict = run(gen);
		if (verdict.wrong)
			return verdict.wrong;
		if (verdict.longest_turn_ns <= oracle_turn_limit_ns())
			return NULL;
	}
	return "a turn of the event loop takes too long";
}

/* ---- functions that replace libc's ---- */

INTERPOSED int clock_gettime(clockid_t clock, struct timespec *time)
{
	uint64_t ns;

	if (!active || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return ask(clock, time);
	ns = begun_ns + (used_ns() - begun_used_ns) + passed_ns;
	time->tv_sec = (time_t)(ns / NS_PER_SEC);
	time->tv_nsec = (long)(ns % NS_PER_SEC);
	return 0;
}

INTERPOSED int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
	int (*next)(int, struct epoll_event *, int, int) =
		(int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
	int rc;

	if (!active)
		return next(fd, events, n, act_before_wait(timeout_ms));
	end_turn();
	rc = next(fd, events, n, timeout_ms > 0 ? 0 : timeout_ms);
	if (rc == 0 && timeout_ms > 0)
		oracle_pass((uint64_t)timeout_ms * NS_PER_MS);
	begin_turn();
	return rc;
}

INTERPOSED int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int) =
		(int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
	int rc;

	if (!active)
		return next(fds, n, act_before_wait(timeout_ms));
	rc = next(fds, n, timeout_ms > 0 ? 0 : timeout_ms);
	if (rc == 0 && timeout_ms > 0)
		oracle_pass((uint64_t)timeout_ms * NS_PER_MS);
	return rc;
}

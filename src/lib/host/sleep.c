/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping without missing anything: a rank reads its count of wake-ups, marks itself as sleeping,
 * looks once more, and sleeps until that changes. A rank with news stores it first, and then looks
 * for sleepers. Both orders are sequentially consistent, so at least one side sees the other.
 */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "lib/host/slots.h"

/* A wake-up that never came, because its sender died, must not cost more. */
#define LONGEST_SLEEP_NS (100 * SML_NS_PER_MS)
/*
 * With a core for every rank, looking costs nobody anything, and a sleeper takes 50 us to wake.
 * Otherwise the time goes to the ranks that are awaited (sched_yield()), while there are some.
 */
#define SPIN_NS	 200000u
#define YIELD_NS 50000u
/* News as soon after this rank has gone to sleep was made on its core. To wake takes longer. */
#define SOON_NS 40000u

static uint64_t bit(unsigned rank)
{
	return (uint64_t)1 << rank;
}

uint32_t sml_host_get_ready(struct sml_host *host)
{
	struct sml_host_head *head = host->sleepers;
	uint32_t wake_count =
		__atomic_load_n(&head->ranks[host->rank].wake_count, __ATOMIC_SEQ_CST);

	__atomic_fetch_or(&head->sleeping.ranks, bit(host->rank), __ATOMIC_SEQ_CST);
	return wake_count;
}

void sml_host_sleep(struct sml_host *host, uint32_t ready, uint64_t ns)
{
	struct timespec left = sml_timespec(ns < LONGEST_SLEEP_NS ? ns : LONGEST_SLEEP_NS);

	__atomic_store_n(&host->sleeps, host->sleeps + 1, __ATOMIC_RELAXED);
	host->slept_ns = sml_now_ns();
	(void)syscall(SYS_futex, &host->sleepers->ranks[host->rank].wake_count, FUTEX_WAIT, ready,
		      &left, NULL, 0);
}

void sml_host_wake_up(struct sml_host *host)
{
	__atomic_fetch_and(&host->sleepers->sleeping.ranks, ~bit(host->rank), __ATOMIC_SEQ_CST);
}

static void wake(const struct sml_host *host, unsigned rank)
{
	uint32_t *wake_count = &host->sleepers->ranks[rank].wake_count;
	uint64_t one = 1;

	__atomic_store_n(&host->sleepers->ranks[rank].woken_ns, sml_now_ns(), __ATOMIC_RELAXED);
	/* It waits for packets, too. If the counter is full, it is awake. */
	if (rank == 0 && host->memory.terms.goes_up &&
	    write(host->leader_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		return;
	__atomic_fetch_add(wake_count, 1, __ATOMIC_SEQ_CST);
	(void)syscall(SYS_futex, wake_count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void sml_host_wake_self(struct sml_host *host)
{
	wake(host, host->rank);
}

void sml_host_wake_sleepers(struct sml_host *host)
{
	uint64_t sleeping, whom = host->has_news ? UINT64_MAX : bit(0);

	if (!host->has_news && !host->has_sum)
		return;
	host->has_news = host->has_sum = false;
	/* Not a load: whoever marks itself as sleeping after this sees the news. */
	sleeping = __atomic_fetch_or(&host->sleepers->sleeping.ranks, 0, __ATOMIC_SEQ_CST) &
		   ~bit(host->rank) & whom;
	if (sleeping == 0)
		return;
	/* Each is woken once for a sleep. */
	sleeping &=
		__atomic_fetch_and(&host->sleepers->sleeping.ranks, ~sleeping, __ATOMIC_SEQ_CST);
	for (unsigned rank = 0; rank < host->memory.terms.n_ranks; rank++)
		if (sleeping & bit(rank)) {
			wake(host, rank);
			__atomic_store_n(&host->wakes, host->wakes + 1, __ATOMIC_RELAXED);
		}
}

void sml_host_note_wait(struct sml_host *host, uint64_t ns, bool hindered)
{
	if (ns > host->spin_ns || hindered)
		host->patience_ns /= 2;
	else
		host->patience_ns += (host->spin_ns - host->patience_ns) / 4;
}

void sml_host_note_news(struct sml_host *host, uint64_t since_ns)
{
	uint64_t now_ns = sml_now_ns(), slept_ns = host->slept_ns;
	uint64_t woken_ns =
		__atomic_load_n(&host->sleepers->ranks[host->rank].woken_ns, __ATOMIC_RELAXED);

	if (slept_ns < since_ns || woken_ns < slept_ns || woken_ns > now_ns)
		sml_host_note_wait(host, now_ns - since_ns, false);
	else
		sml_host_note_wait(host, woken_ns - since_ns, woken_ns - slept_ns < SOON_NS);
}

/* ---- cores ---- */

void sml_host_publish_cpus(struct sml_host *host)
{
	struct sml_host_rank *rank = &host->memory.head->ranks[host->rank];
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return;
	for (unsigned i = 0; i < 64 * SML_HOST_CPU_WORDS && i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			__atomic_fetch_or(&rank->cpus[i / 64], (uint64_t)1 << i % 64,
					  __ATOMIC_RELAXED);
}

void sml_host_count_cpus(struct sml_host *host)
{
	const struct sml_host_memory *memory = &host->memory;
	unsigned n = 0;

	for (unsigned word = 0; word < SML_HOST_CPU_WORDS; word++) {
		uint64_t any = 0;

		for (unsigned rank = 0; rank < memory->terms.n_ranks; rank++)
			any |= __atomic_load_n(&memory->head->ranks[rank].cpus[word],
					       __ATOMIC_RELAXED);
		n += (unsigned)__builtin_popcountll(any);
	}
	host->has_cores = n >= memory->terms.n_ranks && sml_cores_quota() >= memory->terms.n_ranks;
	host->spin_ns = host->patience_ns = host->has_cores ? SPIN_NS : YIELD_NS;
}

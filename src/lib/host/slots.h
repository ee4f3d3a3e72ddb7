/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots in the memory that ranks share (memory.h): core/slot.h's rule without a switch and
 * without a lock, so that a rank that stops or dies at any point can block only this job's sums.
 *
 *	            arrive()                   add()
 *	(use t - 2) -------> FILLING --> FULL -------> DONE --> each rank reads the result
 *	                     last rank's        claimed
 *	                     arrive()           by one rank
 *
 * Where the host is one of several, its sum goes to a switch, and the result comes from there. Only
 * the leader sends and receives packets; nothing is lost between the others and it:
 *
 *	            arrive()                   add()          publish()
 *	(use t - 2) -------> FILLING --> FULL -------> SUMMED ---------> DONE
 *	                                               the leader sends the sum
 *
 * Each rank writes its lanes into its own row, and then arrives. When all have arrived, any rank
 * that finds the buffer FULL may claim it and add the rows up. So ranks that would wait do the work
 * of those that are late.
 *
 * Why buffers can be used again without a handshake: a rank writes its row of use t + 2 only after
 * it has read the result of t + 1 of the same slot. That result exists only if every rank has
 * arrived at t + 1, which it does only after it has read the result of t.
 *
 * A job with several switches has such memory for each of them. A rank sleeps in one place for all.
 */
#ifndef SML_LIB_HOST_SLOTS_H
#define SML_LIB_HOST_SLOTS_H

#include "lib/host/memory.h"

/* One rank's use of them. One thread at a time. */
struct sml_host {
	struct sml_host_memory memory;
	uint8_t rank;			      /* within the host; 0 is the leader */
	uint16_t job_ranks[SML_MAX_CHILDREN]; /* the job's ranks, by rank within the host */
	struct sml_host_head *sleepers; /* of the job's first such memory: where its ranks sleep */
	int leader_fd;	      /* if sums go up: an eventfd that wakes the leader; -1 if none */
	bool has_news;	      /* results that sleeping ranks have not been told */
	bool has_sum;	      /* a sum that a sleeping leader has not been told */
	uint64_t spin_ns;     /* how long to look for news before sleeping, at most */
	uint64_t slept_ns;    /* when it last went to sleep */
	uint64_t patience_ns; /* how long now: less after waits that were longer */
	bool has_cores;	      /* a core for every rank */
	/* Counters, atomic. */
	uint64_t contributions, added, sleeps, wakes;
	uint64_t waited_ns; /* how long the others have waited for this rank */
};

enum sml_host_state {
	SML_HOST_FILLING,
	SML_HOST_FULL, /* nobody has claimed it */
	SML_HOST_CLAIMED,
	SML_HOST_SUMMED, /* only if sums go up */
	SML_HOST_DONE
};

/*
 * Whether this rank sends the host's packets. Its progress thread then waits for packets and for
 * the other ranks.
 */
static inline bool sml_host_leads(const struct sml_host *host)
{
	return host->memory.terms.goes_up && host->rank == 0;
}

/* Where this rank writes the lanes of a use of a slot, before it arrives. */
void *sml_host_row(const struct sml_host *host, uint32_t slot, uint32_t use);

/*
 * The result's row, instead: where each rank writes its own bytes of a use that needs no sum. All
 * ranks have read what was there before when one of them writes: see above. The leader's, of a
 * SUMMED use: the sum, as it goes up.
 */
void *sml_host_result_row(const struct sml_host *host, uint32_t slot, uint32_t use);

/*
 * The row is complete. Returns this rank; or another one that has arrived with another digest: then
 * the job fails, and this row does not count.
 */
uint8_t sml_host_arrive(struct sml_host *host, const struct sml_contribution *in, uint64_t now_ns);

enum sml_host_state sml_host_look(const struct sml_host *host, uint32_t slot, uint32_t use);

/*
 * If nobody has claimed a full buffer, claim it and add it up: afterwards it is DONE, or SUMMED.
 * in: as this rank arrived. placed: the ranks have already placed their bytes in the result's row,
 * so nothing is added. False if another rank has claimed it; or *differs (else left alone) is a
 * rank whose row does not fit.
 */
bool sml_host_add(struct sml_host *host, const struct sml_contribution *in, bool placed,
		  uint8_t *differs);

/* The leader's: the result that has come for a SUMMED use. */
void sml_host_publish(struct sml_host *host, const struct sml_contribution *in, uint32_t ticket,
		      const void *lanes);

/* The result of a use that is DONE: big-endian lanes, valid until this rank arrives at use + 2. */
const void *sml_host_result(const struct sml_host *host, uint32_t slot, uint32_t use,
			    uint32_t *ticket);

/*
 * The newest use of a slot that any rank has arrived at, and the ranks that have not. False if
 * there is none.
 */
bool sml_host_newest(const struct sml_host *host, uint32_t slot, uint32_t *use, uint64_t *missing);

/* ---- sleep (sleep.c) ---- */

/*
 * To sleep: get ready, look once more for anything to do, and then sleep unless there is; wake up
 * in any case. Any thread of this rank may wake it.
 */
uint32_t sml_host_get_ready(struct sml_host *host);
void sml_host_sleep(struct sml_host *host, uint32_t ready, uint64_t ns);
void sml_host_wake_up(struct sml_host *host);
void sml_host_wake_self(struct sml_host *host);

/*
 * The wait for news has taken this long. Looking does not help where waits are longer, because the
 * awaited ranks have no core, or compute; and it has hindered the news where it kept the core from
 * the rank that makes them.
 */
void sml_host_note_wait(struct sml_host *host, uint64_t ns, bool hindered);

/*
 * The same, of a wait since then, with or without sleep. What counts is when the news came, and not
 * when this rank was awake: two ranks that take turns to sleep would never notice how short it is.
 */
void sml_host_note_news(struct sml_host *host, uint64_t since_ns);

/* Wake the ranks that sleep, if there is anything new for them. */
void sml_host_wake_sleepers(struct sml_host *host);

/*
 * Publish which processors this rank may use; and when all ranks have done so, decide how to wait.
 */
void sml_host_publish_cpus(struct sml_host *host);
void sml_host_count_cpus(struct sml_host *host);

#endif

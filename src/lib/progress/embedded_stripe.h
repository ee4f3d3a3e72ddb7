/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stripe of its job that a rank embeds: slots in this process. Its packets use the same sockets
 * as the rank's own packets, one per thread, and thread t owns the slots of shard t. So the rank's
 * own contributions and their results are passed by calls, and threads share only the ticket
 * counters.
 *
 *	other ranks ---- socket ----\                     /---- socket ---- other ranks
 *	                             > slots of shard t -<
 *	own worker (t) --------------/                     \--- own worker (t)
 */
#ifndef SML_LIB_EMBEDDED_STRIPE_H
#define SML_LIB_EMBEDDED_STRIPE_H

#include "control/frame.h"
#include "core/pool.h"
#include "lib/transport/transport.h"

struct sml_control;
struct sml_stall_report;

struct sml_embedded_stripe {
	struct sml_pool pool;
	void *memory;
	uint8_t rank; /* this one's, as slots number those that contribute: the job's, or hosts */
	uint64_t members[SML_MAX_CHILDREN]; /* the job's ranks that each stands for, as bits */
	unsigned n_job_ranks;
	struct sml_control *control;
	/*
	 * When each buffer's use was completed, in rounds of its line: a repeated contribution that
	 * was already waiting in the socket then does not mean that the result was lost.
	 */
	uint32_t *completed;
	/* Relaxed atomics. */
	uint64_t verdicts[SML_VERDICTS];
	uint64_t contributions[SML_MAX_CHILDREN], resends[SML_MAX_CHILDREN];
	uint64_t waited_ns[SML_MAX_CHILDREN]; /* how long the others waited for it: sml_waited() */
	/* See question.h; under the threads' lock. */
	struct {
		uint32_t number;		 /* atomic: of questions so far */
		struct sml_stall_report *report; /* NULL if nobody asks */
		unsigned n_answered;
	} question;
};

/*
 * Each stands for itself, until members are set. rules.lanes may still shrink until it is opened.
 * Returns NULL without memory, and then sets the error text.
 */
struct sml_embedded_stripe *sml_embedded_stripe_new(const struct sml_pool_rules *rules,
						    uint8_t rank, struct sml_control *control);
void sml_embedded_stripe_free(struct sml_embedded_stripe *own);

/*
 * Process a contribution of any rank, in the thread of its shard. *answer is as from
 * sml_pool_receive(): the caller sends it, if there is one. round: how often the socket was emptied
 * so far.
 */
enum sml_verdict sml_embedded_stripe_receive(struct sml_embedded_stripe *own, const void *packet,
					     uint32_t length, uint32_t round, uint64_t now_ns,
					     struct sml_pool_answer *answer);

/* Its counters so far, without the bytes; those by the job's ranks are in this memory. */
void sml_embedded_stripe_status(const struct sml_embedded_stripe *own,
				SmlControl__StripeStatus *status,
				uint64_t waited_ms[SML_MAX_CHILDREN]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets between a transport and the shards that use it: one shard if the switch is dedicated; if
 * ranks embed the stripes, one shard of each stripe, and this rank's own slots. Where ranks of a
 * host share memory, only their leader has a transport, and the others a line for each stripe
 * without one (host_line.c). A line belongs to one thread.
 */
#ifndef SML_LIB_LINE_H
#define SML_LIB_LINE_H

#include "control/stream.h"
#include "core/pool.h"
#include "core/resume.h"
#include "core/worker.h"
#include "lib/host/slots.h"
#include "lib/transport/transport.h"

struct sml_control;
struct sml_line;
struct sml_stall_report;
struct sml_trace;

/*
 * ---- this rank's stripe, where ranks embed them (embedded_stripe.c) ----
 *
 * The stripe of its job that a rank embeds: slots in this process. Its packets use the same sockets
 * as the rank's own packets, one per thread, and thread t owns the slots of shard t. So the rank's
 * own contributions and their results are passed by calls, and threads share only the ticket
 * counters.
 *
 *	other ranks ---- socket ----\                     /---- socket ---- other ranks
 *	                             > slots of shard t -<
 *	own worker (t) --------------/                     \--- own worker (t)
 */

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
	/* See question.c; under the threads' lock. */
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

/*
 * ---- a worker (shard.c) ----
 *
 * One worker of the core within a progress thread: of one stripe, for the slots of one shard. The
 * thread owns it. The failover owns it while it is parked, and any thread may use it once the
 * threads have stopped.
 */

struct sml_shard {
	uint8_t stripe;
	unsigned index; /* of the thread that serves it */
	struct sml_line *line;
	struct sml_worker worker;
	void *worker_memory;
	/*
	 * The previous epoch, for its kept results: see failover.c. Its memory is NULL if there is
	 * none.
	 */
	struct sml_worker kept;
	void *kept_memory;
	uint16_t next_sum; /* of a host's leader: where it looks for sums next: SML_NO_SLOT: at the
			      first */
	uint64_t held_since_ns; /* its few packets wait for more; 0 if none do */
	/* Timeouts since the last result, and the number of the last renewal; see renewal.c. */
	struct {
		uint64_t results;
		uint32_t n_silent, number;
		bool probes; /* a probe is to leave */
		/* How many probes have left, and the longest of their replies and of results. */
		uint32_t asked, passed;
		uint32_t narrow; /* atomic: the bytes that still pass, if not all; 0: unknown */
	} renewal;
	const bool *park; /* atomic: the state that its stripe wants; see sml_threads_owner */
	bool parked;	  /* parked as the stripe asked: frozen, and not ours */

	/* Copies of the worker's counters, for other threads. Each is atomic. */
	struct sml_counters counters;
};

/* A worker on this line, of the stripe that config names. Returns NULL without memory, and then
 * sets the error text. */
struct sml_shard *sml_shard_new(const struct sml_worker_config *config, struct sml_line *line,
				const bool *park);
void sml_shard_free(struct sml_shard *shard);

/*
 * A worker of the next epoch and its memory, for sml_shard_renew(), or to be freed. NULL if there
 * is no memory. Create those of all shards first, because all workers of a stripe must have the
 * same epoch.
 */
struct sml_worker *sml_shard_prepare(const struct sml_worker_config *config, void **memory);

/*
 * Begin the next epoch with `next`, on another transport. keep: keep the current worker for its
 * kept results, instead of the previous one. The maps' tables must live as long.
 */
void sml_shard_renew(struct sml_shard *shard, struct sml_worker *next, void *memory,
		     const struct sml_ticket_map maps[SML_STREAMS], struct sml_transport *transport,
		     bool keep);

/* An answer to a packet, or to a probe. Shorter ones do not tell whether longer ones pass. */
static inline void sml_shard_note_passed(struct sml_shard *shard, uint32_t length)
{
	if (length > shard->renewal.passed)
		shard->renewal.passed = length;
}

/* Copy the worker's counters to where other threads may read them. */
void sml_shard_publish(struct sml_shard *shard);

/* ---- a line ---- */

/* Packets to one stripe before another has its turn. */
#define SML_TURN_PACKETS 64

struct sml_line {
	struct sml_transport *transport;
	struct sml_trace *trace; /* the thread's; NULL if none was asked for */
	struct sml_batch out;
	uint64_t send_blocked;
	struct sml_shard *shards[SML_MAX_STRIPES]; /* if there are several, by stripe */
	unsigned n_shards;
	struct sml_team team; /* if there are several: their workers, which are never replaced */
	unsigned turn;	      /* the shard whose packets go first */
	/* This rank's embedded stripe. NULL if it has none. */
	struct sml_embedded_stripe *own;
	/* Memory that ranks share, of each shard. NULL if each rank sends packets. */
	struct sml_host *host;
	struct sml_control *control; /* to report what the rows disagree about, and renewals */
	bool renews; /* a dedicated switch has the slots, and may lose this rank's address */
	struct iovec results[SML_RESULTS_AT_ONCE]; /* gathered; they are in the slots */
	unsigned n_results;
	uint64_t result_packets, result_bytes; /* sent to other ranks */
	uint64_t held_since_ns;		       /* results wait for more; 0 if none do */
	uint64_t n_absorbed, n_completed;
	uint64_t served_packets, served_bytes; /* that other ranks have sent to it */
	uint32_t round, n_takes;	       /* see `completed` */
	uint32_t scratch[SML_MAX_PACKET_BYTES / 4];
};

/* Events that other threads may be waiting for. */
struct sml_wakeups {
	uint64_t done; /* tensors */
	bool heads;    /* head chunks: exponents */
};

/*
 * The line owns the transport from then on; NULL if it will have shared memory. own: NULL, or this
 * rank's stripe. NULL if there is no memory.
 */
struct sml_line *sml_line_new(struct sml_transport *transport, struct sml_embedded_stripe *own);
void sml_line_free(struct sml_line *line);

/* Process received packets. True if there were any. */
bool sml_line_receive(struct sml_line *line, struct sml_packet *packets, uint64_t now_ns,
		      struct sml_wakeups *wakeups);

/*
 * Is it time to check for late packets, after a receive that was busy or not? Results may only be
 * unread. But a socket that is never empty must not prevent the check of timers.
 */
bool sml_line_may_expire(const struct sml_line *line, bool busy);

/* Fill a batch and send it. True if anything was sent. */
bool sml_line_send(struct sml_line *line, uint64_t now_ns, struct sml_wakeups *wakeups);

/* When packets that wait for more packets must be sent at the latest; UINT64_MAX: none wait. */
uint64_t sml_line_deadline(const struct sml_line *line);

/*
 * Another rank asks how long packets to this one's slots may be. One answers one of the same
 * length, which goes to the address that the asker announced.
 */
void sml_line_answer_probe(struct sml_transport *transport, const struct sml_pool_rules *rules,
			   const struct sml_packet *packet);

/* ---- a path that has changed: its address, or its MTU (renewal.c) ---- */

/* The shard's timer has expired. */
void sml_line_note_timeout(struct sml_shard *shard);

/* It has not: if long packets pass again, the path is as it was, also where no call follows. */
void sml_line_note_time(struct sml_shard *shard);

/* It has another path. */
void sml_line_forget_path(struct sml_shard *shard);

/* A probe for the switch, if one is to leave: its length, at most a full packet's, or 0. */
size_t sml_line_renewal_probe(struct sml_shard *shard, void *packet);

/* One has come back, or so it seems. */
void sml_line_note_probe_reply(struct sml_shard *shard, const struct sml_header *header,
			       uint32_t length);

/* ---- where ranks share the slots' memory (host_line.c); called by the above ---- */

/* Without a transport: take results, and write rows. */
bool sml_host_line_receive(struct sml_line *line, uint64_t now_ns, struct sml_wakeups *wakeups);
bool sml_host_line_send(struct sml_line *line, uint64_t now_ns);

/* The leader's: as sml_worker_send(), and a result for all ranks of the host. */
size_t sml_host_line_next(struct sml_shard *shard, void *packet, uint64_t now_ns);
void sml_host_line_publish(struct sml_shard *shard, const void *packet, uint32_t length);
void sml_host_line_wake(const struct sml_line *line);

/* Note what a worker's verdict brings to others. */
void sml_line_note(struct sml_shard *shard, enum sml_worker_verdict verdict, bool may_unblock,
		   struct sml_wakeups *wakeups);

static inline bool sml_line_is_full(const struct sml_line *line)
{
	return line->out.first < line->out.n;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets between a transport and the shards that use it: one shard if the switch is dedicated; if
 * ranks embed the stripes, one shard of each stripe, and this rank's own slots. Where ranks of a
 * host share memory, only their leader has a transport, and the others a line for each stripe
 * without one (host_line.c). A line belongs to one thread.
 */
#ifndef SML_LIB_LINE_H
#define SML_LIB_LINE_H

#include "core/worker.h"
#include "lib/host/slots.h"
#include "lib/progress/embedded_stripe.h"
#include "lib/transport/transport.h"

struct sml_control;
struct sml_shard;
struct sml_trace;

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
	uint32_t round, n_takes;	       /* see embedded_stripe.h */
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

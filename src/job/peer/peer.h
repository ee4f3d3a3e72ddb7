/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers, wherever they are: what they are told, and when they were heard. */
#ifndef SML_JOB_PEER_PEER_H
#define SML_JOB_PEER_PEER_H

#include "job/switch.h"

/*
 * ---- leaves, and the ranks behind them ----
 *
 * tree/branches.h decides when they come and go; to job code, a rank at a leaf is a peer like any
 * other.
 */

/* Three levels of switches: a root is at level 0. */
#define SML_MAX_LEVEL 2

/*
 * A leaf that does not say what its slots wait for is waited for so long. Each level has more time
 * than the one below it, so that its answer still comes.
 */
#define SML_ANSWER_NS 100000000ull

/* A leaf of this switch. */
struct sml_branch {
	struct sml_jobs *jobs;
	struct sml_branch *next;
	struct sml_switch_link link; /* its ranks are struct sml_remote */
	char name[SML_NAME_BYTES];
	uint32_t slots, slots_in_use; /* its own; by jobs that this switch gave it */
	uint32_t n_unread;	      /* ranks that came since it last read what it was sent */
	bool is_logged;
};

/* A rank at a leaf, as if it were connected here. */
struct sml_remote {
	struct sml_numbered key;
	struct sml_peer peer;
	struct sml_remote *next_ended;
	bool ended;
	char at[SML_NAME_BYTES]; /* the name of the switch that it is connected to */
	/* The least on its way here, as its leaf said with its Join. */
	uint32_t slots, lanes;
	uint64_t home;	    /* equal: connected to the same switch */
	bool only_integers; /* a leaf on the way adds no lanes of floats */
};

static inline struct sml_remote *sml_remote_of(const struct sml_peer *peer)
{
	return (struct sml_remote *)((uintptr_t)peer - offsetof(struct sml_remote, peer));
}

/* The leaf of this switch that the peer is behind; NULL if it is connected here. */
static inline struct sml_branch *sml_peer_via(const struct sml_peer *peer)
{
	return peer != NULL ? peer->via : NULL;
}

/* The slots that are free on its way here. */
static inline uint32_t sml_remote_slots(const struct sml_remote *remote)
{
	const struct sml_branch *branch = remote->peer.via;
	uint32_t free =
		branch->slots > branch->slots_in_use ? branch->slots - branch->slots_in_use : 0;

	return remote->slots < free ? remote->slots : free;
}

static inline bool sml_jobs_is_leaf(const struct sml_jobs *jobs)
{
	return jobs->config.parent != NULL;
}

/* How long this switch waits for what the slots of its leaves wait for. */
static inline uint64_t sml_answer_ns(const struct sml_jobs *jobs)
{
	return (SML_MAX_LEVEL - (uint64_t)jobs->leaf.level) * SML_ANSWER_NS;
}

/* ---- messages to peers, and to the switch's operator ---- */

/* Send a message. Returns 0, -ENOMEM, or -EMSGSIZE. */
int sml_peer_send(const struct sml_jobs *jobs, struct sml_peer *peer,
		  const SmlControl__Envelope *message);

/* Close the peer's connection once all is sent; and whether the peer reads what it is sent. */
void sml_peer_end(const struct sml_jobs *jobs, struct sml_peer *peer);
bool sml_peer_listens(const struct sml_jobs *jobs, const struct sml_peer *peer);

/* Send Abort with this error and sentence, and end it. */
void sml_peer_refuse(const struct sml_jobs *jobs, struct sml_peer *peer, int error,
		     const char *text);

/*
 * It was silent, and is told so. If it is doubted and lives, it may come again, or look for the
 * other ranks: then it is only ended.
 */
void sml_peer_end_silent(const struct sml_jobs *jobs, struct sml_peer *peer, bool doubted,
			 const char *text);

/* As sml_peer_refuse(), for lack of room: the peer may come again. */
void sml_peer_refuse_for_now(const struct sml_jobs *jobs, struct sml_peer *peer, const char *text);

uint64_t sml_jobs_random(const struct sml_jobs *jobs);

__attribute__((format(printf, 3, 4))) void
sml_jobs_log(const struct sml_jobs *jobs, enum sml_jobs_level level, const char *format, ...);

/*
 * A job comes to its end other than by its ranks' leaving, or a rank is not let into one: a line
 * for the operator. Anybody can make jobs fail, so that some lines may only be counted. `how`:
 * "failed: rank 3 died". If its ranks have planned the end, the line is for information, and no
 * warning.
 */
void sml_jobs_log_end(struct sml_jobs *jobs, const char *job, const char *how, bool planned);
void sml_jobs_log_refusal(struct sml_jobs *jobs, const SmlControl__Join *join, const char *why);

/*
 * Send a message to the other switch, if it is connected; or one that it is to pass on, in this
 * Relay. Return as sml_peer_send().
 */
int sml_link_send(const struct sml_jobs *jobs, const struct sml_switch_link *link,
		  const SmlControl__Envelope *message);
int sml_link_relay(const struct sml_jobs *jobs, const struct sml_switch_link *link,
		   SmlControl__Relay *relay, const SmlControl__Envelope *message);

/* The leaf is to end the connection of its rank with this number. */
void sml_branch_send_end(const struct sml_branch *branch, uint32_t number);

/* The rank at a leaf has no number any more, and is freed after this input. */
void sml_remote_retire(struct sml_remote *remote);

/* Free the ranks that have ended. Between two inputs. */
void sml_branches_sweep(struct sml_jobs *jobs);

/*
 * Tell the parent of this switch, which is a leaf, that the job with this number fails, or cannot
 * begin, here. again: for lack of room.
 */
void sml_leaf_send_failure(const struct sml_jobs *jobs, uint32_t number, int error,
			   const char *text, bool again);

/*
 * ---- when a peer was last heard, and what that proves ----
 *
 * After an absence of this switch itself, a peer may have given it up, and is doubted until it is
 * heard again: see job/input/jobs.c.
 */

/* Note that a message of the peer has come. */
void sml_peer_heard(struct sml_peer *peer, uint64_t now_ns);

/* Whether the peer may have given this switch up during the switch's last absence. */
static inline bool sml_peer_is_doubted(const struct sml_peer *peer)
{
	return peer->missed_ns != 0;
}

/*
 * Silence of the other switch that means death: half of a rank's, for the shortest heartbeat of the
 * ranks there. A rank sends four messages in its heartbeat, so it was last heard at most a quarter
 * of it before its leaf.
 */
uint64_t sml_link_silence_ns(const struct sml_switch_link *link);
uint64_t sml_link_silence_ends(const struct sml_switch_link *link);

/* This switch was away: the peer could not be heard in that time. */
void sml_peer_shift(struct sml_peer *peer, const struct sml_jobs *jobs, uint64_t away_ns);

/* The peer is doubted if that time was long for somebody with this heartbeat. */
void sml_peer_doubt(struct sml_peer *peer, uint32_t heartbeat_ms, uint64_t away_ns);

#endif

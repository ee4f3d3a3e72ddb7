/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to peers wherever they are, and to the switch's operator. */
#ifndef SML_JOB_PEER_OUTPUT_H
#define SML_JOB_PEER_OUTPUT_H

#include "job/peer/branch.h"

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

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proof that ranks share memory, while the job opens. The lowest rank of the group is its
 * leader: it makes the memory and hands it to the others over a UNIX socket.
 *
 *	leader                          another rank
 *	listens at its token's name     connects           both: is it the same user?
 *	               <--- Hello ---   its rank, its token
 *	the memory     --- Offer --->   maps it, and writes its token there
 *	sees the token <--- Proof ---
 *
 * This code never waits: the caller waits for the descriptor, and calls step(). Any error, even
 * another rank's, only means that the ranks do not share memory. The socket's name is abstract
 * (nothing is left behind) and cannot be guessed: only the job's ranks learn the tokens.
 */
#ifndef SML_LIB_HOST_MEET_H
#define SML_LIB_HOST_MEET_H

#include "lib/host/memory.h"

/* Where others of this host find this rank. */
struct sml_host_listener {
	int fd; /* -1 if nowhere */
	uint8_t token[SML_HOST_TOKEN_BYTES];
};

/* 0 or -errno. */
int sml_host_listen(struct sml_host_listener *listener);
void sml_host_close_listener(struct sml_host_listener *listener);

/* ---- messages: one datagram each, in the host's byte order ---- */

enum sml_meet_kind { SML_MEET_HELLO = 1, SML_MEET_OFFER = 2, SML_MEET_PROOF = 3 };

struct sml_meet_message {
	uint32_t magic, kind;
	uint32_t job, rank;
	uint8_t token[SML_HOST_TOKEN_BYTES]; /* Hello: the sender's */
	uint64_t proof;			     /* Offer: of the memory */
};

/* Ranks of the group, and what they have told the job. */
struct sml_meet_group {
	uint64_t ranks; /* bit r: rank r is in it */
	uint8_t tokens[SML_MAX_CHILDREN][SML_HOST_TOKEN_BYTES];
};

/*
 * The rank that this Hello or Proof is from: negative if it is none, or of no member of the group
 * but the leader.
 */
int sml_meet_check_hello(const struct sml_meet_group *group, uint32_t job, unsigned leader,
			 const void *bytes, size_t n);

/* ---- the handshake ---- */

struct sml_host_handshake;

/* terms: without the proof. NULL if there is no memory, or no descriptors; errno says why. */
struct sml_host_handshake *sml_host_handshake_new(const struct sml_host_terms *terms,
						  const struct sml_meet_group *group, unsigned rank,
						  const struct sml_host_listener *listener);

/* Readable when step() has something to do. -1: call it again soon. */
int sml_host_handshake_fd(const struct sml_host_handshake *handshake);

/* 1: all share the memory, as far as this rank can tell. 0: not yet. Negative: -errno, for good. */
int sml_host_handshake_step(struct sml_host_handshake *handshake);

/*
 * After a 1: the memory, which the caller owns from then on; and the leader's eventfd, if sums go
 * up (otherwise -1).
 */
struct sml_host_memory sml_host_handshake_take(struct sml_host_handshake *handshake,
					       int *leader_fd);

void sml_host_handshake_free(struct sml_host_handshake *handshake);

#endif

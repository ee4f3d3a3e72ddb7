/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a control connection, as a fuzzer's bytes have it: it says messages that are
 * nearly right, in any order and in any pieces, and may not listen to the answers.
 */
#ifndef SML_FUZZ_PEER_H
#define SML_FUZZ_PEER_H

#include <stdbool.h>

#include "support/messages.h"

/* What waits to be sent: a message of the greatest length, and some more. */
#define PEER_OUT_BYTES (5u << 18)

struct peer {
	int fd; /* -1: it is not there */
	struct evbuffer *in;
	bool deaf; /* does not read */
	bool held; /* has stopped in the middle of what it says */
	uint8_t rank;
	/* Said, and not sent yet. */
	uint8_t out[PEER_OUT_BYTES];
	size_t out_first, out_end, last;      /* the last frame begins at `last` */
	SmlControl__Envelope__BodyCase heard; /* its last message */
	uint16_t ports[2];		      /* of its last Join; shards, too */
	/* Of its last Admitted; job 0: none. */
	uint32_t job, epoch, n_slots;
	uint64_t cookie, tag;
	uint16_t lanes, data_port;
	uint8_t shards;
};

/* It has this socket now, which does not block. */
void peer_connect(struct peer *peer, int fd);
void peer_hang_up(struct peer *peer);

/* Say a frame: it is sent by peer_push(). What has no room is not said. */
void peer_say(struct peer *peer, const uint8_t *bytes, size_t n);

/*
 * Send what is said, `most` bytes of it, as far as the socket takes it. Where that is not all,
 * it is held until the next push.
 */
void peer_push(struct peer *peer, size_t most);

/* What the socket did not take, unless it is held. */
void peer_go_on(struct peer *peer);

/* Read the answers: NULL, or what is wrong with them. */
const char *peer_hear(struct peer *peer);

/* An honest message, and, now and then, with other fields than that. */
void say_message(struct peer *peer, struct gen *gen, const ProtobufCMessage *honest,
		 SmlControl__Envelope__BodyCase body);

/* ---- what a rank says (says.c) ---- */

struct say_terms {
	bool ranks_have_slots;
	uint32_t most_ranks;
};

void say_join(struct peer *peer, struct gen *gen, const struct say_terms *terms);
void say_honest_join(struct peer *peer, const struct say_terms *terms, uint32_t rank,
		     uint32_t world_size);
void say_ready(struct peer *peer, struct gen *gen);

/* A message of a member, as its fields are meant. */
void say_as_member(struct peer *peer, struct gen *gen);

/* ---- what a switch says (answers.c) ---- */

#define SAY_WORLD_SIZE 3

struct say_welcome {
	bool ranks_have_slots; /* rank 1 of three is told where the others are */
	uint16_t data_port;
};

/* As many shards at most as the rank's Join has, or too many. */
void say_admitted(struct peer *peer, struct gen *gen, const struct say_welcome *welcome);
void say_start(struct peer *peer, struct gen *gen);

/* Whatever else it says before the job starts, and from then on. */
void say_as_switch(struct peer *peer, struct gen *gen);

/* ---- what anybody says (says.c) ---- */

/* A question again and again, by one that does not hear the answers. */
void say_questions(struct peer *peer, struct gen *gen);

/* Any message of the schema. */
void say_anything(struct peer *peer, struct gen *gen);

/* One of great length: one of its fields again and again. */
void say_much(struct peer *peer, struct gen *gen);

/* The last one many times. */
void say_again(struct peer *peer, struct gen *gen);

/* What is no message. */
void say_garbage(struct peer *peer, struct gen *gen);

#endif

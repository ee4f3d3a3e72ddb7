/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a control connection, driven by a fuzzer's bytes. It sends messages that are
 * almost correct, in any order and in any pieces, and may not read the answers.
 */
#ifndef SML_FUZZ_PEER_H
#define SML_FUZZ_PEER_H

#include <stdbool.h>

#include "support/messages.h"

/* Data waiting to be sent: a message of the greatest length, and a little more. */
#define PEER_OUT_BYTES (5u << 18)

struct peer {
	int fd; /* -1: not connected */
	struct evbuffer *in;
	bool deaf; /* does not read */
	bool held; /* stopped in the middle of a message */
	uint8_t rank;
	/* Data to send. */
	uint8_t out[PEER_OUT_BYTES];
	size_t out_first, out_end, last;      /* the last frame begins at `last` */
	SmlControl__Envelope__BodyCase heard; /* the last message received */
	uint16_t ports[2];		      /* from the last Join, as is `shards` */
	/* From the last Admitted; job 0: none. */
	uint32_t job, epoch, n_slots;
	uint64_t cookie, tag;
	uint16_t lanes, data_port;
	uint8_t shards;
};

/* Connect the peer with this socket, which must be nonblocking. */
void peer_connect(struct peer *peer, int fd);
void peer_hang_up(struct peer *peer);

/* Add a frame to the data to send; peer_push() sends it. A frame that does not fit is dropped. */
void peer_say(struct peer *peer, const uint8_t *bytes, size_t n);

/*
 * Send at most `most` bytes, as many as the socket accepts. If data remains, the peer is
 * held until the next push.
 */
void peer_push(struct peer *peer, size_t most);

/* Send what the socket did not accept earlier, unless the peer is held. */
void peer_go_on(struct peer *peer);

/* Read the answers. Returns NULL, or what is wrong with them. */
const char *peer_hear(struct peer *peer);

/* Send an honest message, or sometimes the same message with changed fields. */
void say_message(struct peer *peer, struct gen *gen, const ProtobufCMessage *honest,
		 SmlControl__Envelope__BodyCase body);

/* A message to choose: a constant one, or what say() makes and sends. */
struct say_choice {
	SmlControl__Envelope__BodyCase body;
	const ProtobufCMessage *message;
	void (*say)(struct peer *peer, struct gen *gen);
};

/* Send one of n messages, as the generator chooses. */
void say_one_of(struct peer *peer, struct gen *gen, const struct say_choice *choices, uint32_t n);

/* ---- messages of a rank (rank_messages.c) ---- */

struct say_terms {
	bool ranks_have_slots;
	uint32_t most_ranks;
};

void say_join(struct peer *peer, struct gen *gen, const struct say_terms *terms);
void say_honest_join(struct peer *peer, const struct say_terms *terms, uint32_t rank,
		     uint32_t world_size);
void say_ready(struct peer *peer, struct gen *gen);

/* A message of a member, with its fields as intended. */
void say_as_member(struct peer *peer, struct gen *gen);

/* ---- messages of a switch (switch_messages.c) ---- */

#define SAY_WORLD_SIZE 3

struct say_welcome {
	bool ranks_have_slots; /* rank 1 of three gets the addresses of the others */
	uint16_t data_port;
};

/* Has at most as many shards as the rank's Join, or too many. */
void say_admitted(struct peer *peer, struct gen *gen, const struct say_welcome *welcome);
void say_start(struct peer *peer, struct gen *gen);

/* Any other message, before and after the job's start. */
void say_as_switch(struct peer *peer, struct gen *gen);

/* ---- messages of any peer (rank_messages.c) ---- */

/* Repeat a question, from a peer that does not read the answers. */
void say_questions(struct peer *peer, struct gen *gen);

/* Any message of the schema. */
void say_anything(struct peer *peer, struct gen *gen);

/* A very long message: one of its fields is repeated. */
void say_much(struct peer *peer, struct gen *gen);

/* Repeat the last message many times. */
void say_again(struct peer *peer, struct gen *gen);

/* Bytes that are no message. */
void say_garbage(struct peer *peer, struct gen *gen);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of TLS in memory (control/tls.h), and what goes between them. */
#ifndef SML_TESTS_TLS_ENDS_H
#define SML_TESTS_TLS_ENDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/tls.h"

#define MESSAGE_BYTES 100000

struct end {
	struct sml_tls_session *session;
	struct evbuffer *in, *out, *wire_in, *wire_out;
	bool over;
};

void open_end(struct end *end, struct sml_tls *tls, const char *peer);
void close_end(struct end *end);

/* MESSAGE_BYTES, the same ones always. */
void say(struct end *end);

/* What it has heard is what say() says, or a beginning of it. */
void expect_beginning(struct end *end, bool all);

/* Let it do what it can. */
void step(struct end *end);

/* At most n bytes from one to the other, and what follows from them. How many were there. */
size_t carry(struct end *from, struct end *to, size_t n);

/* Until neither has anything to say. */
void carry_all(struct end *one, struct end *other);

/* Both say(), `first` begins the handshake, and at most n bytes at a time pass, until the end. */
void talk(struct end *first, struct end *other, size_t n);

/*
 * So many conversations, in each of which one bit of one direction is changed on the way: one in
 * `late_one_in` anywhere, the others among the first early_bytes. Fails where an end believes
 * what was not said. Returns how many conversations ended by the change.
 */
unsigned change_bits(struct sml_tls *of_switch, struct sml_tls *of_worker, uint64_t seed,
		     unsigned n, unsigned late_one_in, uint32_t early_bytes);

#endif

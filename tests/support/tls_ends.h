/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of TLS in memory (control/tls.h), and the bytes between them. */
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

/* MESSAGE_BYTES, always the same ones. */
void say(struct end *end);

/* What it has received is what say() sends, or a prefix of that. */
void expect_beginning(struct end *end, bool all);

/* Let this end do what it can. */
void step(struct end *end);

/*
 * Carry at most n bytes from one end to the other, and let it process them. Returns their
 * number.
 */
size_t carry(struct end *from, struct end *to, size_t n);

/* Continue until neither end has anything to send. */
void carry_all(struct end *one, struct end *other);

/*
 * Both call say(), `first` begins the handshake, and at most n bytes pass at a time, until
 * the end.
 */
void talk(struct end *first, struct end *other, size_t n);

/*
 * Run this many conversations. In each of them, one bit of one direction is changed on the
 * way: in one of `late_one_in` conversations anywhere, in the others among the first
 * early_bytes. Fails if an end accepts bytes that were not sent. Returns the number of
 * conversations that the change ended.
 */
unsigned change_bits(struct sml_tls *of_switch, struct sml_tls *of_worker, uint64_t seed,
		     unsigned n, unsigned late_one_in, uint32_t early_bytes);

#endif

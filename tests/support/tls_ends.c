/* SPDX-License-Identifier: BSD-3-Clause */
/* See tls_ends.h. */
#include "support/tls_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void open_end(struct end *end, struct sml_tls *tls, const char *peer)
{
	*end = (struct end){.session = sml_tls_begin(tls, peer),
			    .in = evbuffer_new(),
			    .out = evbuffer_new(),
			    .wire_in = evbuffer_new(),
			    .wire_out = evbuffer_new()};
	assert_non_null(end->session);
}

void close_end(struct end *end)
{
	sml_tls_end(end->session);
	evbuffer_free(end->in);
	evbuffer_free(end->out);
	evbuffer_free(end->wire_in);
	evbuffer_free(end->wire_out);
}

static unsigned char *make_message(void)
{
	unsigned char *message = malloc(MESSAGE_BYTES);

	assert_non_null(message);
	for (size_t i = 0; i < MESSAGE_BYTES; i++)
		message[i] = (unsigned char)(i * 31 >> 3);
	return message;
}

void say(struct end *end)
{
	unsigned char *message = make_message();

	evbuffer_add(end->out, message, MESSAGE_BYTES);
	free(message);
}

void step(struct end *end)
{
	if (!end->over &&
	    sml_tls_step(end->session, end->wire_in, end->in, end->out, end->wire_out) < 0) {
		end->over = true;
		assert_true(sml_tls_reason(end->session)[0] != '\0');
	}
	if (end->over)
		evbuffer_drain(end->wire_in, evbuffer_get_length(end->wire_in));
	/* Messages come of nothing but a finished handshake. */
	if (evbuffer_get_length(end->in) > 0)
		assert_true(sml_tls_is_up(end->session));
}

size_t carry(struct end *from, struct end *to, size_t n)
{
	int moved = evbuffer_remove_buffer(from->wire_out, to->wire_in, n);

	step(to);
	return moved > 0 ? (size_t)moved : 0;
}

void expect_beginning(struct end *end, bool all)
{
	size_t n = evbuffer_get_length(end->in);
	unsigned char *message = make_message();

	assert_true(n <= MESSAGE_BYTES && (!all || n == MESSAGE_BYTES));
	assert_memory_equal(evbuffer_pullup(end->in, -1), message, n);
	free(message);
}

void carry_all(struct end *one, struct end *other)
{
	while (carry(one, other, SIZE_MAX / 2) + carry(other, one, SIZE_MAX / 2) > 0)
		;
}

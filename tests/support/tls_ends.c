/* SPDX-License-Identifier: BSD-3-Clause */
/* See tls_ends.h. */
#include "support/tls_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/gen.h"

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
	/* Messages arrive only after a completed handshake. */
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

void talk(struct end *first, struct end *other, size_t n)
{
	say(first);
	say(other);
	step(first);
	while (carry(first, other, n) + carry(other, first, n) > 0)
		;
}

/*
 * Skip the version in the first record's header (bytes 1 and 2): it has no meaning, and
 * receivers must ignore it (RFC 8446, 5.1).
 */
#define BEHIND_VERSION 3

/* Like talk(), but flips one bit of byte `at` of what `from` sends. True: that byte was sent. */
static bool talk_with_change(struct gen *gen, struct end *from, struct end *to, size_t at)
{
	size_t passed = 0, n = 1;

	while (n > 0) {
		size_t length = evbuffer_get_length(from->wire_out);

		if (passed <= at && at < passed + length)
			evbuffer_pullup(from->wire_out, -1)[at - passed] ^=
				(unsigned char)(1u << gen_below(gen, 8));
		passed += length;
		n = carry(from, to, length);
		n += carry(to, from, 1000000);
	}
	return passed > at;
}

unsigned change_bits(struct sml_tls *of_switch, struct sml_tls *of_worker, uint64_t seed,
		     unsigned n, unsigned late_one_in, uint32_t early_bytes)
{
	struct gen gen;
	unsigned n_over = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	gen_from_seed(&gen, seed);
	for (unsigned i = 0; i < n; i++) {
		struct end server, worker;
		bool workers = gen_below(&gen, 2), changed;
		size_t at = BEHIND_VERSION +
			    gen_below(&gen, gen_below(&gen, late_one_in) ? early_bytes : 80000);

		open_end(&server, of_switch, NULL);
		open_end(&worker, of_worker, "127.0.0.1");
		say(&worker);
		say(&server);
		step(&worker);
		changed = talk_with_change(&gen, workers ? &worker : &server,
					   workers ? &server : &worker, at);
		expect_beginning(&server, false);
		expect_beginning(&worker, false);
		/* One end has noticed, and the other received only complete messages. */
		n_over += server.over || worker.over;
		assert_false(evbuffer_get_length(server.in) == MESSAGE_BYTES &&
			     evbuffer_get_length(worker.in) == MESSAGE_BYTES && changed &&
			     !server.over && !worker.over);
		close_end(&server);
		close_end(&worker);
	}
	printf("%u of %u ended by it\n", n_over, n);
	return n_over;
}

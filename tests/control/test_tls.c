/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ends of TLS in memory (control/tls.h), connected by a wire that cuts, changes and
 * stops. Each end receives a prefix of what the other sent, or nothing, and nothing before
 * both ends are authenticated. Needs the openssl command.
 *
 * SML_SEED=N replays.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/tls_internal.h"
#include "sim/gen.h"
#include "support/certificates.h"
#include "support/test.h"
#include "support/tls_ends.h"

static struct sml_tls *of_switch, *of_worker;
static uint64_t seed;

static void set_up(void)
{
	const char *text = getenv("SML_SEED");

	seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
	of_switch = certificates_need_switch();
	of_worker = certificates_of_worker();
}

static void tear_down(void)
{
	sml_tls_close(of_switch);
	sml_tls_close(of_worker);
	certificates_remove();
}

static void open_both(struct end *server, struct end *worker)
{
	open_end(server, of_switch, NULL);
	open_end(worker, of_worker, "127.0.0.1");
}

TEST(messages_pass_whatever_the_wire_cuts)
{
	static const size_t cuts[] = {1, 7, 100, 5000, 1000000};

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct end server, worker;

		open_both(&server, &worker);
		talk(&worker, &server, cuts[i]);
		assert_true(!server.over && !worker.over);
		expect_beginning(&server, true);
		expect_beginning(&worker, true);
		close_end(&server);
		close_end(&worker);
	}
}

TEST(a_changed_bit_is_never_believed)
{
	/* Half of the changes are in the handshake. */
	assert_true(change_bits(of_switch, of_worker, seed, 300, 2, 1000) > 200);
}

/* Each of them costs an answer, so a peer that never reads could fill our memory. */
TEST(key_updates_are_bounded)
{
	struct end server, worker;
	unsigned n = 0;

	open_both(&server, &worker);
	step(&worker);
	while (carry(&worker, &server, 100000) + carry(&server, &worker, 100000) > 0)
		;
	assert_true(sml_tls_is_up(server.session) && sml_tls_is_up(worker.session));
	for (; n < 1000 && !server.over; n++) {
		assert_int_equal(SSL_key_update(worker.session->ssl, SSL_KEY_UPDATE_REQUESTED), 1);
		evbuffer_add(worker.out, "x", 1);
		step(&worker);
		carry(&worker, &server, 100000);
	}
	printf("over after %u changes of keys: %s\n", n, sml_tls_reason(server.session));
	assert_true(n > 8 && n < 100);
	assert_non_null(strstr(sml_tls_reason(server.session), "keys too often"));
	assert_true(evbuffer_get_length(server.wire_out) < 10000);
	close_end(&server);
	close_end(&worker);
}

TEST(garbage_is_no_handshake)
{
	struct gen gen;

	gen_from_seed(&gen, seed + 1);
	for (unsigned i = 0; i < 2000; i++) {
		struct end server, worker;
		uint32_t length = 1 + gen_below(&gen, 600);

		open_both(&server, &worker);
		step(&worker);
		/* Random bytes, or a hello whose later part is random. */
		for (uint32_t k = 0; k < length; k++) {
			unsigned char byte = (unsigned char)gen_below(&gen, 256);

			if (i % 2 == 0 || k >= 100 || evbuffer_get_length(worker.wire_out) == 0)
				evbuffer_add(server.wire_in, &byte, 1);
			else
				evbuffer_remove_buffer(worker.wire_out, server.wire_in, 1);
		}
		step(&server);
		assert_false(sml_tls_is_up(server.session));
		assert_int_equal(evbuffer_get_length(server.in), 0);
		assert_true(evbuffer_get_length(server.wire_out) < 10000);
		close_end(&server);
		close_end(&worker);
	}
}

TESTS_BETWEEN(set_up, tear_down)

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a ClientHello may cost a switch. Anyone who reaches the port can send any number of
 * them, because a hello proves nothing: even a recorded one is enough. So a switch accepts
 * two groups, which are both fast, and refuses all others before it computes anything. Needs
 * the openssl command, for certificates.
 */
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "control/tls_internal.h"
#include "support/certificates.h"
#include "support/test.h"

#define REPLAYS 20

static struct sml_tls *of_switch;

static void set_up(void)
{
	of_switch = certificates_need_switch();
}

static void tear_down(void)
{
	sml_tls_close(of_switch);
	certificates_remove();
}

/* The first message of OpenSSL's own client, with key shares of these groups. */
static size_t record_hello(const char *groups, unsigned char *hello, size_t bytes)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl;
	BIO *out = BIO_new(BIO_s_mem());
	int n;

	assert_non_null(context);
	assert_int_equal(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION), 1);
	assert_int_equal(SSL_CTX_set1_groups_list(context, groups), 1);
	ssl = SSL_new(context);
	assert_non_null(ssl);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
	SSL_set_connect_state(ssl);
	assert_int_equal(SSL_do_handshake(ssl), -1);
	n = BIO_read(out, hello, (int)bytes);
	assert_true(n > 0 && (size_t)n < bytes);
	SSL_free(ssl);
	SSL_CTX_free(context);
	return (size_t)n;
}

/* A connection that sends these bytes. Does the switch continue the handshake? */
static bool is_answered(const unsigned char *hello, size_t bytes)
{
	struct sml_tls_session *session = sml_tls_begin(of_switch, NULL);
	struct evbuffer *in = evbuffer_new(), *out = evbuffer_new();
	struct evbuffer *wire_in = evbuffer_new(), *wire_out = evbuffer_new();
	int rc;

	assert_non_null(session);
	evbuffer_add(wire_in, hello, bytes);
	rc = sml_tls_step(session, wire_in, in, out, wire_out);
	assert_false(sml_tls_is_up(session));
	/* A refused peer gets an alert of seven bytes, and the log gets a reason. */
	if (rc < 0) {
		assert_true(evbuffer_get_length(wire_out) < 16);
		assert_non_null(strstr(sml_tls_reason(session), "key exchange"));
	}
	sml_tls_end(session);
	evbuffer_free(in);
	evbuffer_free(out);
	evbuffer_free(wire_in);
	evbuffer_free(wire_out);
	return rc == 0;
}

static uint64_t cost_ns(const unsigned char *hello, size_t bytes)
{
	uint64_t least_ns = UINT64_MAX;

	for (unsigned i = 0; i < REPLAYS; i++) {
		uint64_t begun_ns = sml_cpu_ns(), ns;

		(void)is_answered(hello, bytes);
		ns = sml_cpu_ns() - begun_ns;
		least_ns = ns < least_ns ? ns : least_ns;
	}
	return least_ns;
}

TEST(only_fast_groups_are_taken)
{
	static const struct {
		const char *group;
		bool taken;
	} all[] = {{"X25519", true},	 {"P-256", true},      {"P-384", false},
		   {"P-521", false},	 {"X448", false},      {"ffdhe2048", false},
		   {"ffdhe3072", false}, {"ffdhe4096", false}, {"ffdhe6144", false},
		   {"ffdhe8192", false}};
	unsigned char hello[4096];

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t bytes = record_hello(all[i].group, hello, sizeof(hello));

		printf("%s: %zu bytes, %.0f us\n", all[i].group, bytes,
		       (double)cost_ns(hello, bytes) / 1e3);
		assert_int_equal(is_answered(hello, bytes), all[i].taken);
	}
}

/*
 * The minimum processor time of several tries, compared with that of an honest hello: no
 * time limit.
 */
TEST(a_replayed_hello_of_a_slow_group_costs_less_than_an_honest_one)
{
	unsigned char honest[4096], slow[4096];
	size_t honest_bytes = record_hello("X25519", honest, sizeof(honest));
	size_t slow_bytes = record_hello("ffdhe8192", slow, sizeof(slow));
	uint64_t honest_ns = cost_ns(honest, honest_bytes), slow_ns = cost_ns(slow, slow_bytes);

	printf("a ClientHello costs %.0f us, one of ffdhe8192 (%zu bytes) %.0f us\n",
	       (double)honest_ns / 1e3, slow_bytes, (double)slow_ns / 1e3);
	assert_true(slow_ns < 2 * honest_ns);
}

/*
 * Its key share is of a slow group, but it supports a fast one: the switch asks for that,
 * cheaply.
 */
TEST(a_better_group_is_asked_for)
{
	unsigned char honest[4096], slow[4096];
	size_t honest_bytes = record_hello("X25519", honest, sizeof(honest));
	size_t slow_bytes = record_hello("ffdhe8192:X25519", slow, sizeof(slow));

	assert_true(is_answered(slow, slow_bytes));
	assert_true(cost_ns(slow, slow_bytes) < 2 * cost_ns(honest, honest_bytes));
}

TESTS_BETWEEN(set_up, tear_down)

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job key in a handshake: how two ends behave that have the same key, different keys, or none
 * (test_key_source.c: which keys are valid). Also attacks on the handshake by an attacker who sees
 * and changes all bytes but has no key. Needs the openssl command, for peers that have certificates
 * instead.
 *
 * SML_SEED=N replays.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/tls_internal.h"
#include "sim/gen.h"
#include "support/certificates.h"
#include "support/test.h"
#include "support/tls_ends.h"

#define SECRET	     "correct horse battery staple"
#define OTHER_SECRET "correct horse battery stable"

static const struct sml_key_source names = {"THE_KEY", "THE_KEY_FILE"};
static const struct sml_tls_files no_files;
static uint64_t seed;

static struct sml_tls *open_keyed(enum sml_tls_end end, const char *secret)
{
	const struct sml_key_source source = {secret, NULL};
	struct sml_tls *tls;

	if (sml_tls_open_with_key(&tls, end, &no_files, &sml_tls_variables, &source, &names) < 0)
		fail_msg("%s", sml_error_last());
	assert_true(sml_tls_is_keyed(tls));
	return tls;
}

static struct sml_tls *of_switch, *of_worker, *of_other_switch, *of_other_worker;

static void set_up(void)
{
	const char *text = getenv("SML_SEED");

	seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
	if (!sml_tls_is_built()) {
		printf("this build has no TLS\n");
		exit(77);
	}
	of_switch = open_keyed(SML_TLS_SWITCH, SECRET);
	of_worker = open_keyed(SML_TLS_WORKER, SECRET);
	of_other_switch = open_keyed(SML_TLS_SWITCH, OTHER_SECRET);
	of_other_worker = open_keyed(SML_TLS_WORKER, OTHER_SECRET);
}

static void tear_down(void)
{
	sml_tls_close(of_switch);
	sml_tls_close(of_worker);
	sml_tls_close(of_other_switch);
	sml_tls_close(of_other_worker);
	certificates_remove();
}

/* ---- two ends ---- */

TEST(a_key_and_certificates_exclude_each_other)
{
	const struct sml_tls_files files = {.certificate = "c", .key = "k", .authority = "a"};
	const struct sml_key_source source = {SECRET, NULL};
	struct sml_tls *tls;

	assert_int_equal(sml_tls_open_with_key(&tls, SML_TLS_WORKER, &files, &sml_tls_variables,
					       &source, &names),
			 -EINVAL);
	assert_null(tls);
	assert_string_equal(sml_error_last(),
			    "both a job key and certificates are set, but only one of them can be "
			    "used: unset the key, or SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY "
			    "and SWITCHML_TLS_AUTHORITY");
}

TEST(the_same_key_at_both_ends_lets_messages_pass)
{
	static const size_t cuts[] = {1, 7, 100, 5000, 1000000};

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct end server, worker;

		open_end(&server, of_switch, NULL);
		open_end(&worker, of_worker, "any.name.at.all");
		talk(&worker, &server, cuts[i]);
		if (server.over || worker.over)
			fail_msg("the switch: '%s', the worker: '%s'",
				 sml_tls_reason(server.session), sml_tls_reason(worker.session));
		expect_beginning(&server, true);
		expect_beginning(&worker, true);
		assert_string_equal(SSL_get_cipher(server.session->ssl), "TLS_AES_128_GCM_SHA256");
		close_end(&server);
		close_end(&worker);
	}
}

/* Neither end gets a message from the other, and both say why. */
static void expect_none(struct sml_tls *server_tls, struct sml_tls *worker_tls,
			const char *server_why, const char *worker_why)
{
	struct end server, worker;

	open_end(&server, server_tls, NULL);
	open_end(&worker, worker_tls, "127.0.0.1");
	talk(&worker, &server, SIZE_MAX / 2);
	assert_true(server.over && worker.over);
	assert_int_equal(evbuffer_get_length(server.in) + evbuffer_get_length(worker.in), 0);
	if (strstr(sml_tls_reason(server.session), server_why) == NULL)
		fail_msg("the switch says '%s'", sml_tls_reason(server.session));
	if (strstr(sml_tls_reason(worker.session), worker_why) == NULL)
		fail_msg("the worker says '%s'", sml_tls_reason(worker.session));
	close_end(&server);
	close_end(&worker);
}

TEST(another_key_is_told_at_both_ends)
{
	expect_none(of_switch, of_other_worker, "it has another job key: give both ends the same",
		    "it has another job key: give both ends the same");
	expect_none(of_other_switch, of_worker, "another job key", "another job key");
}

TEST(a_key_and_certificates_do_not_fit_together)
{
	struct sml_tls *switch_tls = certificates_open_switch(), *worker_tls;

	if (switch_tls == NULL)
		skip();
	worker_tls = certificates_of_worker();
	expect_none(of_switch, worker_tls, "it offered no job key: set SWITCHML_JOB_KEY_FILE there",
		    "does one end have a job key (SWITCHML_JOB_KEY_FILE) and the other end cert");
	expect_none(switch_tls, of_worker,
		    "does one end have a job key (SWITCHML_JOB_KEY_FILE) and the other end cert",
		    "it uses certificates, not a job key: start it with --key-file, or unset");
	sml_tls_close(switch_tls);
	sml_tls_close(worker_tls);
}

/* Bytes that are not TLS: both ends notice, and neither ever answers them with a message. */
TEST(a_plain_peer_is_told_what_to_set)
{
	struct sml_tls *const tls[] = {of_switch, of_worker};
	static const char *const why[] = {"it did not use a job key: set SWITCHML_JOB_KEY",
					  "it has no job key: start it"};

	for (int i = 0; i < 2; i++) {
		struct end end;

		open_end(&end, tls[i], NULL);
		say(&end);
		step(&end);
		evbuffer_drain(end.wire_out, evbuffer_get_length(end.wire_out));
		evbuffer_add(end.wire_in, "\0\0\0\5hello", 9);
		step(&end);
		assert_true(end.over && sml_tls_peer_is_plain(end.session));
		assert_non_null(strstr(sml_tls_reason(end.session), why[i]));
		assert_int_equal(evbuffer_get_length(end.wire_out), 0);
		close_end(&end);
	}
	assert_non_null(
		strstr(sml_tls_demand(of_switch), "this switch requires a job key: set SWITCH"));
}

/* ---- attacks ---- */

TEST(a_changed_bit_is_never_believed)
{
	/* The handshake is short: three quarters of the changes are in its first 400 bytes. */
	assert_true(change_bits(of_switch, of_worker, seed, 1000, 4, 400) > 800);
}

/* Replay everything that a worker has sent to the same switch, any number of times. */
TEST(a_replayed_worker_is_never_heard)
{
	struct end server, worker, fresh;
	struct evbuffer *record = evbuffer_new();
	unsigned char *bytes;
	size_t n;

	open_end(&server, of_switch, NULL);
	open_end(&worker, of_worker, "127.0.0.1");
	say(&worker);
	step(&worker);
	do {
		n = evbuffer_get_length(worker.wire_out);
		evbuffer_add(record, evbuffer_pullup(worker.wire_out, -1), n);
	} while (carry(&worker, &server, n) + carry(&server, &worker, 1000000) > 0);
	expect_beginning(&server, true);
	n = evbuffer_get_length(record);
	bytes = evbuffer_pullup(record, -1);
	for (int i = 0; i < 20; i++) {
		open_end(&fresh, of_switch, NULL);
		evbuffer_add(fresh.wire_in, bytes, n);
		step(&fresh);
		assert_true(fresh.over && !sml_tls_is_up(fresh.session));
		assert_int_equal(evbuffer_get_length(fresh.in), 0);
		close_end(&fresh);
	}
	evbuffer_free(record);
	close_end(&server);
	close_end(&worker);
}

/*
 * Replay everything that a switch has sent to a worker that connects again, as a false
 * switch would.
 */
TEST(a_replayed_switch_is_never_heard)
{
	struct end server, worker, fresh;
	struct evbuffer *record = evbuffer_new();
	size_t n;

	open_end(&server, of_switch, NULL);
	open_end(&worker, of_worker, "127.0.0.1");
	say(&server);
	step(&worker);
	(void)carry(&worker, &server, SIZE_MAX / 2);
	do {
		n = evbuffer_get_length(server.wire_out);
		evbuffer_add(record, evbuffer_pullup(server.wire_out, -1), n);
	} while (carry(&server, &worker, n) + carry(&worker, &server, 1000000) > 0);
	expect_beginning(&worker, true);
	open_end(&fresh, of_worker, "127.0.0.1");
	say(&fresh);
	step(&fresh);
	evbuffer_add_buffer(fresh.wire_in, record);
	step(&fresh);
	assert_true(fresh.over && !sml_tls_is_up(fresh.session));
	assert_int_equal(evbuffer_get_length(fresh.in), 0);
	evbuffer_free(record);
	close_end(&fresh);
	close_end(&server);
	close_end(&worker);
}

/* Both ends have the same key: what one end sends must not be accepted as sent by the other. */
TEST(an_end_that_hears_itself_is_not_fooled)
{
	struct sml_tls *const tls[] = {of_worker, of_switch};

	for (int i = 0; i < 2; i++) {
		struct end one, other;

		open_end(&one, tls[i], NULL);
		open_end(&other, tls[i], NULL);
		say(&one);
		say(&other);
		step(&one);
		step(&other);
		carry_all(&one, &other);
		assert_false(sml_tls_is_up(one.session) || sml_tls_is_up(other.session));
		assert_int_equal(evbuffer_get_length(one.in) + evbuffer_get_length(other.in), 0);
		close_end(&one);
		close_end(&other);
	}
}

/* A plain OpenSSL client that offers the key's identity in another way. */
struct odd_client {
	const char *title;
	const char *identity;
	int least_version, most_version;
	uint64_t options;
	bool has_key;
	bool speaks_early; /* before the switch has sent anything (0-RTT), which can be replayed */
};

static const struct odd_client *odd;

static int show_odd_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *bytes,
			SSL_SESSION **session)
{
	static const unsigned char cipher[] = {0x13, 0x01};
	const struct sml_key_source source = {odd->has_key ? SECRET : OTHER_SECRET, NULL};
	struct sml_key key;

	(void)digest;
	assert_int_equal(sml_key_read(&key, &source, &names), 1);
	*id = (const unsigned char *)odd->identity;
	*bytes = strlen(odd->identity);
	*session = SSL_SESSION_new();
	assert_int_equal(SSL_SESSION_set1_master_key(*session, key.bytes, sizeof(key.bytes)), 1);
	assert_int_equal(SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, cipher)), 1);
	assert_int_equal(SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION), 1);
	if (odd->speaks_early)
		assert_int_equal(SSL_SESSION_set_max_early_data(*session, 1000), 1);
	return 1;
}

/* Carry bytes by hand until neither end has any. */
static bool is_let_in(const struct odd_client *client)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	unsigned char bytes[16384];
	struct end server;
	bool up;
	SSL *ssl;

	odd = client;
	assert_int_equal(SSL_CTX_set_min_proto_version(context, client->least_version), 1);
	assert_int_equal(SSL_CTX_set_max_proto_version(context, client->most_version), 1);
	SSL_CTX_set_options(context, client->options);
	SSL_CTX_set_psk_use_session_callback(context, show_odd_key);
	ssl = SSL_new(context);
	SSL_set_bio(ssl, in, out);
	SSL_set_connect_state(ssl);
	open_end(&server, of_switch, NULL);
	if (client->speaks_early) {
		size_t written = 0;

		assert_int_equal(SSL_write_early_data(ssl, "\0\0\0\2\x6a", 6, &written), 1);
		assert_int_equal(written, 6);
	}
	for (int turn = 0; turn < 6; turn++) {
		int n;

		(void)SSL_do_handshake(ssl);
		n = BIO_read(out, bytes, sizeof(bytes));
		if (n > 0)
			evbuffer_add(server.wire_in, bytes, (size_t)n);
		step(&server);
		n = evbuffer_remove(server.wire_out, bytes, sizeof(bytes));
		if (n > 0)
			BIO_write(in, bytes, n);
	}
	up = sml_tls_is_up(server.session);
	printf("%s: %s\n", client->title, up ? "up" : sml_tls_reason(server.session));
	assert_int_equal(evbuffer_get_length(server.in), 0);
	/* A switch answers each of them with at most an alert, and closes. */
	assert_true(up || server.over);
	close_end(&server);
	SSL_free(ssl);
	SSL_CTX_free(context);
	return up;
}

TEST(no_weaker_handshake_is_taken)
{
	static const struct odd_client honest = {
		"an honest client", "switchml", TLS1_3_VERSION, TLS1_3_VERSION, 0, true, false};
	static const struct odd_client early = {
		"speaks early", "switchml", TLS1_3_VERSION, TLS1_3_VERSION, 0, true, true};
	static const struct odd_client prefers_none = {
		"asks for no key exchange", "switchml", TLS1_3_VERSION, TLS1_3_VERSION,
		SSL_OP_ALLOW_NO_DHE_KEX,    true,	false};
	static const struct odd_client all[] = {
		{"TLS 1.2", "switchml", TLS1_2_VERSION, TLS1_2_VERSION, 0, true, false},
		{"another identity", "switchm", TLS1_3_VERSION, TLS1_3_VERSION, 0, true, false},
		{"a longer identity", "switchml2", TLS1_3_VERSION, TLS1_3_VERSION, 0, true, false},
		{"another key", "switchml", TLS1_3_VERSION, TLS1_3_VERSION, 0, false, false},
		{"another key, early", "switchml", TLS1_3_VERSION, TLS1_3_VERSION, 0, false, true},
		{"another key, and no key exchange", "switchml", TLS1_3_VERSION, TLS1_3_VERSION,
		 SSL_OP_ALLOW_NO_DHE_KEX, false, false},
	};

	assert_true(is_let_in(&honest));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		assert_false(is_let_in(&all[i]));
	/* Early data is dropped, and the client may continue as others do. */
	assert_true(is_let_in(&early));
	/* With the key, the client is accepted, because the switch chooses the exchange. */
	assert_true(is_let_in(&prefers_none));
	assert_false(SSL_CTX_get_options(of_switch->context) & SSL_OP_ALLOW_NO_DHE_KEX);
}

/* The minimum cost of the switch's first step, over several tries. */
static uint64_t cost_ns(struct sml_tls *worker_tls)
{
	uint64_t least_ns = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		struct end server, worker;
		uint64_t begun_ns, ns;

		open_end(&server, of_switch, NULL);
		open_end(&worker, worker_tls, NULL);
		step(&worker);
		evbuffer_add_buffer(server.wire_in, worker.wire_out);
		begun_ns = sml_cpu_ns();
		step(&server);
		ns = sml_cpu_ns() - begun_ns;
		least_ns = ns < least_ns ? ns : least_ns;
		close_end(&server);
		close_end(&worker);
	}
	return least_ns;
}

/* The switch checks the binder before any key exchange. */
TEST(a_wrong_key_costs_less_than_the_right_one)
{
	uint64_t right_ns = cost_ns(of_worker), wrong_ns = cost_ns(of_other_worker);

	printf("the right key costs %.0f us, a wrong one %.0f us\n", (double)right_ns / 1e3,
	       (double)wrong_ns / 1e3);
	assert_true(wrong_ns < right_ns);
}

TESTS_BETWEEN(set_up, tear_down)

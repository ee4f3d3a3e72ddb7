/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control port, under peers that connect and never join: slow, half-open, many. Each case ends
 * with a job that runs unharmed. With the openssl command and TLS built in, it also tests
 * handshakes.
 */
#include <unistd.h>

#include "support/certificates.h"
#include "support/switch_client.h"
#include "support/test.h"
#include "support/unharmed.h"

static void push_bytes(const struct client *client, const void *bytes, size_t n)
{
	(void)!send(client->tcp, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- time ---- */

/* A peer that talks all the time: every 50 ms, it sends bytes from a pattern. */
struct talker {
	struct client client;
	const void *bytes;
	size_t n, each;
	size_t at;
	int64_t since_ms; /* it connected no earlier than this */
};

static void open_talker(struct talker *talker)
{
	talker->since_ms = client_now_ms();
	client_open(&talker->client, "127.0.0.1", port);
}

static void talk(struct talker *talker)
{
	size_t left = talker->n - talker->at;
	size_t n = left < talker->each ? left : talker->each;

	push_bytes(&talker->client, (const char *)talker->bytes + talker->at, n);
	talker->at += n;
	if (talker->at == talker->n && talker->each == talker->n)
		talker->at = 0; /* a whole message, so repeat it */
}

static void expect_all_ended(struct talker *talkers, unsigned n)
{
	int64_t until_ms = client_now_ms() + GREETING_MS + CLIENT_WAIT_MS;
	unsigned ended = 0;

	while (ended < n && client_now_ms() < until_ms) {
		usleep(50000);
		ended = 0;
		for (unsigned i = 0; i < n; i++) {
			if (!has_ended(&talkers[i].client))
				talk(&talkers[i]);
			else if (client_now_ms() - talkers[i].since_ms < GREETING_MS)
				fail_msg("talker %u was not given its time", i);
			else
				ended++;
		}
	}
	assert_int_equal(ended, n);
}

TEST_WITH(nobody_stays_without_joining, NULL, tear_down)
{
	static const char ping[] = {0, 0, 0, 2, 0x32, 0}, question[] = {0, 0, 0, 2, 0x6a, 0};
	static unsigned char longest[200000] = {0, 3, 0x0d, 0x40, 10, 0xbc, 0x9a, 12, 0x82, 1};
	struct sml_switch_config config = config_of_test();
	struct client member;
	struct talker talkers[5] = {
		{.bytes = "", .n = 0, .each = 1},			  /* silent */
		{.bytes = ping, .n = sizeof(ping), .each = sizeof(ping)}, /* sends whole messages */
		{.bytes = question, .n = sizeof(question), .each = sizeof(question)},
		{.bytes = longest, .n = sizeof(longest), .each = 1}, /* one byte at a time */
		{.bytes = longest,
		 .n = sizeof(longest) - 1,
		 .each = 8192}, /* never a whole message */
	};

	port = client_open_switch(&config);
	start_job();
	for (unsigned i = 0; i < 5; i++)
		open_talker(&talkers[i]);
	/* One that was a member does not become a stranger. */
	clients_start(&member, 1, "127.0.0.1", port, "before");
	client_send_empty(&member, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	client_free(client_expect(&member, SML_CONTROL__ENVELOPE__BODY_LEFT));
	client_expect_end(&member);
	client_close(&member);
	expect_all_ended(talkers, 5);
	for (unsigned i = 0; i < 5; i++)
		client_close(&talkers[i].client);
	/* Members send nothing in between, and stay: the heartbeat is their bound. */
	expect_unharmed();
}

TEST_WITH(handshakes_have_the_same_time, NULL, tear_down)
{
	static const unsigned char half_hello[] = {22, 3, 1, 0x02, 0x00, 1};
	static unsigned char long_hello[16384] = {22, 3, 1, 0x3f, 0xf0, 1, 0, 0x3f, 0xec, 3, 3};
	struct sml_switch_config config = config_of_test();
	struct talker talkers[4] = {
		{.bytes = "", .n = 0, .each = 1},
		{.bytes = half_hello, .n = sizeof(half_hello), .each = 1},
		{.bytes = long_hello, .n = sizeof(long_hello), .each = 100},
		{.bytes = "", .n = 0, .each = 1}, /* sends a hello, and nothing else */
	};
	struct sml_tls *tls;

	if (!certificates_of_switch(&config))
		skip();
	tls = certificates_of_worker();
	port = client_open_switch(&config);
	for (unsigned i = 0; i < 3; i++)
		open_talker(&talkers[i]);
	talkers[3].since_ms = client_now_ms();
	client_open_tls(&talkers[3].client, "127.0.0.1", port, tls);
	for (unsigned rank = 0; rank < 2; rank++) {
		SmlControl__Join join = client_join_message("unharmed", rank, 2);

		client_open_tls(&members[rank], "127.0.0.1", port, tls);
		client_join(&members[rank], &join);
	}
	clients_begin(members, 2);
	expect_all_ended(talkers, 4);
	for (unsigned i = 0; i < 4; i++)
		client_close(&talkers[i].client);
	expect_unharmed();
	clients_close(members, 2);
	sml_tls_close(tls);
}

/* ---- numbers of connections ---- */

TEST_WITH(the_oldest_stranger_makes_room, NULL, tear_down)
{
	struct sml_switch_config config = config_of_test();
	struct client many[120], other[2];
	unsigned gone = 0;

	config.max_strangers = 20;
	config.greeting_ms = 60000;
	port = client_open_switch(&config);
	start_job();
	for (unsigned i = 0; i < 120; i++)
		client_open(&many[i], "127.0.0.1", port);
	for (int ms = 0; ms < CLIENT_WAIT_MS && gone < 100; ms += 10) {
		usleep(10000);
		gone = 0;
		for (unsigned i = 0; i < 120; i++)
			gone += has_ended(&many[i]);
	}
	assert_int_equal(gone, 100);
	for (unsigned i = 0; i < 120; i++)
		assert_int_equal(has_ended(&many[i]), i < 100);
	/* A rank that joins finds room, and members do not make any. */
	clients_start(other, 2, "127.0.0.1", port, "late");
	clients_close(other, 2);
	assert_true(client_counter(port, "connections-evicted") >= 101);
	clients_close(many, 120);
	expect_unharmed();
}

TESTS_BETWEEN(NULL, certificates_remove)

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control port, under peers whose messages are too long, come too early or are never read. Each
 * case ends with a job that runs unharmed.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/switch_client.h"
#include "support/test.h"
#include "support/unharmed.h"
#include "switchml.h"

static size_t bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

/* 400 halves of the longest messages: 100 MB if all were kept. */
TEST_WITH(half_messages_fill_no_memory, NULL, tear_down)
{
	/* A Join of 258,048 bytes that begins with a report: such a Join may be that long. */
	static unsigned char half[250000] = {0, 3, 0xf0, 0, 10, 0xfc, 0xdf, 15, 0x82, 1};
	const struct rlimit files = {4096, 4096};
	struct sml_switch_config config = config_of_test();
	struct client *many = calloc(400, sizeof(*many));
	size_t sent[400] = {0}, total = 0, before, most = 0;
	unsigned round = 0;

	assert_non_null(many);
	setrlimit(RLIMIT_NOFILE, &files);
	config.greeting_ms = 60000;
	port = client_open_switch(&config);
	start_job();
	before = bytes_in_use();
	for (unsigned i = 0; i < 400; i++)
		client_open(&many[i], "127.0.0.1", port);
	/* If the machine stalls, continue until it is too much for the switch. */
	for (int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS; client_now_ms() < until_ms;
	     round++) {
		if (round >= 100 && client_counter(port, "connections-evicted") > 0)
			break;
		for (unsigned i = 0; i < 400; i++) {
			ssize_t n = send(many[i].tcp, half + sent[i], sizeof(half) - sent[i],
					 MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n > 0)
				sent[i] += (size_t)n;
		}
		if (bytes_in_use() > before + most)
			most = bytes_in_use() - before;
		usleep(10000);
	}
	for (unsigned i = 0; i < 400; i++)
		total += sent[i];
	printf("half messages: %zu MiB sent, %zu MiB in use at most\n", total >> 20, most >> 20);
	assert_true(client_counter(port, "connections-evicted") > 0);
	/* Memory that strangers may hold, libevent's own memory, and one batch of reads. */
	assert_true(most < (110u << 20));
	clients_close(many, 400);
	free(many);
	expect_unharmed();
}

/* Before it joins, a peer may send only a few bytes, and none of a member's messages. */
TEST_WITH(a_stranger_may_only_join_ask_or_ping, NULL, tear_down)
{
	static const unsigned char refused[][5] = {
		{0, 3, 0, 0, 10 << 3 | 2},   /* Abort, announcing 196 KB of stalls */
		{0, 0, 0, 4, 4 << 3 | 2},    /* Ready */
		{0, 0, 0x11, 0, 6 << 3 | 2}, /* Ping of 4,352 bytes */
	};
	struct sml_switch_config config = config_of_test();
	struct client stranger;

	config.greeting_ms = 60000;
	port = client_open_switch(&config);
	start_job();
	for (unsigned i = 0; i < 3; i++) {
		client_open(&stranger, "127.0.0.1", port);
		client_send_bytes(&stranger, refused[i], sizeof(refused[i]));
		client_expect_end(&stranger);
		client_close(&stranger);
	}
	expect_unharmed();
}

/* No rank is asked about its state before there is any. */
TEST_WITH(a_rank_tells_no_mismatch_before_its_job_runs, NULL, tear_down)
{
	static const unsigned char mismatch[] = {0, 0, 0, 7, 0xf2, 1, 4, 0x22, 2, 0, 1};
	struct sml_switch_config config = config_of_test();
	uint32_t data_port = 9;
	struct client ranks[2];

	config.rendezvous = true;
	port = client_open_switch(&config);
	for (unsigned i = 0; i < 2; i++) {
		SmlControl__Join join = client_join_message("meeting", i, 2);

		join.stripe_ports = &data_port;
		join.n_stripe_ports = 1;
		client_open(&ranks[i], "127.0.0.1", port);
		client_join(&ranks[i], &join);
	}
	client_free(client_expect(&ranks[0], SML_CONTROL__ENVELOPE__BODY_ADMITTED));
	client_send_bytes(&ranks[1], mismatch, sizeof(mismatch));
	client_expect_abort(&ranks[0], SML_ERROR_RANK_DIED, "rank 1",
			    "(mismatch) that is not allowed while its job probes", NULL);
	clients_close(ranks, 2);
}

/*
 * The switch's end of a connection, which is in this process. Its kernel buffers become
 * small, so that unsent data shows in the process's memory.
 */
static void shrink_other_end(const struct client *client)
{
	struct sockaddr_in own, peer;
	socklen_t length = sizeof(own);
	int few = 4096, found = 0;

	assert_int_equal(getsockname(client->tcp, (struct sockaddr *)&own, &length), 0);
	for (int fd = 3; fd < 1024; fd++) {
		length = sizeof(peer);
		if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
		    length == sizeof(own) && memcmp(&own, &peer, sizeof(own)) == 0)
			found += setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)) == 0;
	}
	assert_int_equal(found, 1);
}

/* Ranks come and go, and one joined rank never reads who is missing. */
TEST_WITH(who_never_reads_is_not_told_for_ever, NULL, tear_down)
{
	struct sml_switch_config config = config_of_test();
	SmlControl__Join join = client_join_message("deaf", 0, 64);
	int few = 2048;
	struct client deaf, other;
	size_t before, after;

	port = client_open_switch(&config);
	start_job();
	client_open(&deaf, "127.0.0.1", port);
	client_join(&deaf, &join);
	client_free(client_expect(&deaf, SML_CONTROL__ENVELOPE__BODY_WAITING));
	setsockopt(deaf.tcp, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
	shrink_other_end(&deaf);
	before = bytes_in_use();
	for (unsigned i = 0; i < 10000; i++) {
		join.rank = 1;
		client_open(&other, "127.0.0.1", port);
		client_join(&other, &join);
		client_send_empty(&other, SML_CONTROL__ENVELOPE__BODY_LEAVE);
		client_free(client_expect(&other, SML_CONTROL__ENVELOPE__BODY_LEFT));
		client_close(&other);
	}
	after = bytes_in_use();
	printf("deaf: %zd bytes more after 10000 joins\n", (ssize_t)(after - before));
	assert_true(after < before + (200u << 10));
	client_close(&deaf);
	expect_unharmed();
}

TEST_WITH(a_tls_client_is_told_plainly, NULL, tear_down)
{
	static const unsigned char hello[] = {22, 3, 1, 0x02, 0x00, 1, 0, 1, 0xfc, 3, 3};
	struct sml_switch_config config = config_of_test();
	struct client odd;

	port = client_open_switch(&config);
	start_job();
	client_open(&odd, "127.0.0.1", port);
	client_send_bytes(&odd, hello, sizeof(hello));
	client_expect_abort(&odd, SML_ERROR_TLS, "does not accept TLS", NULL);
	client_expect_end(&odd);
	client_close(&odd);
	assert_int_equal(client_counter(port, "connections-refused"), 1);
	expect_unharmed();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A real switch in this process, and workers that are only sockets: the life of a job. */
#include <linux/filter.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/messages.h"
#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

static uint16_t port;

static void set_up(void)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = ":0";
	config.max_slots = 4096;
	config.max_jobs = 64;
	port = client_open_switch(&config);
}

/* ---- the end of a job ---- */

/* Unread data from a peer must not destroy the messages that we have sent to it. */
TEST_WITH(abort_arrives_even_while_the_peer_is_talking, set_up, client_close_switch)
{
	static const unsigned char ping[] = {0, 0, 0, 2, 0x32, 0};
	struct client c[2];

	clients_start(c, 2, "127.0.0.1", port, "talk");
	client_close(&c[0]);
	for (unsigned i = 0; i < 30; i++) {
		/* After the switch has closed its end, this data has no destination. */
		(void)!send(c[1].tcp, ping, sizeof(ping), MSG_NOSIGNAL);
		usleep(10000);
		if (i != 15)
			continue;
		client_expect_abort(&c[1], SML_ERROR_RANK_DIED, "rank 0", NULL);
		client_send(&c[1], message_abort(SML_ERROR_ABORTED, "", true));
	}
	client_expect_end(&c[1]);
	client_close(&c[1]);
}

/* Whatever the host receives for this socket is lost. */
static void lose_all(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog filter = {1, &none};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
}

static in_port_t port_of(int fd, int (*name)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_in6 address = {.sin6_port = 0}; /* where IPv4's is, too */
	socklen_t length = sizeof(address);

	return name(fd, (struct sockaddr *)&address, &length) == 0 ? address.sin6_port : 0;
}

/* How often the switch's host has sent something again to this client; -1: it has closed. */
static int count_resent(const struct client *client)
{
	const in_port_t own = port_of(client->tcp, getsockname);

	for (int fd = 3; fd < 1024; fd++) {
		struct tcp_info info;
		socklen_t length = sizeof(info);

		if (port_of(fd, getpeername) == own &&
		    getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0)
			return (int)info.tcpi_total_retrans;
	}
	return -1;
}

/* The last message is lost so often. */
static void lose_last(const struct client *client, int n_resent)
{
	int n;

	do
		usleep(10000);
	while ((n = count_resent(client)) >= 0 && n < n_resent);
	if (n < 0)
		fail_msg("the switch has closed the connection before all was received");
	assert_int_equal(setsockopt(client->tcp, SOL_SOCKET, SO_DETACH_FILTER, &n, sizeof(n)), 0);
}

/* For longer than a peer usually takes to read it. */
TEST_WITH(a_last_message_that_is_lost_is_sent_again, set_up, client_close_switch)
{
	struct client c;

	clients_start(&c, 1, "127.0.0.1", port, "lossy");
	lose_all(c.tcp);
	client_send_empty(&c, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	lose_last(&c, 4);
	client_free(client_expect(&c, SML_CONTROL__ENVELOPE__BODY_LEFT));
	client_expect_end(&c);
	client_close(&c);
}

/* For less than half of its heartbeat: its own last Pings may be lost, too. */
TEST_WITH(a_last_message_is_sent_again_to_a_rank_that_was_silent, set_up, client_close_switch)
{
	struct client c[2];

	clients_start(c, 2, "127.0.0.1", port, "lossy");
	client_send_empty(&c[1], SML_CONTROL__ENVELOPE__BODY_LEAVE);
	usleep(100000);
	lose_all(c[1].tcp);
	usleep(2500000);
	client_send_empty(&c[0], SML_CONTROL__ENVELOPE__BODY_LEAVE);
	lose_last(&c[1], 4);
	client_free(client_expect(&c[1], SML_CONTROL__ENVELOPE__BODY_LEFT));
	client_close(&c[0]);
	client_close(&c[1]);
}

/* Until the switch closes the connection: how long that takes, in ms. */
static int64_t await_close(const struct client *client)
{
	const int64_t began_ms = client_now_ms();

	while (count_resent(client) >= 0) {
		if (client_now_ms() > began_ms + CLIENT_WAIT_MS)
			fail_msg("the switch keeps the connection");
		usleep(10000);
	}
	return client_now_ms() - began_ms;
}

/* It counts as dead before it was silent for two seconds: that is how long Pings may be apart. */
TEST_WITH(a_rank_with_a_short_heartbeat_that_vanished_is_sent_nothing_for_long, set_up,
	  client_close_switch)
{
	SmlControl__Join join = client_join_message("short", 0, 2);
	struct client c;

	join.heartbeat_ms = 1000;
	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_free(client_expect(&c, SML_CONTROL__ENVELOPE__BODY_WAITING));
	lose_all(c.tcp);
	assert_true(await_close(&c) < 9500);
	client_close(&c);
}

/* It says nothing between two jobs, but its host does. The others' heartbeat is a minute. */
TEST_WITH(a_survivor_whose_host_vanishes_is_missed_after_its_heartbeat, set_up, client_close_switch)
{
	SmlControl__Join join = client_join_message("survivors", 0, 3);
	struct client c[3];

	for (; join.rank < 3; join.rank++) {
		join.heartbeat_ms = join.rank == 2 ? 4000 : 60000;
		client_open(&c[join.rank], "127.0.0.1", port);
		client_join(&c[join.rank], &join);
	}
	clients_begin(c, 3);
	client_close(&c[0]);
	for (unsigned i = 1; i < 3; i++)
		client_expect_abort(&c[i], SML_ERROR_RANK_DIED, "rank 0", NULL);
	lose_all(c[2].tcp);
	(void)await_close(&c[2]);
	assert_true(count_resent(&c[1]) >= 0);
	clients_close(&c[1], 2);
}

static void *close_switch(void *unused)
{
	client_close_switch();
	return unused;
}

/* Rank 0's own switch ends when all have left. */
TEST_WITH(a_switch_that_stops_sends_again_what_is_lost, set_up, client_close_switch)
{
	pthread_t thread;
	struct client c;

	clients_start(&c, 1, "127.0.0.1", port, "lossy");
	lose_all(c.tcp);
	assert_int_equal(pthread_create(&thread, NULL, close_switch, NULL), 0);
	lose_last(&c, 2);
	pthread_join(thread, NULL);
	client_expect_abort(&c, SML_ERROR_SWITCH_DIED, "stopped", NULL);
	client_expect_end(&c);
	client_close(&c);
}

/* ---- status ---- */

TEST_WITH(status_shows_jobs_workers_and_counters, set_up, client_close_switch)
{
	struct client c[2];
	SmlControl__Envelope *message;
	const SmlControl__JobStatus *job;

	clients_start(c, 2, "127.0.0.1", port, "status");
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[1], 4, 0, 8, 2);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[1], 4, 0, 8, 2);
	message = client_status("::1", port);
	assert_string_equal(message->status->dataplane, "udp");
	assert_int_equal(message->status->slots_in_use, 20);
	assert_int_equal(message->status->n_jobs, 1);
	job = message->status->jobs[0];
	assert_string_equal(job->job, "status");
	assert_string_equal(job->state, "running");
	assert_int_equal(job->world_size, 2);
	assert_int_equal(job->n_workers, 2);
	assert_string_equal(job->workers[1]->host, "testhost");
	assert_int_equal(job->workers[0]->contributions, 1);
	assert_int_equal(job->workers[1]->contributions, 1);
	assert_int_equal(job->workers[1]->resends, 1);
	client_free(message);
	clients_close(c, 2);
}

/* ---- hostile control connections ---- */

/* Answers that nobody reads must not fill the memory: 120,000 would take over 60 MB. */
TEST_WITH(questions_without_reading_are_not_answered_for_ever, set_up, client_close_switch)
{
	size_t before = mallinfo2().uordblks;
	unsigned char questions[600 * 6], answers[65536];
	struct client flood, other[2];
	size_t total = 0;
	ssize_t got;

	for (size_t i = 0; i < sizeof(questions); i += 6)
		memcpy(questions + i, "\0\0\0\2\x6a\0", 6);
	client_open(&flood, "127.0.0.1", port);
	for (unsigned i = 0; i < 200; i++)
		client_send_bytes(&flood, questions, sizeof(questions));
	/* Other peers are served meanwhile. */
	clients_start(other, 2, "127.0.0.1", port, "flooded");
	clients_close(other, 2);
	assert_true(mallinfo2().uordblks < before + (4u << 20));
	shutdown(flood.tcp, SHUT_WR);
	while ((got = recv(flood.tcp, answers, sizeof(answers), 0)) > 0)
		total += (size_t)got;
	assert_true(total > 0);
	client_close(&flood);
}

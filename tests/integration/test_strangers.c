/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control port, under peers that connect and never join: slow, half-open, greedy, many.
 * Each case ends with a job that runs unharmed. With the openssl command and TLS built in,
 * it also tests handshakes.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

/* Longer than a busy machine stalls between connecting and joining. */
#define GREETING_MS 3000

static uint16_t port;
static struct client members[2];

static struct sml_switch_config config_of_test(void)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.greeting_ms = GREETING_MS;
	return config;
}

static int tear_down(void **state)
{
	clients_close(members, 2);
	return client_close_switch(state);
}

static void start_job(void)
{
	clients_start(members, 2, "127.0.0.1", port, "unharmed");
}

static void expect_unharmed(void)
{
	for (uint32_t rank = 0; rank < 2; rank++)
		client_contribute(&members[rank], 4, 0, 8, 3);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_result(&members[rank], 4, 0, 8, 6);
}

static size_t bytes_in_use(void)
{
	return mallinfo2().uordblks;
}

/* Has the switch closed this connection? Does not wait. Drops what the switch sends. */
static bool has_ended(const struct client *client)
{
	unsigned char ignored[4096];
	ssize_t n;

	do
		n = recv(client->tcp, ignored, sizeof(ignored), MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

static void push_bytes(const struct client *client, const void *bytes, size_t n)
{
	(void)!send(client->tcp, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- few descriptors: these tests fork, so they come first, while there are no threads ---- */

static void end_poor_switch(pid_t pid)
{
	clients_close(members, 2);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/*
 * A child process with few descriptors. Returns its pid; its port is known. It is an application
 * that does more once it serves.
 */
static pid_t start_poor_application(void (*does_more)(void))
{
	struct sml_switch_config config = config_of_test();
	const struct rlimit few = {48, 48};
	int fds[2];
	pid_t pid;

	config.greeting_ms = 60000;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setrlimit(RLIMIT_NOFILE, &few);
		port = client_open_switch(&config);
		if (write(fds[1], &port, sizeof(port)) != sizeof(port))
			_exit(1);
		does_more();
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
	close(fds[0]);
	return pid;
}

static void do_nothing(void)
{
}

static pid_t start_poor_switch(void)
{
	return start_poor_application(do_nothing);
}

TEST_WITH(few_descriptors_are_enough, NULL, tear_down)
{
	struct client many[200];
	pid_t poor = start_poor_switch();

	for (unsigned i = 0; i < 200; i++)
		client_open(&many[i], "127.0.0.1", port);
	start_job();
	expect_unharmed();
	clients_close(many, 200);
	end_poor_switch(poor);
}

/*
 * All connections that came while the switch could not look are accepted at once. None may
 * delay another.
 */
TEST_WITH(who_comes_last_in_a_crowd_joins, NULL, tear_down)
{
	struct client many[100];
	pid_t poor = start_poor_switch();

	for (unsigned before = 60; before <= 100; before++) {
		kill(poor, SIGSTOP);
		assert_int_equal(waitpid(poor, NULL, WUNTRACED), poor);
		for (unsigned i = 0; i < before; i++)
			client_open(&many[i], "127.0.0.1", port);
		clients_join(members, 2, "127.0.0.1", port, "last");
		kill(poor, SIGCONT);
		clients_begin(members, 2);
		expect_unharmed();
		clients_close(many, before);
		clients_close(members, 2);
	}
	end_poor_switch(poor);
}

static int log_of_child[2], orders[2];

static void give_order(void)
{
	assert_int_equal(write(orders[1], "", 1), 1);
}

static void await_order(void)
{
	char order;

	if (read(orders[0], &order, 1) != 1)
		_exit(1);
}

/* It takes all descriptors, says so, and gives them back when it is told to. */
static void take_all_descriptors(void)
{
	int taken[64], n = 0;

	dup2(log_of_child[1], STDERR_FILENO);
	while (n < 64 && (taken[n] = dup(STDERR_FILENO)) >= 0)
		n++;
	if (write(STDERR_FILENO, "none is left\n", 13) < 0)
		_exit(1);
	await_order();
	while (n > 0)
		close(taken[--n]);
}

/* The log up to the end of a line that has this part. */
static void read_log_until(const char *part, char *text, size_t bytes)
{
	size_t n = strlen(text);

	while (strstr(text, part) == NULL || text[n - 1] != '\n') {
		struct pollfd ready = {.fd = log_of_child[0], .events = POLLIN};
		ssize_t more;

		if (poll(&ready, 1, CLIENT_WAIT_MS) != 1)
			fail_msg("the log does not say \"%s\", but: %s", part, text);
		more = read(log_of_child[0], text + n, bytes - 1 - n);
		assert_true(more > 0);
		n += (size_t)more;
		text[n] = '\0';
	}
}

TEST_WITH(a_switch_that_has_no_descriptors_left_says_so_once, NULL, tear_down)
{
	char log[4096] = "";
	pid_t poor;

	assert_int_equal(pipe(log_of_child), 0);
	assert_int_equal(pipe(orders), 0);
	poor = start_poor_application(take_all_descriptors);
	close(log_of_child[1]);
	read_log_until("none is left", log, sizeof(log));
	clients_join(members, 2, "127.0.0.1", port, "poor");
	read_log_until("a connection cannot be accepted: Too many open files. The limit of "
		       "descriptors is 48: raise it (ulimit -n; LimitNOFILE= of a service)",
		       log, sizeof(log));
	give_order();
	/* Those that waited are served now. */
	clients_begin(members, 2);
	expect_unharmed();
	end_poor_switch(poor);
	for (ssize_t n; (n = read(log_of_child[0], log, sizeof(log) - 1)) > 0;) {
		log[n] = '\0';
		assert_null(strstr(log, "cannot be accepted"));
	}
	close(log_of_child[0]);
	close(orders[0]);
	close(orders[1]);
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
	struct talker talkers[6] = {
		{.bytes = "", .n = 0, .each = 1},			  /* silent */
		{.bytes = ping, .n = sizeof(ping), .each = sizeof(ping)}, /* sends whole messages */
		{.bytes = question, .n = sizeof(question), .each = sizeof(question)},
		{.bytes = longest, .n = sizeof(longest), .each = 1}, /* one byte at a time */
		{.bytes = longest,
		 .n = sizeof(longest) - 1,
		 .each = 8192}, /* never a whole message */
		{.bytes = ping, .n = sizeof(ping), .each = sizeof(ping)},
	};

	port = client_open_switch(&config);
	start_job();
	for (unsigned i = 0; i < 5; i++)
		open_talker(&talkers[i]);
	talkers[5].since_ms = client_now_ms();
	/* One peer was a member, and continues to talk. */
	clients_start(&talkers[5].client, 1, "127.0.0.1", port, "before");
	client_send_empty(&talkers[5].client, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	client_free(client_expect(&talkers[5].client, SML_CONTROL__ENVELOPE__BODY_LEFT));
	expect_all_ended(talkers, 6);
	for (unsigned i = 0; i < 6; i++)
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

/* ---- bytes ---- */

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

TEST_WITH(a_member_says_no_long_messages, NULL, tear_down)
{
	static const unsigned char too_long[] = {0, 0, 0x50, 0, 10 << 3 | 2}; /* Abort */
	struct sml_switch_config config = config_of_test();

	port = client_open_switch(&config);
	start_job();
	client_send_bytes(&members[1], too_long, sizeof(too_long));
	client_expect_abort(&members[0], SML_ERROR_RANK_DIED, "rank 1",
			    "a control message (abort) that is too long", NULL);
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

/* 4 KiB of a Join without a report. The switch never reads the rest. */
TEST_WITH(a_join_is_long_only_if_it_resumes, NULL, tear_down)
{
	static unsigned char join[4 + 5000] = {0, 0, 0x20, 0, 10, 0xfd, 63, 0x1a, 0xfa, 63};
	struct sml_switch_config config = config_of_test();
	struct client stranger;

	config.greeting_ms = 60000;
	port = client_open_switch(&config);
	start_job();
	client_open(&stranger, "127.0.0.1", port);
	client_send_bytes(&stranger, join, sizeof(join));
	client_expect_end(&stranger);
	client_close(&stranger);
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

/* The switch has read the earlier bytes, because it has answered the later ones. */
static void expect_no_end(const struct client *client)
{
	for (unsigned i = 0; i < 2; i++)
		client_free(client_status("127.0.0.1", port));
	assert_false(has_ended(client));
}

/* If ranks have the slots, each reports to rank 0 what its slots wait for: up to 128 KiB. */
TEST_WITH(but_reports_of_slots_where_ranks_have_them, NULL, tear_down)
{
	static const unsigned char report[] = {0, 1, 0x54, 0, 0x92, 1},
				   too_long[] = {0, 2, 0x10, 0, 0x92, 1};
	struct sml_switch_config config = config_of_test();
	SmlControl__Join join = client_join_message("meeting", 0, 1);
	uint32_t data_port = 9;
	struct client rank;

	config.rendezvous = true;
	port = client_open_switch(&config);
	for (unsigned i = 0; i < 2; i++) {
		client_open(&rank, "127.0.0.1", port);
		join.stripe_ports = &data_port;
		join.n_stripe_ports = 1;
		client_join(&rank, &join);
		client_free(client_expect(&rank, SML_CONTROL__ENVELOPE__BODY_ADMITTED));
		rank.lanes = 352;
		client_ready(&rank);
		client_free(client_expect(&rank, SML_CONTROL__ENVELOPE__BODY_START));
		client_send_bytes(&rank, i == 0 ? report : too_long, sizeof(report));
		if (i == 0)
			expect_no_end(&rank);
		else
			client_expect_end(&rank);
		client_close(&rank);
	}
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

/* ---- peers that make mistakes ---- */

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

int main(void)
{
	return test_run(NULL, certificates_remove);
}

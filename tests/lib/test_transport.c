/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results of slots in this process, through the transport table: over UDP sockets of this
 * host, with and without faults. Needs a loopback.
 */
#include "lib/transport/transport.h"
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net/udp_options.h"

#define N_PEERS	  3
#define N_RESULTS 200
#define BYTES	  256

/* Peer 0 sends, and every peer listens. */
static struct {
	struct sml_interface interface;
	union sml_sockaddr peers[SML_MAX_CHILDREN];
	struct sml_log log;
	struct sml_transport *transports[N_PEERS];
} net;

static void open_one(uint8_t i)
{
	const struct sml_transport_config config = {
		.interface = &net.interface,
		.peer = {.v4 = {.sin_family = AF_INET}},
		.peers = net.peers,
		.own = i,
		.log = &net.log,
	};

	assert_int_equal(sml_transport_udp.open(&net.transports[i], &config), 0);
	net.peers[i].v4 = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(net.transports[i]->port),
		.sin_addr = {htonl(INADDR_LOOPBACK)},
	};
}

static void open_net(const struct sml_faults *faults)
{
	struct sml_transport *faulty;

	net.log = (struct sml_log){.level = SML_LOG_ERROR};
	for (uint8_t i = 0; i < N_PEERS; i++)
		open_one(i);
	if (faults == NULL)
		return;
	faulty = sml_faults_wrap(net.transports[0], faults, 1);
	assert_non_null(faulty);
	net.transports[0] = faulty;
}

static void close_net(void)
{
	for (unsigned i = 0; i < N_PEERS; i++)
		net.transports[i]->ops->close(net.transports[i]);
}

/* ---- a kernel without segmentation ---- */

static bool refuses_segments;

static bool is_refused(const struct msghdr *message)
{
	struct msghdr copy = *message;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c != NULL; c = CMSG_NXTHDR(&copy, c))
		if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT)
			return refuses_segments;
	return false;
}

/* Replaces libc's function. */
int sendmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags)
{
	unsigned first = 0;

	while (first < n && !is_refused(&messages[first].msg_hdr))
		first++;
	if (first > 0 || n == 0)
		return (int)syscall(SYS_sendmmsg, fd, messages, first, flags);
	errno = EIO;
	return -1;
}

/* ---- what arrives ---- */

/* Packets that arrive at a peer, until none has come for a while. `seen` counts each result. */
static unsigned receive_all(unsigned peer, unsigned seen[N_RESULTS])
{
	static struct sml_packet packets[SML_RECEIVE_PACKETS];
	struct sml_transport *transport = net.transports[peer];
	struct pollfd ready = {.fd = transport->poll_fd, .events = POLLIN};
	unsigned n_all = 0;

	memset(seen, 0, N_RESULTS * sizeof(seen[0]));
	while (poll(&ready, 1, 200) > 0) {
		unsigned n = transport->ops->receive(transport, packets);

		for (unsigned i = 0; i < n; i++) {
			uint32_t number;

			assert_int_equal(packets[i].length, BYTES);
			memcpy(&number, packets[i].bytes, sizeof(number));
			assert_true(number < N_RESULTS);
			seen[number]++;
		}
		n_all += n;
	}
	return n_all;
}

/* All results to all other peers, some at a time. */
static void send_all(void)
{
	static uint32_t results[N_RESULTS][BYTES / 4];
	struct sml_transport *transport = net.transports[0];
	struct iovec packets[SML_RESULTS_AT_ONCE];
	unsigned n = 0;

	for (uint32_t i = 0; i < N_RESULTS; i++) {
		results[i][0] = i;
		packets[n++] = (struct iovec){results[i], BYTES};
		if (n < 50 && i + 1 < N_RESULTS)
			continue;
		transport->ops->send_results(transport, packets, n, 1u << 1 | 1u << 2);
		n = 0;
	}
}

TEST_WITH(results_reach_the_peers_that_they_are_for, NULL, close_net)
{
	unsigned seen[N_RESULTS];
	uint32_t one[BYTES / 4] = {7};
	const struct iovec packet = {one, BYTES};

	open_net(NULL);
	send_all();
	for (unsigned peer = 1; peer < N_PEERS; peer++) {
		assert_int_equal(receive_all(peer, seen), N_RESULTS);
		for (unsigned i = 0; i < N_RESULTS; i++)
			assert_int_equal(seen[i], 1);
	}
	assert_int_equal(receive_all(0, seen), 0);
	net.transports[0]->ops->send_results(net.transports[0], &packet, 1, 1u << 2);
	assert_int_equal(receive_all(1, seen), 0);
	assert_int_equal(receive_all(2, seen), 1);
	assert_int_equal(seen[7], 1);
}

/* Standard error goes to a file until its content is read. */
static int divert_stderr(FILE *to)
{
	int saved = dup(STDERR_FILENO);

	assert_true(saved >= 0);
	assert_int_equal(dup2(fileno(to), STDERR_FILENO), STDERR_FILENO);
	return saved;
}

static void restore_stderr(int saved, FILE *from, char *text, size_t bytes)
{
	size_t n;

	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	rewind(from);
	n = fread(text, 1, bytes - 1, from);
	text[n] = '\0';
	fclose(from);
}

/* A batch of equal packets for peer 1, numbered from 0. */
static void send_batch(unsigned n)
{
	static _Alignas(64) uint8_t bytes[SML_BATCH_BYTES];
	struct sml_batch batch = {.bytes = bytes};

	for (uint32_t i = 0; i < n; i++) {
		memset(sml_batch_next(&batch), 0, BYTES);
		memcpy(sml_batch_next(&batch), &i, sizeof(i));
		sml_batch_add(&batch, BYTES, 1);
	}
	assert_int_equal(net.transports[0]->ops->send(net.transports[0], &batch), n);
	assert_int_equal(batch.first, n);
}

TEST_WITH(refused_super_packets_leave_one_by_one_and_the_rank_says_so, NULL, close_net)
{
	unsigned seen[N_RESULTS];
	char text[4096], *told;
	FILE *file = tmpfile();
	int saved;

	assert_non_null(file);
	open_net(NULL);
	net.log = (struct sml_log){.level = SML_LOG_INFO, .rank = 2};
	saved = divert_stderr(file);
	refuses_segments = true;
	send_all();
	send_batch(40);
	refuses_segments = false;
	restore_stderr(saved, file, text, sizeof(text));
	assert_int_equal(receive_all(1, seen), N_RESULTS + 40);
	for (unsigned i = 0; i < N_RESULTS; i++)
		assert_int_equal(seen[i], i < 40 ? 2 : 1);
	assert_int_equal(receive_all(2, seen), N_RESULTS);
	told = strstr(text, "switchml[rank 2]: ");
	assert_non_null(told);
	assert_non_null(strstr(told, "segment"));
	assert_null(strstr(told + 1, "switchml"));
	assert_null(strstr(text, "switchml switch"));
}

TEST_WITH(faults_drop_results, NULL, close_net)
{
	const struct sml_faults all = {.drop = 1000000}, half = {.drop = 500000, .seed = 3};
	unsigned seen[N_RESULTS], n;

	open_net(&all);
	send_all();
	assert_int_equal(receive_all(1, seen), 0);
	assert_int_equal(receive_all(2, seen), 0);
	close_net();

	open_net(&half);
	send_all();
	for (unsigned peer = 1; peer < N_PEERS; peer++) {
		n = receive_all(peer, seen);
		assert_in_range(n, N_RESULTS / 4, N_RESULTS * 3 / 4);
	}
}

TEST_WITH(faults_double_results, NULL, close_net)
{
	const struct sml_faults faults = {.duplicate = 1000000};
	unsigned seen[N_RESULTS];

	open_net(&faults);
	send_all();
	for (unsigned peer = 1; peer < N_PEERS; peer++) {
		assert_int_equal(receive_all(peer, seen), 2 * N_RESULTS);
		for (unsigned i = 0; i < N_RESULTS; i++)
			assert_int_equal(seen[i], 2);
	}
}

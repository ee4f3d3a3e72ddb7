/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker reduced to its two sockets: see switch_client.h. */
#include "support/switch_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "control/envelope.h"
#include "support/messages.h"
#include "support/packet.h"

int64_t client_now_ms(void)
{
	return (int64_t)(sml_now_ns() / SML_NS_PER_MS);
}

static int connect_to(const char *address, uint16_t port, int type)
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	bool is_v6 = inet_pton(AF_INET6, address, &v6.sin6_addr) == 1;
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_true(is_v6 || inet_pton(AF_INET, address, &v4.sin_addr) == 1);
	assert_int_equal(connect(fd, is_v6 ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4,
				 is_v6 ? sizeof(v6) : sizeof(v4)),
			 0);
	return fd;
}

/* ---- control ---- */

static void flush(struct client *client)
{
	struct evbuffer *out = client->stream.wire_out;
	size_t n = evbuffer_get_length(out);

	if (n > 0)
		client_send_bytes(client, evbuffer_pullup(out, -1), n);
	evbuffer_drain(out, n);
}

static void step(struct client *client)
{
	if (sml_stream_step(&client->stream) < 0)
		fail_msg("TLS: %s", sml_stream_tls_reason(&client->stream));
	flush(client);
}

/* Like evbuffer_read(), for messages. */
static int read_some(struct client *client)
{
	int n = evbuffer_read(client->stream.wire_in, client->tcp, 65536);

	if (n > 0)
		step(client);
	return n;
}

static void shake_hands(struct client *client)
{
	struct pollfd fd = {.fd = client->tcp, .events = POLLIN};

	while (!sml_stream_is_known(&client->stream)) {
		assert_int_equal(poll(&fd, 1, CLIENT_WAIT_MS), 1);
		assert_true(read_some(client) > 0);
	}
}

void client_open_tls(struct client *client, const char *address, uint16_t port, struct sml_tls *tls)
{
	int one = 1;

	*client = (struct client){.udp = -1, .address = address, .port = port};
	client->tcp = connect_to(address, port, SOCK_STREAM);
	/* As in the library: two messages in a row must not wait for each other. */
	setsockopt(client->tcp, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	assert_int_equal(sml_stream_open(&client->stream, tls, address), 0);
	step(client);
}

void client_open(struct client *client, const char *address, uint16_t port)
{
	client_open_tls(client, address, port, NULL);
}

void client_close(struct client *client)
{
	if (client->tcp >= 0)
		close(client->tcp);
	if (client->udp >= 0)
		close(client->udp);
	sml_stream_close(&client->stream);
	*client = (struct client){.tcp = -1, .udp = -1};
}

SmlControl__Join client_join_message(const char *job, uint32_t rank, uint32_t world_size)
{
	SmlControl__Join join = honest_join(job, rank, world_size);

	join.head_slots = 4;
	join.data_slots = 16;
	return join;
}

void client_send_bytes(struct client *client, const void *bytes, size_t n)
{
	assert_int_equal(send(client->tcp, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

void client_send(struct client *client, const SmlControl__Envelope *message)
{
	shake_hands(client);
	assert_int_equal(sml_stream_write(&client->stream, message), 0);
	flush(client);
}

void client_send_empty(struct client *client, SmlControl__Envelope__BodyCase body)
{
	client_send(client, message_without_fields(body, 0));
}

void client_join(struct client *client, const SmlControl__Join *join)
{
	client->rank = (uint8_t)join->rank;
	client_send(client, sml_envelope(JOIN, join, (SmlControl__Join *)(uintptr_t)join));
}

/* 1: a message; 0: the end or a timeout (*ended says which). */
static int next_message(struct client *client, int64_t until_ms, SmlControl__Envelope **message,
			bool *ended)
{
	struct pollfd fd = {.fd = client->tcp, .events = POLLIN};
	int rc;

	*ended = false;
	while ((rc = sml_frame_read(client->stream.in, message)) == 0) {
		int64_t left = until_ms - client_now_ms();

		if (left <= 0 || poll(&fd, 1, (int)left) <= 0)
			return 0;
		if (read_some(client) <= 0) {
			*ended = true;
			return 0;
		}
	}
	assert_int_equal(rc, 1);
	return 1;
}

static bool is_chatter(const SmlControl__Envelope *message)
{
	return message->body_case == SML_CONTROL__ENVELOPE__BODY_WAITING ||
	       message->body_case == SML_CONTROL__ENVELOPE__BODY_PONG;
}

SmlControl__Envelope *client_expect(struct client *client, SmlControl__Envelope__BodyCase body)
{
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;
	SmlControl__Envelope *message;
	bool ended;

	while (next_message(client, until_ms, &message, &ended)) {
		if (message->body_case == body)
			return message;
		if (!is_chatter(message))
			fail_msg("message %d came, not %d: %s", (int)message->body_case, (int)body,
				 message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT
					 ? message->abort->text
					 : "");
		client_free(message);
	}
	fail_msg("message %d never came (%s)", (int)body, ended ? "closed" : "time is up");
	return NULL;
}

SmlControl__Envelope *client_next(struct client *client)
{
	SmlControl__Envelope *message;
	bool ended;

	return next_message(client, client_now_ms() + CLIENT_WAIT_MS, &message, &ended) ? message
											: NULL;
}

void client_free(SmlControl__Envelope *message)
{
	sml_control__envelope__free_unpacked(message, NULL);
}

void client_expect_abort(struct client *client, int error, ...)
{
	SmlControl__Envelope *message = client_expect(client, SML_CONTROL__ENVELOPE__BODY_ABORT);
	const char *word;
	va_list words;

	assert_int_equal(message->abort->error, error);
	va_start(words, error);
	while ((word = va_arg(words, const char *)) != NULL)
		if (strstr(message->abort->text, word) == NULL)
			fail_msg("no '%s' in: %s", word, message->abort->text);
	va_end(words);
	client_free(message);
}

void client_expect_end(struct client *client)
{
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;
	SmlControl__Envelope *message;
	bool ended;

	while (next_message(client, until_ms, &message, &ended))
		client_free(message);
	assert_true(ended);
}

/* Answers come in the order of the questions. */
void client_expect_silence(struct client *client)
{
	client_send_empty(client, SML_CONTROL__ENVELOPE__BODY_PING);
	client_free(client_expect(client, SML_CONTROL__ENVELOPE__BODY_PONG));
}

SmlControl__Envelope *client_status(const char *address, uint16_t port)
{
	SmlControl__Envelope *message;
	struct client client;

	client_open(&client, address, port);
	client_send_empty(&client, SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST);
	message = client_expect(&client, SML_CONTROL__ENVELOPE__BODY_STATUS);
	client_close(&client);
	return message;
}

uint64_t client_counter(uint16_t port, const char *name)
{
	SmlControl__Envelope *message = client_status("127.0.0.1", port);
	const SmlControl__Status *status = message->status;
	uint64_t value = UINT64_MAX;

	for (size_t i = 0; i < status->n_counters; i++)
		if (strcmp(status->counters[i]->name, name) == 0)
			value = status->counters[i]->value;
	client_free(message);
	assert_true(value != UINT64_MAX);
	return value;
}

void client_wait_for_counter(uint16_t port, const char *name, uint64_t value)
{
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;

	while (client_counter(port, name) < value && client_now_ms() < until_ms)
		usleep(1000);
	assert_int_equal(client_counter(port, name), value);
}

/* ---- data ---- */

void client_admitted(struct client *client)
{
	SmlControl__Envelope *message = client_expect(client, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	const SmlControl__Admitted *admitted = message->admitted;

	client->cookie = admitted->cookie;
	client->tag = admitted->tag;
	client->job_number = admitted->job_number;
	client->epoch = admitted->epoch;
	client->window_packets = admitted->window_packets;
	client->data_port = (uint16_t)admitted->data_port;
	client->head_slots = (uint16_t)admitted->head_slots;
	client->data_slots = (uint16_t)admitted->data_slots;
	client->lanes = (uint16_t)admitted->lanes;
	client->shards = (uint8_t)admitted->shards;
	client_free(message);
	client->udp = connect_to(client->address, client->data_port, SOCK_DGRAM);
}

uint32_t client_packet(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value, struct packet *packet)
{
	packet->header = packet_header(SML_PACKET_CONTRIBUTION, client->job_number, client->epoch,
				       client->cookie, lanes);
	packet->header.use_be = sml_be32(use);
	packet->header.chunk_be = sml_be32(slot);
	packet->header.digest_be = sml_be32(7);
	packet->header.slot_be = sml_be16(slot);
	packet->header.rank = client->rank;
	packet->header.shard = (uint8_t)(slot % client->shards);
	for (uint32_t i = 0; i < lanes; i++)
		packet->lanes_be[i] = sml_be32((uint32_t)value);
	return SML_HEADER_BYTES + 4u * lanes;
}

void client_send_packet(const struct client *client, const void *packet, uint32_t length)
{
	assert_int_equal(send(client->udp, packet, length, 0), (ssize_t)length);
}

void client_contribute(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value)
{
	struct packet packet;

	client_send_packet(client, &packet,
			   client_packet(client, slot, use, lanes, value, &packet));
}

uint32_t client_receive(const struct client *client, struct packet *packet, int ms)
{
	struct pollfd fd = {.fd = client->udp, .events = POLLIN};
	ssize_t length;

	/* A packet that does not come has no header. */
	packet->header = (struct sml_header){.magic_be = 0};
	if (poll(&fd, 1, ms) <= 0)
		return 0;
	length = recv(client->udp, packet, sizeof(*packet), 0);
	assert_true(length > 0);
	return (uint32_t)length;
}

void client_probe(struct client *client, uint8_t shard, uint16_t lanes)
{
	struct packet probe, reply;
	uint32_t length = client_packet(client, 0, 0, lanes, 0, &probe);

	probe.header.kind = SML_PACKET_PROBE;
	probe.header.shard = shard;
	client_send_packet(client, &probe, length);
	assert_int_equal(client_receive(client, &reply, CLIENT_WAIT_MS), length);
	assert_int_equal(reply.header.kind, SML_PACKET_PROBE_REPLY);
	assert_true(reply.header.key_be == sml_be64(client->tag));
	assert_int_equal(reply.header.shard, shard);
}

void client_ready(struct client *client)
{
	client_send(client, message_ready(client->lanes, false, 0));
}

void client_started(struct client *client)
{
	SmlControl__Envelope *message = client_expect(client, SML_CONTROL__ENVELOPE__BODY_START);

	client->lanes = (uint16_t)message->start->lanes;
	client_free(message);
}

uint32_t client_expect_result(const struct client *client, uint16_t slot, uint32_t use,
			      uint16_t lanes, int32_t value)
{
	struct packet packet;

	assert_int_equal(client_receive(client, &packet, CLIENT_WAIT_MS),
			 SML_HEADER_BYTES + 4u * lanes);
	assert_int_equal(packet.header.kind, SML_PACKET_RESULT);
	assert_true(packet.header.key_be == sml_be64(client->tag));
	assert_int_equal(sml_be16(packet.header.slot_be), slot);
	assert_int_equal(sml_be32(packet.header.use_be), use);
	for (uint32_t i = 0; i < lanes; i++)
		assert_int_equal((int32_t)sml_be32(packet.lanes_be[i]), value);
	return sml_be32(packet.header.chunk_be);
}

void clients_join_as(struct client *clients, uint32_t n, const char *address, uint16_t port,
		     const SmlControl__Join *rank_0)
{
	SmlControl__Join join = *rank_0;

	for (; join.rank < n; join.rank++, join.pid++) {
		client_open(&clients[join.rank], address, port);
		client_join(&clients[join.rank], &join);
	}
}

void clients_join(struct client *clients, uint32_t n, const char *address, uint16_t port,
		  const char *job)
{
	SmlControl__Join join = client_join_message(job, 0, n);

	clients_join_as(clients, n, address, port, &join);
}

void clients_begin(struct client *clients, uint32_t n)
{
	for (uint32_t rank = 0; rank < n; rank++) {
		client_admitted(&clients[rank]);
		for (uint8_t shard = 0; shard < clients[rank].shards; shard++)
			client_probe(&clients[rank], shard, clients[rank].lanes);
		client_ready(&clients[rank]);
	}
	for (uint32_t rank = 0; rank < n; rank++)
		client_started(&clients[rank]);
}

void clients_start(struct client *clients, uint32_t n, const char *address, uint16_t port,
		   const char *job)
{
	clients_join(clients, n, address, port, job);
	clients_begin(clients, n);
}

void clients_close(struct client *clients, uint32_t n)
{
	for (uint32_t rank = 0; rank < n; rank++)
		client_close(&clients[rank]);
}

/* ---- a switch for the clients ---- */

static struct sml_switch *running;

uint16_t client_open_switch(const struct sml_switch_config *config)
{
	struct sml_switch *opened;

	assert_null(running);
	if (sml_switch_open(&opened, config) < 0)
		fail_msg("%s", sml_error_last());
	running = opened;
	return sml_switch_port(running);
}

void client_close_switch(void)
{
	sml_switch_close(running);
	running = NULL;
}

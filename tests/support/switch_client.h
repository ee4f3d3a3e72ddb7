/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker reduced to its two sockets: tests use it to send bytes to a switch without the
 * library in between. Every wait is bounded. Any failure in here fails the test.
 */
#ifndef SML_TESTS_SWITCH_CLIENT_H
#define SML_TESTS_SWITCH_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/stream.h"
#include "core/wire.h"
#include "switch/switch.h"

/* Timeout for expected events: longer than a busy machine stalls. */
#define CLIENT_WAIT_MS 20000

struct client {
	int tcp, udp;
	struct sml_stream stream;
	const char *address;
	/* The contents of Admitted. */
	uint64_t cookie, tag;
	uint32_t job_number, epoch, window_packets;
	uint16_t port, data_port, head_slots, data_slots, lanes;
	uint8_t rank, shards;
};

struct packet {
	struct sml_header header;
	uint32_t lanes_be[SML_MAX_LANES];
};

/* ---- control ---- */

void client_open(struct client *client, const char *address, uint16_t port);
void client_close(struct client *client);

/* With TLS: the handshake has begun. */
void client_open_tls(struct client *client, const char *address, uint16_t port,
		     struct sml_tls *tls);

/* A Join that a switch accepts; change the field that a test is about. */
SmlControl__Join client_join_message(const char *job, uint32_t rank, uint32_t world_size);
void client_join(struct client *client, const SmlControl__Join *join);

void client_send_bytes(struct client *client, const void *bytes, size_t n);
void client_send(struct client *client, const SmlControl__Envelope *message);
void client_send_empty(struct client *client, SmlControl__Envelope__BodyCase body);

/*
 * The next message with this body. Skips Waiting and Pong unless asked for; any other
 * message fails the test. Free it with client_free().
 */
SmlControl__Envelope *client_expect(struct client *client, SmlControl__Envelope__BodyCase body);
/* Any message; NULL when none comes. */
SmlControl__Envelope *client_next(struct client *client);
void client_free(SmlControl__Envelope *message);

/* Expect an Abort with this error, whose text has all these words (the last one is NULL). */
void client_expect_abort(struct client *client, int error, ...);

/* Expect that the switch closes the connection, after any messages. */
void client_expect_end(struct client *client);

/* Everything that this client has sent is handled, and nothing but Waiting and Pong came back. */
void client_expect_silence(struct client *client);

/* The sum of one of the switch's counters, or the status itself. */
SmlControl__Envelope *client_status(const char *address, uint16_t port);
uint64_t client_counter(uint16_t port, const char *name);
/* UDP packets are on their way: wait until the switch has counted this many, and no more. */
void client_wait_for_counter(uint16_t port, const char *name, uint64_t value);

int64_t client_now_ms(void);

/* ---- data ---- */

/* Admitted, probes on one socket for all shards, Ready. */
void client_admitted(struct client *client);
void client_probe(struct client *client, uint8_t shard, uint16_t lanes);
void client_ready(struct client *client);
void client_started(struct client *client);

/* A contribution of this client: SUM of int32, with every lane `value`. Returns its length. */
uint32_t client_packet(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value, struct packet *packet);
void client_send_packet(const struct client *client, const void *packet, uint32_t length);
void client_contribute(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value);

/* The next packet that arrives: its length, or 0 after ms. */
uint32_t client_receive(const struct client *client, struct packet *packet, int ms);

/* Expect this result as the next packet. Returns its ticket. */
uint32_t client_expect_result(const struct client *client, uint16_t slot, uint32_t use,
			      uint16_t lanes, int32_t value);

/*
 * n ranks of a job connect to this switch and ask to join as rank 0 does. Does not wait for
 * answers.
 */
void clients_join_as(struct client *clients, uint32_t n, const char *address, uint16_t port,
		     const SmlControl__Join *rank_0);
/* The same, with a Join that a switch accepts. */
void clients_join(struct client *clients, uint32_t n, const char *address, uint16_t port,
		  const char *job);
/* These ranks are admitted, and their job starts. */
void clients_begin(struct client *clients, uint32_t n);
/* Both. */
void clients_start(struct client *clients, uint32_t n, const char *address, uint16_t port,
		   const char *job);
void clients_close(struct client *clients, uint32_t n);

/* Start a switch in this process, one at a time. Returns its port; fails the test on errors. */
uint16_t client_open_switch(const struct sml_switch_config *config);
/* Stop it if there is one. */
void client_close_switch(void);

#endif

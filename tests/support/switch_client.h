/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker reduced to its two sockets: what tests say to a switch, byte
 * by byte, without the library in between. Every wait is bounded; whatever goes
 * wrong in here fails the test.
 */
#ifndef SML_TESTS_SWITCH_CLIENT_H
#define SML_TESTS_SWITCH_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/frame.h"
#include "control/tls.h"
#include "core/wire.h"
#include "switch/switch.h"

/* For what will come: longer than a busy machine stalls. */
#define CLIENT_WAIT_MS 20000

struct client {
	int tcp, udp;
	struct evbuffer *in;
	struct sml_tls_session *tls; /* NULL: plain */
	const char *address;
	/* What Admitted said. */
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

/* A Join that a switch takes; change what a test is about. */
SmlControl__Join client_join_message(const char *job, uint32_t rank, uint32_t world_size);
void client_join(struct client *client, const SmlControl__Join *join);

void client_send_bytes(struct client *client, const void *bytes, size_t n);
void client_send(struct client *client, const SmlControl__Envelope *message);
void client_send_empty(struct client *client, SmlControl__Envelope__BodyCase body);

/*
 * The next message that is of this body; Waiting and Pong are skipped unless asked
 * for, any other fails the test. To be freed with client_free().
 */
SmlControl__Envelope *client_expect(struct client *client, SmlControl__Envelope__BodyCase body);
/* Any message; NULL when none comes. */
SmlControl__Envelope *client_next(struct client *client);
void client_free(SmlControl__Envelope *message);

/* Abort with this error comes, whose text has all these words (last one NULL). */
void client_expect_abort(struct client *client, int error, ...);

/* The switch has closed the connection, after whatever it had to say. */
void client_expect_end(struct client *client);

/* What this client has said is handled, and nothing has come of it but Waiting and Pong. */
void client_expect_silence(struct client *client);

/* The sum of one of the switch's counters, or the status itself. */
SmlControl__Envelope *client_status(const char *address, uint16_t port);
uint64_t client_counter(uint16_t port, const char *name);
/* Packets are on their way by UDP: until the switch has counted so many, and no more. */
void client_wait_for_counter(uint16_t port, const char *name, uint64_t value);

int64_t client_now_ms(void);

/* ---- data ---- */

/* Admitted, probes on one socket for all shards, Ready. */
void client_admitted(struct client *client);
void client_probe(struct client *client, uint8_t shard, uint16_t lanes);
void client_ready(struct client *client);
void client_started(struct client *client);

/* A contribution of this client: SUM of int32, every lane `value`. Returns its length. */
uint32_t client_packet(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value, struct packet *packet);
void client_send_packet(const struct client *client, const void *packet, uint32_t length);
void client_contribute(const struct client *client, uint16_t slot, uint32_t use, uint16_t lanes,
		       int32_t value);

/* The next packet that comes: its length, or 0 after ms. */
uint32_t client_receive(const struct client *client, struct packet *packet, int ms);

/* The next packet is this result. Returns its ticket. */
uint32_t client_expect_result(const struct client *client, uint16_t slot, uint32_t use,
			      uint16_t lanes, int32_t value);

/* n ranks of a job connect to this switch and ask to join as rank 0 does, without waiting for
 * answers. */
void clients_join_as(struct client *clients, uint32_t n, const char *address, uint16_t port,
		     const SmlControl__Join *rank_0);
/* With a Join that a switch takes. */
void clients_join(struct client *clients, uint32_t n, const char *address, uint16_t port,
		  const char *job);
/* Those are admitted, and their job starts. */
void clients_begin(struct client *clients, uint32_t n);
/* Both. */
void clients_start(struct client *clients, uint32_t n, const char *address, uint16_t port,
		   const char *job);
void clients_close(struct client *clients, uint32_t n);

/* A switch in this process, one at a time. Its port; or a failed test. */
uint16_t client_open_switch(const struct sml_switch_config *config);
/* If there is one. Also what cmocka calls after a test; state is not used. Always 0. */
int client_close_switch(void **state);

#endif

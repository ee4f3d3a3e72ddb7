/* SPDX-License-Identifier: BSD-3-Clause */
/* A real switch in this process, and workers that are only sockets: packets and their results. */
#include <unistd.h>

#include "control/envelope.h"
#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

static uint16_t port;

static void start_switch(uint32_t threads)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = ":0";
	config.threads = threads;
	port = client_open_switch(&config);
}

static void set_up(void)
{
	start_switch(1);
}

TEST_WITH(packets_without_lanes_are_results_too, set_up, client_close_switch)
{
	struct client c[2];

	clients_start(c, 2, "::1", port, "barrier");
	client_contribute(&c[0], 0, 0, 0, 0);
	client_contribute(&c[1], 0, 0, 0, 0);
	client_expect_result(&c[0], 0, 0, 0, 0);
	client_expect_result(&c[1], 0, 0, 0, 0);
	clients_close(c, 2);
}

TEST_WITH(lost_result_is_sent_again_to_who_asks, set_up, client_close_switch)
{
	struct client c[2];
	uint32_t ticket;

	clients_start(c, 2, "127.0.0.1", port, "resend");
	client_contribute(&c[0], 5, 0, 32, 1);
	client_contribute(&c[1], 5, 0, 32, 2);
	/* The data stream has 16 slots. */
	ticket = client_expect_result(&c[0], 5, 0, 32, 3);
	assert_int_equal(ticket, 16);
	assert_int_equal(client_expect_result(&c[1], 5, 0, 32, 3), ticket);
	client_contribute(&c[1], 5, 0, 32, 99);
	assert_int_equal(client_expect_result(&c[1], 5, 0, 32, 3), ticket);
	/* The other worker gets nothing: the next packet there is the next result. */
	client_contribute(&c[0], 5, 1, 32, 4);
	client_contribute(&c[1], 5, 1, 32, 5);
	client_expect_result(&c[0], 5, 1, 32, 9);
	clients_close(c, 2);
}

/* A worker's socket is connected, so it receives only from the address that it talks to. */
TEST_WITH(answers_come_from_the_address_that_was_asked, set_up, client_close_switch)
{
	struct client c[2];

	clients_start(c, 2, "127.0.0.2", port, "multi-homed");
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	client_expect_result(&c[1], 4, 0, 8, 2);
	client_contribute(&c[0], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	clients_close(c, 2);
}

TEST_WITH(results_go_to_the_probed_address_only, set_up, client_close_switch)
{
	struct client c[2], stranger;
	struct packet packet;

	clients_start(c, 2, "127.0.0.1", port, "address");
	/*
	 * The same cookie from another socket: it counts, but the answer goes to the first
	 * socket.
	 */
	stranger = c[0];
	stranger.udp = dup(c[1].udp);
	client_contribute(&stranger, 4, 0, 8, 10);
	client_contribute(&c[1], 4, 0, 8, 20);
	client_expect_result(&c[0], 4, 0, 8, 30);
	client_expect_result(&c[1], 4, 0, 8, 30);
	/*
	 * A probe does not move the address either, once the job runs. The probe's reply comes
	 * next there.
	 */
	client_packet(&c[0], 0, 0, 8, 0, &packet);
	packet.header.kind = SML_PACKET_PROBE;
	client_send_packet(&stranger, &packet, SML_HEADER_BYTES + 32);
	assert_true(client_receive(&stranger, &packet, CLIENT_WAIT_MS) > 0);
	assert_int_equal(packet.header.kind, SML_PACKET_PROBE_REPLY);
	client_contribute(&c[0], 4, 0, 8, 10);
	client_expect_result(&c[0], 4, 0, 8, 30);
	close(stranger.udp);
	clients_close(c, 2);
}

static void probe_with_number(const struct client *of, const struct client *from, uint32_t number)
{
	struct packet packet;

	client_packet(of, 0, 0, 8, 0, &packet);
	packet.header.kind = SML_PACKET_PROBE;
	packet.header.use_be = sml_be32(number);
	client_send_packet(from, &packet, SML_HEADER_BYTES + 32);
	assert_true(client_receive(from, &packet, CLIENT_WAIT_MS) > 0);
	assert_int_equal(packet.header.kind, SML_PACKET_PROBE_REPLY);
}

/* The number that the rank has told over its control connection is good for one probe. */
TEST_WITH(a_renewed_address_is_where_its_probe_came_from, set_up, client_close_switch)
{
	SmlControl__Renew renew = SML_CONTROL__RENEW__INIT;
	struct client c[2], moved, copier;

	clients_start(c, 2, "127.0.0.1", port, "renewed");
	clients_start(&moved, 1, "127.0.0.1", port, "another");
	clients_start(&copier, 1, "127.0.0.1", port, "a third");
	probe_with_number(&c[0], &moved, 77); /* nobody has told it */
	client_contribute(&c[0], 4, 0, 8, 10);
	client_contribute(&c[1], 4, 0, 8, 20);
	client_expect_result(&c[0], 4, 0, 8, 30);
	renew.number = 77;
	client_send(&c[0], sml_envelope(RENEW, renew, &renew));
	client_expect_silence(&c[0]);
	probe_with_number(&c[0], &copier, 76);
	probe_with_number(&c[0], &moved, 77);
	probe_with_number(&c[0], &copier, 77);
	client_contribute(&c[0], 4, 1, 8, 1);
	client_contribute(&c[1], 4, 1, 8, 2);
	/* Its socket is the other one now. */
	close(c[0].udp);
	c[0].udp = dup(moved.udp);
	client_expect_result(&c[0], 4, 1, 8, 3);
	client_contribute(&c[0], 4, 1, 8, 1);
	client_expect_result(&c[0], 4, 1, 8, 3);
	clients_close(&copier, 1);
	clients_close(&moved, 1);
	clients_close(c, 2);
}

TEST_WITH(odd_packets_are_dropped_and_counted, set_up, client_close_switch)
{
	struct client c[2];
	struct packet packet;
	uint32_t length;

	clients_start(c, 2, "127.0.0.1", port, "odd");
	length = client_packet(&c[0], 4, 0, 8, 1, &packet);
	client_send_packet(&c[0], &packet, length - 1);
	client_send_packet(&c[0], &packet, length - 4);
	client_send_packet(&c[0], &packet, 3);
	client_send_packet(&c[0], &packet, 0);
	packet.header.magic_be = 0;
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 4, 0, 8, 1, &packet);
	packet.header.kind = SML_PACKET_RESULT;
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 4, 0, 8, 1, &packet);
	packet.header.key_be ^= 1;
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 4, 0, 8, 1, &packet);
	packet.header.job_be ^= sml_be32(0x100);
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 4, 0, 8, 1, &packet);
	packet.header.epoch_be = 0;
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 20, 0, 8, 1, &packet);
	client_send_packet(&c[0], &packet, length);
	client_packet(&c[0], 4, 5, 8, 1, &packet);
	client_send_packet(&c[0], &packet, length);
	/* They have not changed the sum, and the switch continues. */
	client_contribute(&c[0], 4, 0, 8, 1);
	client_contribute(&c[1], 4, 0, 8, 1);
	client_expect_result(&c[0], 4, 0, 8, 2);
	client_expect_result(&c[1], 4, 0, 8, 2);
	assert_int_equal(client_counter(port, "malformed"), 6);
	assert_int_equal(client_counter(port, "wrong-cookie"), 1);
	assert_int_equal(client_counter(port, "unknown-job"), 1);
	assert_int_equal(client_counter(port, "wrong-epoch"), 1);
	assert_int_equal(client_counter(port, "out-of-range"), 1);
	assert_int_equal(client_counter(port, "early-use"), 1);
	assert_int_equal(client_counter(port, "absorbed"), 1);
	assert_int_equal(client_counter(port, "completed"), 1);
	clients_close(c, 2);
}

TEST_WITH(probe_with_a_wrong_cookie_is_not_answered, set_up, client_close_switch)
{
	struct client c;
	struct packet packet;
	SmlControl__Join join = client_join_message("probe", 0, 1);
	uint32_t length;

	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_admitted(&c);
	length = client_packet(&c, 0, 0, 8, 0, &packet);
	packet.header.kind = SML_PACKET_PROBE;
	packet.header.key_be ^= 1;
	client_send_packet(&c, &packet, length);
	client_wait_for_counter(port, "wrong-cookie", 1);
	/* The first packet that arrives is the answer to the correct one. */
	client_probe(&c, 0, 16);
	client_close(&c);
}

/* A peer that is admitted and knows its cookie: its packets are not sent back either. */
TEST_WITH(packets_that_are_too_long_are_dropped_whatever_their_kind, set_up, client_close_switch)
{
	static struct {
		struct packet packet;
		uint32_t more[8192];
	} long_one;
	static const uint32_t lengths[] = {SML_MAX_PACKET_BYTES + 4, 16384,
					   SML_HEADER_BYTES + sizeof(long_one.more)};
	SmlControl__Join join = client_join_message("long", 0, 1);
	const struct sml_header *header = &long_one.packet.header;
	struct client c;
	unsigned n = 0;

	client_open(&c, "127.0.0.1", port);
	client_join(&c, &join);
	client_admitted(&c);
	for (uint8_t kind = 0; kind <= SML_PACKET_KINDS; kind++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++, n++) {
			client_packet(&c, 0, 0, 8, 0, &long_one.packet);
			long_one.packet.header.kind = kind;
			long_one.packet.header.lanes_be =
				sml_be16((uint16_t)((lengths[i] - SML_HEADER_BYTES) / 4));
			client_send_packet(&c, header, lengths[i]);
		}
	client_wait_for_counter(port, "malformed", n);
	/* The first packet that arrives is the answer to this one. */
	client_probe(&c, 0, 16);
	client_close(&c);
}

/* Every slot at once from every rank: super-packets in both directions, if the kernel has them. */
TEST_WITH(whole_windows_come_back_complete, set_up, client_close_switch)
{
	struct client c[3];

	clients_start(c, 3, "127.0.0.1", port, "window");
	for (uint32_t use = 0; use < 20; use++) {
		for (unsigned rank = 0; rank < 3; rank++)
			for (uint16_t slot = 0; slot < 20; slot++)
				client_contribute(&c[rank], slot, use,
						  (uint16_t)(slot == 19 ? 8 : 352), slot);
		for (unsigned rank = 0; rank < 3; rank++) {
			uint32_t seen = 0;

			for (unsigned i = 0; i < 20; i++) {
				struct packet packet;
				uint32_t length = client_receive(&c[rank], &packet, CLIENT_WAIT_MS);
				uint16_t slot = sml_be16(packet.header.slot_be);

				assert_int_equal(length, slot == 19 ? 72 : 1448);
				assert_int_equal(sml_be32(packet.header.use_be), use);
				assert_int_equal(sml_be32(packet.lanes_be[0]), 3 * slot);
				seen |= 1u << slot;
			}
			assert_int_equal(seen, 0xfffff);
		}
	}
	clients_close(c, 3);
}

TEST_WITH(shards_meet_in_their_own_threads, set_up, client_close_switch)
{
	struct client c[2];
	SmlControl__Join join = client_join_message("shards", 0, 2);

	client_close_switch();
	start_switch(3);
	join.shards = 4;
	clients_join_as(c, 2, "127.0.0.1", port, &join);
	clients_begin(c, 2);
	for (uint16_t slot = 0; slot < 20; slot++) {
		client_contribute(&c[0], slot, 0, 8, slot);
		client_contribute(&c[1], slot, 0, 8, 1);
		client_expect_result(&c[0], slot, 0, 8, slot + 1);
		client_expect_result(&c[1], slot, 0, 8, slot + 1);
	}
	assert_int_equal(client_counter(port, "out-of-range"), 0);
	clients_close(c, 2);
}

TEST_WITH(ready_without_probe_fails_the_job, set_up, client_close_switch)
{
	struct client c[2];

	clients_join(c, 2, "127.0.0.1", port, "no probe");
	for (uint32_t rank = 0; rank < 2; rank++) {
		client_admitted(&c[rank]);
		assert_true(c[rank].window_packets >= 16);
	}
	client_ready(&c[1]);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_abort(&c[rank], SML_ERROR_PROTOCOL, "rank 1", "probe", NULL);
	clients_close(c, 2);
}

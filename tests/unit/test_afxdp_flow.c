/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The frames of an AF_XDP flow. The other end reads what was written, and a checksum from
 * separate code agrees. For a frame that is cut, changed or random, no byte outside it is
 * read (the sanitizer checks this), and no wrong payload is accepted.
 */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/transport/afxdp/flow.h"

#define FRAME_ROOM 2048
#define PAYLOAD	   1440

static const uint8_t worker_mac[SML_MAC_BYTES] = {2, 0, 0, 0, 0, 1};
static const uint8_t switch_mac[SML_MAC_BYTES] = {2, 0, 0, 0, 0, 2};

/* Both ends of a flow. */
struct ends {
	struct sml_flow_headers worker, its_switch;
};

static union sml_sockaddr address(bool v6, const char *text, uint16_t port)
{
	union sml_sockaddr made = {.any.sa_family = v6 ? AF_INET6 : AF_INET};

	assert_int_equal(inet_pton(made.any.sa_family, text,
				   v6 ? (void *)&made.v6.sin6_addr : (void *)&made.v4.sin_addr),
			 1);
	made.v4.sin_port = htons(port);
	return made;
}

static struct ends make_ends(bool v6)
{
	union sml_sockaddr worker = address(v6, v6 ? "fd77::10" : "10.77.0.10", 40123);
	union sml_sockaddr its_switch = address(v6, v6 ? "fd77::1" : "10.77.0.1", 28500);
	struct ends ends;

	sml_flow_headers_init(&ends.worker, &worker, &its_switch);
	sml_flow_headers_set_macs(&ends.worker, worker_mac, switch_mac);
	sml_flow_headers_init(&ends.its_switch, &its_switch, &worker);
	sml_flow_headers_set_macs(&ends.its_switch, switch_mac, worker_mac);
	return ends;
}

static void fill(uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)rand();
}

/* In separate memory, so that the sanitizer detects reads of any byte behind it. */
static const uint8_t *read_exactly(const struct sml_flow_headers *headers, const uint8_t *frame,
				   uint32_t bytes, bool partial, uint32_t *length, uint8_t **copy)
{
	*copy = malloc(bytes ? bytes : 1);
	assert_non_null(*copy);
	memcpy(*copy, frame, bytes);
	return sml_flow_read(headers, *copy, bytes, partial, length);
}

static bool is_taken(const struct sml_flow_headers *headers, const uint8_t *frame, uint32_t bytes,
		     bool partial)
{
	uint32_t length = 0;
	uint8_t *copy;
	bool taken = read_exactly(headers, frame, bytes, partial, &length, &copy) != NULL;

	free(copy);
	return taken;
}

/* RFC 1071 in a simple way: the sum over 16-bit words of `bytes` and the pseudo header. */
static uint32_t slow_sum(const uint8_t *bytes, uint32_t n, uint32_t sum)
{
	for (uint32_t i = 0; i < n; i++)
		sum += (uint32_t)bytes[i] << (i % 2 ? 0 : 8);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void the_other_end_reads_what_is_written(void **state)
{
	(void)state;
	for (int v6 = 0; v6 <= 1; v6++) {
		struct ends ends = make_ends(v6);

		for (uint32_t n = 0; n <= PAYLOAD; n += n < 70 ? 1 : 97) {
			uint8_t payload[PAYLOAD], frame[FRAME_ROOM], *copy;
			const uint8_t *read;
			uint32_t bytes, length = 0;

			fill(payload, n);
			bytes = sml_flow_write(&ends.worker, frame, payload, n);
			assert_int_equal(bytes, (v6 ? 62 : 42) + n);
			assert_memory_equal(frame, switch_mac, SML_MAC_BYTES);
			read = read_exactly(&ends.its_switch, frame, bytes, false, &length, &copy);
			assert_non_null(read);
			assert_int_equal(length, n);
			assert_memory_equal(read, payload, n);
			free(copy);
			/* A flow's own packets are not the answers that it waits for. */
			assert_false(is_taken(&ends.worker, frame, bytes, false));
		}
	}
}

static void checksums_are_those_of_rfc_1071(void **state)
{
	(void)state;
	for (int v6 = 0; v6 <= 1; v6++) {
		struct ends ends = make_ends(v6);
		uint8_t payload[PAYLOAD], frame[FRAME_ROOM];
		uint32_t udp = v6 ? 54 : 34, bytes;

		fill(payload, sizeof(payload));
		bytes = sml_flow_write(&ends.worker, frame, payload, sizeof(payload));
		if (!v6)
			assert_int_equal(slow_sum(frame + 14, 20, 0), 0xffff);
		/* The pseudo header: both addresses, the protocol, the length. */
		assert_int_equal(
			slow_sum(frame + udp, bytes - udp,
				 slow_sum(frame + (v6 ? 22 : 26), v6 ? 32 : 8, 17 + bytes - udp)),
			0xffff);
	}
}

/* Returns the frame's length. */
static uint32_t write_short(const struct sml_flow_headers *headers, uint8_t *frame)
{
	uint8_t payload[64];

	fill(payload, sizeof(payload));
	return sml_flow_write(headers, frame, payload, sizeof(payload));
}

/* Padding behind the packet does no harm, but a shorter frame does. */
static void a_frame_that_is_cut_is_not_taken(void **state)
{
	(void)state;
	for (int v6 = 0; v6 <= 1; v6++) {
		struct ends ends = make_ends(v6);
		uint8_t frame[FRAME_ROOM] = {0};
		uint32_t bytes = write_short(&ends.worker, frame);

		for (uint32_t n = 0; n < bytes; n++)
			assert_false(is_taken(&ends.its_switch, frame, n, false));
		assert_true(is_taken(&ends.its_switch, frame, bytes, false));
		assert_true(is_taken(&ends.its_switch, frame, bytes + 18, false));
	}
}

/* Every bit behind the MAC addresses counts, except IPv6's flow label, time to live and class. */
static bool may_change(bool v6, uint32_t byte)
{
	if (byte < 12)
		return true;
	return v6 && (byte == 14 || (byte >= 15 && byte <= 17) || byte == 21);
}

static void a_frame_with_a_wrong_bit_is_not_taken(void **state)
{
	(void)state;
	for (int v6 = 0; v6 <= 1; v6++) {
		struct ends ends = make_ends(v6);
		uint8_t frame[FRAME_ROOM];
		uint32_t bytes = write_short(&ends.worker, frame);

		for (uint32_t bit = 0; bit < 8 * bytes; bit++) {
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
			if (!may_change(v6, bit / 8))
				assert_false(is_taken(&ends.its_switch, frame, bytes, false));
			frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		assert_true(is_taken(&ends.its_switch, frame, bytes, false));
	}
}

static void vlan_tags_are_passed_over(void **state)
{
	static const uint8_t tag[4] = {0x81, 0, 0, 5};

	(void)state;
	for (int v6 = 0; v6 <= 1; v6++) {
		struct ends ends = make_ends(v6);
		uint8_t frame[FRAME_ROOM];
		uint32_t bytes = write_short(&ends.worker, frame);

		for (int tags = 1; tags <= 3; tags++) {
			memmove(frame + 16, frame + 12, bytes - 12);
			memcpy(frame + 12, tag, sizeof(tag));
			bytes += 4;
			assert_int_equal(is_taken(&ends.its_switch, frame, bytes, false),
					 tags <= 2);
		}
	}
}

/* IPv4 without a checksum, and a checksum that was left to hardware, if that is known. */
static void checksums_that_nobody_made(void **state)
{
	struct ends ends = make_ends(false);
	uint8_t payload[64], frame[FRAME_ROOM];
	uint32_t bytes, pseudo;

	(void)state;
	fill(payload, sizeof(payload));
	bytes = sml_flow_write(&ends.worker, frame, payload, sizeof(payload));
	frame[40] = frame[41] = 0;
	assert_true(is_taken(&ends.its_switch, frame, bytes, false));
	pseudo = slow_sum(frame + 26, 8, 17 + bytes - 34);
	frame[40] = (uint8_t)(pseudo >> 8);
	frame[41] = (uint8_t)pseudo;
	assert_false(is_taken(&ends.its_switch, frame, bytes, false));
	assert_true(is_taken(&ends.its_switch, frame, bytes, true));
}

static void lengths_that_lie_are_not_believed(void **state)
{
	struct ends ends = make_ends(false);
	uint8_t payload[64], frame[FRAME_ROOM], *copy;

	(void)state;
	fill(payload, sizeof(payload));
	for (unsigned i = 0; i < 200000; i++) {
		uint32_t bytes = sml_flow_write(&ends.worker, frame, payload, sizeof(payload));
		uint32_t length = 0;
		const uint8_t *read;

		/*
		 * Changes several bytes of the headers. There is no checksum, so the lengths
		 * decide.
		 */
		frame[40] = frame[41] = 0;
		for (int k = rand() % 4; k >= 0; k--)
			frame[12 + rand() % 30] = (uint8_t)rand();
		bytes -= (uint32_t)(rand() % 80);
		read = read_exactly(&ends.its_switch, frame, bytes, rand() % 2, &length, &copy);
		if (read)
			assert_true(read >= copy && read + length <= copy + bytes);
		free(copy);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_end_reads_what_is_written),
		cmocka_unit_test(checksums_are_those_of_rfc_1071),
		cmocka_unit_test(a_frame_that_is_cut_is_not_taken),
		cmocka_unit_test(a_frame_with_a_wrong_bit_is_not_taken),
		cmocka_unit_test(vlan_tags_are_passed_over),
		cmocka_unit_test(checksums_that_nobody_made),
		cmocka_unit_test(lengths_that_lie_are_not_believed),
	};

	srand(7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

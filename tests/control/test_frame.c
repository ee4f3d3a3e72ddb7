/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages on a byte stream: whole, in pieces, too long, and bytes that are no messages. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "control/envelope.h"
#include "control/stream.h"
#include "support/test.h"

static void write_ping(struct evbuffer *out, uint64_t time_ns)
{
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;

	ping.time_ns = time_ns;
	assert_int_equal(sml_frame_write(out, sml_envelope(PING, ping, &ping)), 0);
}

static void expect_ping(struct evbuffer *in, uint64_t time_ns)
{
	SmlControl__Envelope *message;

	assert_int_equal(sml_frame_read(in, &message), 1);
	assert_int_equal(message->body_case, SML_CONTROL__ENVELOPE__BODY_PING);
	assert_true(message->ping->time_ns == time_ns);
	sml_control__envelope__free_unpacked(message, NULL);
}

static int read_bytes(const void *bytes, size_t n)
{
	struct evbuffer *in = evbuffer_new();
	SmlControl__Envelope *message = NULL;
	int rc;

	evbuffer_add(in, bytes, n);
	rc = sml_frame_read(in, &message);
	if (rc == 1)
		sml_control__envelope__free_unpacked(message, NULL);
	evbuffer_free(in);
	return rc;
}

TEST(messages_come_out_as_they_went_in)
{
	struct evbuffer *stream = evbuffer_new();
	SmlControl__Envelope *message;

	for (uint64_t i = 0; i < 100; i++)
		write_ping(stream, i << 40);
	for (uint64_t i = 0; i < 100; i++)
		expect_ping(stream, i << 40);
	assert_int_equal(sml_frame_read(stream, &message), 0);
	assert_int_equal(evbuffer_get_length(stream), 0);
	evbuffer_free(stream);
}

TEST(message_waits_for_its_last_byte)
{
	struct evbuffer *whole = evbuffer_new(), *in = evbuffer_new();
	SmlControl__Envelope *message;
	uint8_t bytes[64], head[SML_HEAD_BYTES];
	int n;

	write_ping(whole, 5);
	n = evbuffer_remove(whole, bytes, sizeof(bytes));
	for (int i = 0; i < n; i++) {
		assert_int_equal(sml_frame_read(in, &message), 0);
		assert_int_equal(sml_frame_head(in, head).whole, i < 4 ? 0 : n - 4);
		evbuffer_add(in, bytes + i, 1);
	}
	expect_ping(in, 5);
	evbuffer_free(whole);
	evbuffer_free(in);
}

TEST(length_is_refused_before_the_bytes_come)
{
	assert_int_equal(read_bytes("\x00\x10\x00\x00", 4), 0); /* 1 MiB: the longest message */
	assert_int_equal(read_bytes("\x00\x10\x00\x01", 4), -EPROTO);
	assert_int_equal(read_bytes("\x80\x00\x00\x00", 4), -EPROTO);
	assert_int_equal(read_bytes("\xff\xff\xff\xff", 4), -EPROTO);
}

TEST(what_is_no_message_is_refused)
{
	assert_int_equal(read_bytes("\0\0\0\0", 4), -EPROTO);		  /* no body */
	assert_int_equal(read_bytes("\0\0\0\1\xff", 5), -EPROTO);	  /* half a tag */
	assert_int_equal(read_bytes("\0\0\0\2\x32\x7f", 6), -EPROTO);	  /* a body cut off */
	assert_int_equal(read_bytes("\0\0\0\3\xa2\x06\x00", 7), -EPROTO); /* body 100 */
	assert_int_equal(read_bytes("GET / HTTP/1.1\r\n\r\n", 18), -EPROTO);
}

TEST(message_that_is_too_long_is_not_written)
{
	SmlControl__Abort reason = SML_CONTROL__ABORT__INIT;
	struct evbuffer *out = evbuffer_new();
	char *text = malloc(SML_CONTROL_MAX_BYTES + 1);

	assert_non_null(text);
	memset(text, 'x', SML_CONTROL_MAX_BYTES);
	text[SML_CONTROL_MAX_BYTES] = '\0';
	reason.text = text;
	assert_int_equal(sml_frame_write(out, sml_envelope(ABORT, abort, &reason)), -EMSGSIZE);
	assert_int_equal(evbuffer_get_length(out), 0);
	free(text);
	evbuffer_free(out);
}

/* ---- messages that protobuf-c would accept, and we refuse ---- */

/* The body of an envelope: n times the same bytes. */
static int read_repeated(uint8_t field, const void *bytes, size_t each, size_t n)
{
	struct evbuffer *body = evbuffer_new(), *in = evbuffer_new();
	SmlControl__Envelope *message = NULL;
	uint8_t head[6] = {(uint8_t)(field << 3 | 2 | 128), (uint8_t)(field >> 4)};
	uint32_t length_be;
	size_t length = each * n;
	int rc;

	for (size_t i = 0; i < n; i++)
		evbuffer_add(body, bytes, each);
	for (unsigned i = 0; i < 4; i++)
		head[2 + i] = (uint8_t)((length >> (7 * i) & 127) | (i < 3 ? 128 : 0));
	length_be = htonl((uint32_t)(sizeof(head) + length));
	evbuffer_add(in, &length_be, sizeof(length_be));
	evbuffer_add(in, head, sizeof(head));
	evbuffer_add_buffer(in, body);
	rc = sml_frame_read(in, &message);
	if (rc == 1)
		sml_control__envelope__free_unpacked(message, NULL);
	evbuffer_free(body);
	evbuffer_free(in);
	return rc;
}

/* Abort.stalls with one slot each: protobuf-c copies the list whenever the list grows. */
TEST(submessage_that_comes_often_costs_no_time)
{
	static const uint8_t stalls[] = {0x1a, 2, 0x0a, 0};
	uint64_t before_ns = sml_cpu_ns();

	assert_int_equal(read_repeated(10, stalls, sizeof(stalls), 60000), -EPROTO);
	assert_true(sml_cpu_ns() - before_ns < SML_NS_PER_SEC / 10);
	assert_int_equal(read_repeated(10, stalls, sizeof(stalls), 1), 1);
	assert_int_equal(read_repeated(10, stalls, sizeof(stalls), 2), -EPROTO);
}

TEST(singular_field_comes_once)
{
	/* Ping twice in one envelope; Ping and Pong; Ping with its time twice. */
	assert_int_equal(read_bytes("\0\0\0\2\x32\0", 6), 1);
	assert_int_equal(read_bytes("\0\0\0\4\x32\0\x32\0", 8), -EPROTO);
	assert_int_equal(read_bytes("\0\0\0\4\x32\0\x3a\0", 8), -EPROTO);
	assert_int_equal(read_repeated(6, "\x09\1\2\3\4\5\6\7\x08", 9, 1), 1);
	assert_int_equal(read_repeated(6, "\x09\1\2\3\4\5\6\7\x08", 9, 2), -EPROTO);
	/* A list may repeat: Waiting with one missing rank each time, and packed. */
	assert_int_equal(read_repeated(2, "\x08\1", 2, 5), 1);
	assert_int_equal(read_repeated(2, "\x0a\2\1\2", 4, 5), 1);
}

TEST(unknown_fields_are_refused)
{
	/* Field 99 of Ping, and of a submessage: Ping.stripe. */
	assert_int_equal(read_repeated(6, "\x98\6\1", 3, 1), -EPROTO);
	assert_int_equal(read_repeated(6, "\xf2\1\3\x98\6\1", 6, 1), -EPROTO);
	/* But peers of different versions refuse each other with Join and Abort, and ask for a
	 * Status. */
	assert_int_equal(read_repeated(1, "\x98\6\1", 3, 16), 1);
	assert_int_equal(read_repeated(1, "\x98\6\1", 3, 17), -EPROTO);
	assert_int_equal(read_repeated(10, "\x98\6\1", 3, 16), 1);
	assert_int_equal(read_repeated(10, "\x98\6\1", 3, 17), -EPROTO);
	assert_int_equal(read_repeated(14, "\x98\6\1", 3, 16), 1);
}

/* To C, the name would end at it, and be another job's. */
TEST(a_text_has_no_nul)
{
	/* Join.job. */
	assert_int_equal(read_repeated(1, "\x1a\5train", 7, 1), 1);
	assert_int_equal(read_repeated(1, "\x1a\5tra\0n", 7, 1), -EPROTO);
	assert_int_equal(read_repeated(1, "\x1a\5trai\0", 7, 1), -EPROTO);
	assert_int_equal(read_repeated(1, "\x1a\0", 2, 1), 1);
	/* Bytes may have it: Join.machine. */
	assert_int_equal(read_repeated(1, "\xc2\2\3a\0b", 6, 1), 1);
}

/* Two bytes each become a slot of 48 bytes, a pointer, and protobuf-c's own data. */
TEST(message_takes_a_bounded_multiple_of_its_length)
{
	static const uint8_t slot[] = {0x0a, 0};

	assert_int_equal(read_repeated(18, slot, sizeof(slot), 500), 1);
	/* As many as there are slots, but no more, because each is an allocation. */
	assert_int_equal(read_repeated(18, "\x0a\2\x08\1", 4, 8192), 1);
	assert_int_equal(read_repeated(18, "\x0a\2\x08\1", 4, 8193), -EPROTO);
	assert_int_equal(read_repeated(18, slot, sizeof(slot), 100000), -EPROTO);
}

/* The longest honest ones. */
TEST(largest_report_and_status_pass)
{
	/* A slot's state: slot, use, set. A worker's: host, state, numbers. */
	static const uint8_t slot[] = {0x0a, 9, 0x08, 0xff, 0x1f, 0x10, 0xff, 1, 0x20, 0xff, 0x1f};
	static const uint8_t worker[] = {0x42, 22,  0x08, 1,   0x12, 4,	  'h',	'o',
					 's',  't', 0x18, 9,   0x20, 120, 0x28, 123,
					 0x3a, 6,   'j',  'o', 'i',  'n', 'e',	'd'};
	enum { WORKERS = 4096, BYTES = WORKERS * sizeof(worker) };
	static uint8_t status[4 + BYTES] = {0x3a, 128 | (BYTES & 127), 128 | (BYTES >> 7 & 127),
					    BYTES >> 14};

	assert_int_equal(read_repeated(18, slot, sizeof(slot), 4096), 1);
	for (unsigned i = 0; i < WORKERS; i++)
		memcpy(status + 4 + i * sizeof(worker), worker, sizeof(worker));
	assert_int_equal(read_repeated(14, status, sizeof(status), 8), 1);
}

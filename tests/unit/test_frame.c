/* SPDX-License-Identifier: BSD-3-Clause */
/* Control messages on a byte stream: whole, in pieces, too long, and not messages at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/frame.h"

static void write_ping(struct evbuffer *out, uint64_t time_ns)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Ping ping = SML_CONTROL__PING__INIT;

	ping.time_ns = time_ns;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_PING;
	message.ping = &ping;
	assert_int_equal(sml_frame_write(out, &message), 0);
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

static void messages_come_out_as_they_went_in(void **state)
{
	struct evbuffer *stream = evbuffer_new();
	SmlControl__Envelope *message;

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		write_ping(stream, i << 40);
	for (uint64_t i = 0; i < 100; i++)
		expect_ping(stream, i << 40);
	assert_int_equal(sml_frame_read(stream, &message), 0);
	assert_int_equal(evbuffer_get_length(stream), 0);
	evbuffer_free(stream);
}

static void message_waits_for_its_last_byte(void **state)
{
	struct evbuffer *whole = evbuffer_new(), *in = evbuffer_new();
	SmlControl__Envelope *message;
	uint8_t bytes[64];
	int n;

	(void)state;
	write_ping(whole, 5);
	n = evbuffer_remove(whole, bytes, sizeof(bytes));
	for (int i = 0; i < n; i++) {
		assert_int_equal(sml_frame_read(in, &message), 0);
		assert_int_equal(sml_frame_bytes(in), i < 4 ? 0 : n - 4);
		evbuffer_add(in, bytes + i, 1);
	}
	expect_ping(in, 5);
	evbuffer_free(whole);
	evbuffer_free(in);
}

static void length_is_refused_before_the_bytes_come(void **state)
{
	(void)state;
	assert_int_equal(read_bytes("\x00\x10\x00\x00", 4), 0); /* 1 MiB: the longest */
	assert_int_equal(read_bytes("\x00\x10\x00\x01", 4), -EPROTO);
	assert_int_equal(read_bytes("\x80\x00\x00\x00", 4), -EPROTO);
	assert_int_equal(read_bytes("\xff\xff\xff\xff", 4), -EPROTO);
}

static void what_is_no_message_is_refused(void **state)
{
	(void)state;
	assert_int_equal(read_bytes("\0\0\0\0", 4), -EPROTO);		  /* no body */
	assert_int_equal(read_bytes("\0\0\0\1\xff", 5), -EPROTO);	  /* half a tag */
	assert_int_equal(read_bytes("\0\0\0\2\x32\x7f", 6), -EPROTO);	  /* a body cut off */
	assert_int_equal(read_bytes("\0\0\0\3\xa2\x06\x00", 7), -EPROTO); /* body 100 */
	assert_int_equal(read_bytes("GET / HTTP/1.1\r\n\r\n", 18), -EPROTO);
}

static void message_that_is_too_long_is_not_written(void **state)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Abort reason = SML_CONTROL__ABORT__INIT;
	struct evbuffer *out = evbuffer_new();
	char *text = malloc(SML_CONTROL_MAX_BYTES + 1);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', SML_CONTROL_MAX_BYTES);
	text[SML_CONTROL_MAX_BYTES] = '\0';
	reason.text = text;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_ABORT;
	message.abort = &reason;
	assert_int_equal(sml_frame_write(out, &message), -EMSGSIZE);
	assert_int_equal(evbuffer_get_length(out), 0);
	free(text);
	evbuffer_free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_come_out_as_they_went_in),
		cmocka_unit_test(message_waits_for_its_last_byte),
		cmocka_unit_test(length_is_refused_before_the_bytes_come),
		cmocka_unit_test(what_is_no_message_is_refused),
		cmocka_unit_test(message_that_is_too_long_is_not_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

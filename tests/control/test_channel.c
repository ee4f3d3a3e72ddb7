/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A control connection whose peer has said something and closed it, with data unread: then writing
 * fails at once. What the peer has said is read first.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "control/channel.h"
#include "control/envelope.h"
#include "support/test.h"
#include "switchml.h"

/* What a channel has told its owner, in this order. */
struct told {
	struct sml_channel channel;
	unsigned n_messages, n_before_the_end;
	bool ended;
	int error;
};

static void serve(void *self, unsigned what)
{
	(void)sml_channel_serve(&((struct told *)self)->channel, what);
}

static bool received(void *self, SmlControl__Envelope *message)
{
	struct told *told = self;

	assert_int_equal(message->body_case, SML_CONTROL__ENVELOPE__BODY_ABORT);
	told->n_messages++;
	return true;
}

static void ended(void *self, int error, const char *why)
{
	struct told *told = self;

	(void)why;
	told->ended = true;
	told->error = error;
	told->n_before_the_end = told->n_messages;
}

static void say_aborts(int fd, unsigned n)
{
	SmlControl__Abort abort = SML_CONTROL__ABORT__INIT;
	struct evbuffer *out = evbuffer_new();

	abort.error = SML_ERROR_ABORTED;
	abort.text = (char *)(uintptr_t) "this is why";
	for (unsigned i = 0; i < n; i++)
		assert_true(sml_frame_write(out, sml_envelope(ABORT, abort, &abort)) >= 0);
	while (evbuffer_get_length(out) > 0)
		assert_true(evbuffer_write(out, fd) > 0);
	evbuffer_free(out);
}

static void ping(struct sml_channel *channel)
{
	SmlControl__Ping message = SML_CONTROL__PING__INIT;

	assert_int_equal(sml_channel_send(channel, sml_envelope(PING, ping, &message)), 0);
}

/* More than one turn of the loop takes. */
#define MANY 50

static void write_to_one_that_has_gone(unsigned n_messages)
{
	struct told told = {.n_messages = 0};
	const struct sml_channel_owner owner = {&told, serve, NULL, received, ended, SIZE_MAX};
	struct sml_channel *channel = &told.channel;
	struct sml_loop *loop;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	assert_int_equal(sml_loop_open(&loop), 0);
	assert_int_equal(sml_channel_open(channel, loop, fds[0], NULL, NULL, &owner), 0);
	ping(channel);
	say_aborts(fds[1], n_messages);
	close(fds[1]);
	/* As a heartbeat does it, before the loop has read anything. */
	ping(channel);
	assert_false(told.ended);
	ping(channel);
	while (!told.ended)
		(void)sml_loop_turn(loop, sml_now_ns() + SML_NS_PER_SEC);
	assert_int_equal(told.n_before_the_end, n_messages);
	ping(channel);
	sml_channel_close(channel);
	sml_loop_close(loop);
}

TEST(what_a_peer_said_before_it_closed_the_connection_is_read)
{
	write_to_one_that_has_gone(1);
	write_to_one_that_has_gone(MANY);
	write_to_one_that_has_gone(0);
}

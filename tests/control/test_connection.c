/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel (control/channel.c), here a connection of the control port, whose peer has said
 * something and closed it, with data unread: then writing fails at once. What the peer has said is
 * read first. Connections are socket pairs.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/envelope.h"
#include "support/control_server.h"
#include "support/messages.h"
#include "support/test.h"

#define N_RANKS 2
/* A call that reads from a connection takes less than these. */
#define MANY (4 * SML_CHANNEL_TURN_MESSAGES)

static struct sml_server *server;
static int fds[N_RANKS];

static void serve_all(void)
{
	for (unsigned i = 0; i < 10; i++)
		while (sml_loop_turn(server->loop, 0))
			;
}

static void say(unsigned rank, const SmlControl__Envelope *message)
{
	struct evbuffer *out = evbuffer_new();

	assert_int_equal(sml_frame_write(out, message), 0);
	assert_true(evbuffer_write(out, fds[rank]) > 0);
	assert_int_equal(evbuffer_get_length(out), 0);
	evbuffer_free(out);
}

static void connect_rank(unsigned rank)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			 0);
	fds[rank] = ends[0];
	sml_connection_open(server, ends[1]);
}

/* A job whose ranks have their own slots: it needs no dataplane. It is admitted. */
static void join(unsigned rank)
{
	SmlControl__Join message = honest_join("connection", rank, N_RANKS);
	uint32_t stripe_port = 40000 + rank;

	message.stripes = 0;
	message.head_slots = 4;
	message.data_slots = 16;
	message.stripe_ports = &stripe_port;
	message.n_stripe_ports = 1;
	say(rank, sml_envelope(JOIN, join, &message));
}

static void open_server(void)
{
	server = control_server_open();
	for (unsigned rank = 0; rank < N_RANKS; rank++) {
		connect_rank(rank);
		join(rank);
	}
	serve_all();
	assert_int_equal(server->jobs.n_members, N_RANKS);
}

static void close_server(void)
{
	for (unsigned rank = 0; rank < N_RANKS; rank++)
		if (fds[rank] >= 0)
			close(fds[rank]);
	control_server_close(server);
}

/* With Admitted unread. */
static void hang_up(unsigned rank)
{
	close(fds[rank]);
	fds[rank] = -1;
}

static struct sml_connection *connection_of(unsigned rank)
{
	struct sml_connection *c = server->connections;

	while (c != NULL && (!sml_peer_is_member(&c->peer) || c->peer.rank != rank))
		c = c->next;
	assert_non_null(c);
	return c;
}

/* As a heartbeat's answer. The loop has read nothing of what the rank says yet. */
static void write_to(unsigned rank)
{
	assert_int_equal(
		sml_server_output.send(&connection_of(rank)->peer,
				       message_without_fields(SML_CONTROL__ENVELOPE__BODY_PONG, 0)),
		0);
}

static void abort_job(unsigned rank)
{
	say(rank, message_abort(SML_ERROR_ABORTED, "this is why", false));
}

/* Why the job has ended, to rank 1. */
static void expect_reason(int error, const char *words)
{
	struct evbuffer *in = evbuffer_new();
	SmlControl__Envelope *message;
	bool ended = false;

	serve_all();
	assert_true(evbuffer_read(in, fds[1], 65536) > 0);
	while (sml_frame_read(in, &message) == 1) {
		ended |= message->body_case == SML_CONTROL__ENVELOPE__BODY_ABORT;
		if (ended) {
			assert_int_equal(message->abort->error, error);
			if (strstr(message->abort->text, words) == NULL)
				fail_msg("no \"%s\" in \"%s\"", words, message->abort->text);
		}
		sml_control__envelope__free_unpacked(message, NULL);
	}
	assert_true(ended);
	evbuffer_free(in);
}

TEST_WITH(what_a_rank_said_before_it_closed_the_connection_is_read, open_server, close_server)
{
	abort_job(0);
	hang_up(0);
	write_to(0);
	expect_reason(SML_ERROR_ABORTED, "this is why");
}

/* Each Pong is written in vain. */
TEST_WITH(what_comes_after_many_messages_is_read, open_server, close_server)
{
	for (unsigned i = 0; i < MANY; i++)
		say(0, message_without_fields(SML_CONTROL__ENVELOPE__BODY_PING, 0));
	abort_job(0);
	hang_up(0);
	write_to(0);
	expect_reason(SML_ERROR_ABORTED, "this is why");
}

TEST_WITH(a_rank_that_said_nothing_before_it_closed_the_connection_has_died, open_server,
	  close_server)
{
	hang_up(0);
	write_to(0);
	expect_reason(SML_ERROR_RANK_DIED, "rank 0 (host testhost, pid 1000) died");
}

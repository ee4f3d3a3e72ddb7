/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the control port. Anyone can open one, so nothing that a peer does or fails to do
 * may affect more than its own connection: what it sends, what waits for it, and its time to join
 * are all bounded. strangers.c bounds all strangers together.
 *
 *	stranger --- Join ---> a job's member --- the job ends ---> ending -> free
 *	   \--- garbage, 10 s without joining, the peer's end ------------>/
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fork.h"
#include "control/socket.h"
#include "switch/control/server.h"

/* In one call. on_read() then takes or refuses what has come. */
#define CALL_BYTES 16384

/* ---- out ---- */

/* Read, unless it waits for its next turn, and write what waits to be written. 0 or -errno. */
static int watch_socket(struct sml_connection *connection)
{
	unsigned what = connection->waits ? 0 : SML_WATCH_READ;

	if (evbuffer_get_length(connection->messages.wire_out) > 0)
		what |= SML_WATCH_WRITE;
	return sml_watch_set(connection->watch, what);
}

/* If the socket cannot be watched, the peer gets nothing, and its heartbeat ends the connection. */
static void on_queued(struct evbuffer *out, const struct evbuffer_cb_info *info, void *context)
{
	(void)out;
	if (info->n_added > 0)
		(void)watch_socket(context);
}

static void report_broken(struct sml_connection *connection, int error)
{
	char why[SML_SENTENCE_BYTES];
	double age_s = (double)(sml_now_ns() - connection->peer.heard_ns) / 1e9;

	if (error)
		snprintf(why, sizeof(why), "its connection broke: %s (last heard %.3f s ago)",
			 strerror(-error), age_s);
	else
		snprintf(why, sizeof(why), "its connection ended (last heard %.3f s ago)", age_s);
	sml_connection_lose(connection, why);
}

/* Returns 0, or the error with which it has broken. */
static int on_writable(struct sml_connection *connection)
{
	int error = sml_socket_send(connection->fd, connection->messages.wire_out, CALL_BYTES);

	if (error == 0)
		error = watch_socket(connection);
	if (error)
		return error;
	if (connection->closing)
		sml_connection_end_when_sent(connection);
	sml_strangers_count(connection);
	return 0;
}

/* ---- in ---- */

/* A peer that was never a member: not always logged, but always counted. */
static void turn_away(struct sml_connection *connection, const char *why)
{
	if (!sml_peer_is_member(&connection->peer))
		sml_strangers_refused(connection, why, false);
	sml_connection_lose(connection, why);
}

/* Checks a message before it is complete and before it is unpacked. NULL: it may come. */
static const char *reject(const struct sml_connection *connection, char *text, size_t bytes)
{
	uint8_t head_bytes[SML_RULES_HEAD_BYTES];
	struct sml_head head = {
		.bytes = head_bytes,
		.n = sml_stream_peek(&connection->messages, head_bytes, sizeof(head_bytes)),
		.whole = sml_stream_next_bytes(&connection->messages),
	};

	return sml_jobs_reject(&connection->server->jobs, &connection->peer, &head, text, bytes);
}

/* The class that it belongs to now. */
static enum sml_turn_class class_of(const struct sml_connection *connection)
{
	return sml_peer_runs(&connection->peer) && connection->used_ns <= SML_MEMBER_CPU_NS
		       ? SML_TURN_MEMBERS
		       : SML_TURN_STRANGERS;
}

void sml_connection_classify(struct sml_connection *connection)
{
	enum sml_turn_class class = class_of(connection);

	if (class == connection->class)
		return;
	sml_watch_set_class(connection->watch, class);
	connection->class = class;
}

/* Process the rest of its messages after all others have had their turn. */
static void wait_for_next_turn(struct sml_connection *connection)
{
	connection->waits = true;
	(void)watch_socket(connection);
	sml_watch_at(connection->watch, 0);
}

static void go_on_reading(struct sml_connection *connection)
{
	connection->waits = false;
	(void)watch_socket(connection);
}

/* Read one message, like sml_stream_read(). Counts how many messages it is worth. */
static int take_message(struct sml_connection *connection, unsigned *worth)
{
	SmlControl__Envelope *message;
	int rc = sml_stream_read(&connection->messages, &message);

	if (rc <= 0)
		return rc;
	sml_jobs_message(&connection->server->jobs, &connection->peer, message, sml_now_ns());
	/* A status is as much work as a whole call may do. */
	*worth += message->body_case == SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST
			  ? SML_CALL_MESSAGES
			  : 1;
	sml_control__envelope__free_unpacked(message, NULL);
	return rc;
}

/* Process what is there, but no more than one call may do. NULL, or why to turn the peer away. */
static const char *take_messages(struct sml_connection *connection, char *text, size_t bytes)
{
	unsigned worth = 0;
	int rc = 1;

	while (!connection->closing && worth < SML_CALL_MESSAGES && rc > 0) {
		if (reject(connection, text, bytes) != NULL)
			return text;
		rc = take_message(connection, &worth);
	}
	if (rc > 0 && !connection->closing)
		wait_for_next_turn(connection);
	else
		go_on_reading(connection);
	return rc < 0 ? "it sent something that is not a control message" : NULL;
}

static void on_read(struct sml_connection *connection)
{
	struct sml_stream *messages = &connection->messages;
	uint64_t began_ns = sml_cpu_ns();
	char text[SML_SENTENCE_BYTES];
	const char *why;

	if (!connection->closing && sml_stream_step(messages) < 0) {
		sml_wire_failed(connection);
		return;
	}
	why = take_messages(connection, text, sizeof(text));
	connection->used_ns += sml_cpu_ns() - began_ns;
	sml_connection_classify(connection);
	if (connection->closing)
		sml_stream_ignore(messages);
	else if (why != NULL && messages->tls == NULL && sml_tls_is_hello(messages->in))
		sml_wire_refuse_tls(connection);
	else if (why != NULL)
		turn_away(connection, why);
	else
		sml_strangers_count(connection);
}

static void on_readable(struct sml_connection *connection)
{
	int n;

	errno = ENOMEM; /* evbuffer_read() does not say so itself */
	n = evbuffer_read(connection->messages.wire_in, connection->fd, CALL_BYTES);
	if (n > 0)
		on_read(connection);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		report_broken(connection, n == 0 ? connection->broken : -errno);
}

/*
 * One of them in a turn, because each may free the connection. The others stay ready. A peer that
 * has closed it cannot be written to, but may have said why before: that is read first, and then
 * the end is found. A connection that waits for its next turn has messages that have been read; its
 * time is always due, so it is served here before anything is written.
 */
static void serve_connection(void *self, unsigned what)
{
	struct sml_connection *connection = self;
	int error = 0;

	if (what & SML_WATCH_TIME) {
		on_read(connection);
		return;
	}
	if (what & SML_WATCH_WRITE)
		error = on_writable(connection);
	if (error)
		connection->broken = error;
	if (error && !(what & SML_WATCH_READ))
		report_broken(connection, error);
	else if (what & SML_WATCH_READ && (error || !(what & SML_WATCH_WRITE)))
		on_readable(connection);
}

/* ---- the beginning ---- */

static int start_watching(struct sml_connection *connection)
{
	connection->watch = sml_watch_new(connection->server->loop, connection->fd,
					  serve_connection, connection);
	if (connection->watch == NULL ||
	    evbuffer_add_cb(connection->messages.wire_out, on_queued, connection) == NULL)
		return -ENOMEM;
	sml_watch_set_class(connection->watch, SML_TURN_STRANGERS);
	return watch_socket(connection);
}

/* NULL: no memory. The descriptor is closed then. */
static struct sml_connection *open_connection(struct sml_server *server, int fd,
					      struct sml_tls *tls, const char *host)
{
	struct sml_connection *connection = calloc(1, sizeof(*connection));
	int one = 1;

	if (connection == NULL) {
		sml_fd_shut(fd);
		return NULL;
	}
	connection->server = server;
	connection->fd = fd;
	connection->peer.heard_ns = connection->stranger_ns = sml_now_ns();
	connection->class = SML_TURN_STRANGERS;
	connection->next = server->connections;
	if (connection->next != NULL)
		connection->next->previous = connection;
	server->connections = connection;
	server->n_connections++;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	sml_connection_locate(connection);
	if (sml_stream_open(&connection->messages, tls, host, NULL, NULL) == 0 &&
	    start_watching(connection) == 0)
		return connection;
	sml_connection_free(connection);
	return NULL;
}

void sml_connection_open(struct sml_server *server, int fd)
{
	(void)open_connection(server, fd, server->tls, NULL);
	sml_strangers_make_room(server);
}

struct sml_connection *sml_connection_open_parent(struct sml_server *server, int fd)
{
	struct sml_uplink *uplink = &server->uplink;
	struct sml_connection *connection = open_connection(server, fd, uplink->tls, uplink->host);

	/* A TLS client sends first. */
	if (connection == NULL || sml_stream_step(&connection->messages) == 0)
		return connection;
	sml_connection_free(connection);
	return NULL;
}

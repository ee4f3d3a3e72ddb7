/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of the control port: see server.h. */
#include "switch/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* A connection that has not said what it wants by then is closed. */
#define GREETING_NS (10ull * 1000000000ull)
/* What was written last goes out before the end, for so long. */
#define LINGER_NS 1000000000ull
/* A peer that reads so slowly that this much waits for it is closed. */
#define MAX_OUTPUT_BYTES (8u << 20)

uint64_t sml_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* ---- the end of a connection ---- */

static void free_connection(struct sml_connection *connection)
{
	struct sml_server *server = connection->server;

	if (connection->previous != NULL)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next != NULL)
		connection->next->previous = connection->previous;
	server->n_connections--;
	bufferevent_free(connection->stream);
	free(connection);
}

static void lose(struct sml_connection *connection, const char *why)
{
	if (connection->job != NULL)
		sml_job_lost(connection, why);
	connection->job = NULL;
	free_connection(connection);
}

/* ---- out ---- */

void sml_connection_send(struct sml_connection *connection, SmlControl__Envelope *message)
{
	if (connection->closing)
		return;
	/* Out of memory, the peer hears nothing more and its heartbeat ends it. */
	sml_frame_write(bufferevent_get_output(connection->stream), message);
}

void sml_connection_refuse(struct sml_connection *connection, int error, const char *text)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Abort abort_message = SML_CONTROL__ABORT__INIT;

	abort_message.error = error;
	abort_message.text = (char *)(uintptr_t)text;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_ABORT;
	message.abort = &abort_message;
	sml_connection_send(connection, &message);
	connection->closing = true;
	/* Closed by the tick, once written: callers may still hold the connection. */
	bufferevent_disable(connection->stream, EV_READ);
	connection->heard_ns = sml_now_ns();
}

/* ---- in ---- */

static void answer_ping(struct sml_connection *connection, const SmlControl__Ping *ping)
{
	SmlControl__Envelope message = SML_CONTROL__ENVELOPE__INIT;
	SmlControl__Pong pong = SML_CONTROL__PONG__INIT;

	pong.time_ns = ping->time_ns;
	message.body_case = SML_CONTROL__ENVELOPE__BODY_PONG;
	message.pong = &pong;
	sml_connection_send(connection, &message);
}

static void handle(struct sml_connection *connection, const SmlControl__Envelope *message)
{
	switch (message->body_case) {
	case SML_CONTROL__ENVELOPE__BODY_PING:
		answer_ping(connection, message->ping);
		break;
	case SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST:
		sml_status_send(connection->server, connection);
		break;
	case SML_CONTROL__ENVELOPE__BODY_JOIN:
		if (connection->job == NULL)
			sml_job_join(connection->server, connection, message->join);
		break;
	default:
		if (connection->job != NULL)
			sml_job_message(connection, message);
		break;
	}
}

static void on_read(struct bufferevent *stream, void *context)
{
	struct sml_connection *connection = context;
	SmlControl__Envelope *message;
	int rc = 0;

	while (!connection->closing &&
	       (rc = sml_frame_read(bufferevent_get_input(stream), &message)) > 0) {
		connection->heard_ns = sml_now_ns();
		handle(connection, message);
		sml_control__envelope__free_unpacked(message, NULL);
	}
	if (rc < 0 && !connection->closing)
		lose(connection, "it sent what is not a control message");
}

static void on_event(struct bufferevent *stream, short what, void *context)
{
	struct sml_connection *connection = context;
	char why[SML_TEXT_BYTES];
	double age_s = (double)(sml_now_ns() - connection->heard_ns) / 1e9;

	(void)stream;
	if (what & BEV_EVENT_ERROR)
		snprintf(why, sizeof(why), "its connection broke: %s (last heard %.3f s ago)",
			 evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()), age_s);
	else
		snprintf(why, sizeof(why), "its connection ended (last heard %.3f s ago)", age_s);
	if (what & (BEV_EVENT_ERROR | BEV_EVENT_EOF))
		lose(connection, why);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
		      int length, void *context)
{
	struct sml_server *server = context;
	struct sml_connection *connection = NULL;
	struct bufferevent *stream = NULL;
	int one = 1;

	(void)listener;
	if (server->n_connections < SML_MAX_CONNECTIONS) {
		stream = bufferevent_socket_new(server->base, fd, BEV_OPT_CLOSE_ON_FREE);
		connection = calloc(1, sizeof(*connection));
	}
	if (stream == NULL || connection == NULL) {
		if (stream != NULL)
			bufferevent_free(stream);
		else
			evutil_closesocket(fd);
		free(connection);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	connection->server = server;
	connection->stream = stream;
	connection->opened_ns = connection->heard_ns = sml_now_ns();
	(void)address;
	(void)length;
	connection->next = server->connections;
	if (connection->next != NULL)
		connection->next->previous = connection;
	server->connections = connection;
	server->n_connections++;
	bufferevent_setcb(stream, on_read, NULL, on_event, connection);
	/* One frame and its length: more is not read before that is handled. */
	bufferevent_setwatermark(stream, EV_READ, 0, SML_CONTROL_MAX_BYTES + 4);
	bufferevent_enable(stream, EV_READ | EV_WRITE);
}

/* ---- time ---- */

static bool is_over(const struct sml_connection *connection, uint64_t now_ns)
{
	size_t waiting = evbuffer_get_length(bufferevent_get_output(connection->stream));

	if (connection->closing)
		return waiting == 0 || now_ns > connection->heard_ns + LINGER_NS;
	if (waiting > MAX_OUTPUT_BYTES)
		return true;
	return connection->job == NULL && now_ns > connection->heard_ns + GREETING_NS;
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct sml_server *server = context;
	struct sml_connection *connection, *next;
	uint64_t now_ns = sml_now_ns();

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (server->jobs[i] != NULL)
			sml_job_tick(server->jobs[i], now_ns);
	for (connection = server->connections; connection != NULL; connection = next) {
		next = connection->next;
		if (is_over(connection, now_ns))
			lose(connection, "it did not read what it was sent");
	}
}

/* ---- notes of the dataplane ---- */

static void note_mismatch(void *context, const struct sml_mismatch *mismatch)
{
	struct sml_server *server = context;

	pthread_mutex_lock(&server->note_mutex);
	if (server->n_noted < SML_MAX_JOBS)
		server->noted[server->n_noted++] = *mismatch;
	pthread_mutex_unlock(&server->note_mutex);
	event_active(server->note, EV_READ, 0);
}

static void on_note(evutil_socket_t fd, short what, void *context)
{
	struct sml_server *server = context;
	struct sml_mismatch noted[SML_MAX_JOBS];
	uint32_t n;

	(void)fd;
	(void)what;
	pthread_mutex_lock(&server->note_mutex);
	n = server->n_noted;
	memcpy(noted, server->noted, n * sizeof(noted[0]));
	server->n_noted = 0;
	pthread_mutex_unlock(&server->note_mutex);
	for (uint32_t i = 0; i < n; i++) {
		struct sml_job *job = server->jobs[noted[i].job % SML_MAX_JOBS];

		if (job != NULL)
			sml_job_mismatch(job, &noted[i]);
	}
}

/* ---- opening and closing ---- */

static void on_stop(evutil_socket_t fd, short what, void *context)
{
	struct sml_server *server = context;

	(void)fd;
	(void)what;
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (server->jobs[i] != NULL)
			sml_job_fail(server->jobs[i], SML_ERROR_SWITCH_DIED,
				     "the switch was stopped");
	/* What was written last goes out in this turn of the loop. */
	for (struct sml_connection *c = server->connections; c != NULL; c = c->next)
		bufferevent_flush(c->stream, EV_WRITE, BEV_FLUSH);
	event_base_loopexit(server->base, &(struct timeval){.tv_usec = 50000});
}

static int open_listener(struct sml_server *server, const char *address, uint16_t port)
{
	struct sockaddr_storage bound = {0};
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&bound;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&bound;
	socklen_t length = sizeof(*v6);

	v6->sin6_family = AF_INET6;
	v6->sin6_addr = in6addr_any;
	v6->sin6_port = htons(port);
	if (address != NULL && evutil_inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		bound.ss_family = AF_INET;
		v4->sin_port = htons(port);
		length = sizeof(*v4);
	} else if (address != NULL && evutil_inet_pton(AF_INET6, address, &v6->sin6_addr) != 1) {
		return -EINVAL;
	}
	errno = 0;
	server->listener = evconnlistener_new_bind(server->base, on_accept, server,
						   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC |
							   LEV_OPT_REUSEABLE,
						   128, (struct sockaddr *)&bound, (int)length);
	if (server->listener == NULL)
		return errno ? -errno : -ENOMEM;
	length = sizeof(bound);
	if (getsockname(evconnlistener_get_fd(server->listener), (struct sockaddr *)&bound,
			&length) < 0)
		return -errno;
	/* The port is at the same place in both families. */
	server->port = ntohs(v4->sin_port);
	return 0;
}

static int open_dataplane(struct sml_server *server, const char *address, char *error_text,
			  size_t error_bytes)
{
	struct sml_dataplane_config config = {
		.port = server->config.data_port ? server->config.data_port : server->port,
		.address = address,
		.n_threads = server->config.threads,
		.interfaces = server->config.interfaces ? server->config.interfaces : "",
		.generic = server->config.generic,
		.max_jobs = server->config.max_jobs,
		.max_slots = server->config.max_slots,
		.debug = server->config.debug,
		.on_mismatch = note_mismatch,
		.context = server,
	};

	server->data_port = config.port;
	return server->operations->open(&server->dataplane, &config, error_text, error_bytes);
}

static int open_events(struct sml_server *server)
{
	const struct timeval tick = {.tv_usec = SML_TICK_NS / 1000};

	server->tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
	server->note = event_new(server->base, -1, EV_PERSIST, on_note, server);
	server->stop = event_new(server->base, -1, EV_PERSIST, on_stop, server);
	if (server->tick == NULL || server->note == NULL || server->stop == NULL ||
	    event_add(server->tick, &tick) < 0)
		return -ENOMEM;
	return 0;
}

int sml_server_open(struct sml_server *server, const char *address, uint16_t port, char *error_text,
		    size_t error_bytes)
{
	int rc;

	pthread_mutex_init(&server->note_mutex, NULL);
	server->begun_ns = sml_now_ns();
	server->operations =
		server->config.dataplane ? server->config.dataplane : &sml_dataplane_udp;
	server->base = event_base_new();
	if (server->base == NULL || open_events(server) < 0) {
		snprintf(error_text, error_bytes, "no memory for the control plane");
		return -ENOMEM;
	}
	rc = open_listener(server, address, port);
	if (rc < 0) {
		snprintf(error_text, error_bytes,
			 "cannot listen on TCP port %u of %s: %s; choose another with --listen, or "
			 "see who has it: ss -ltnp",
			 port, address ? address : "all addresses", strerror(-rc));
		return rc;
	}
	return open_dataplane(server, address, error_text, error_bytes);
}

void sml_server_run(struct sml_server *server)
{
	event_base_loop(server->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

void sml_server_stop(struct sml_server *server)
{
	event_active(server->stop, EV_READ, 0);
}

void sml_server_close(struct sml_server *server)
{
	for (uint32_t i = 0; i < SML_MAX_JOBS; i++)
		if (server->jobs[i] != NULL)
			sml_job_fail(server->jobs[i], SML_ERROR_SWITCH_DIED,
				     "the switch was stopped");
	while (server->connections != NULL)
		free_connection(server->connections);
	if (server->dataplane != NULL)
		server->operations->close(server->dataplane);
	if (server->listener != NULL)
		evconnlistener_free(server->listener);
	if (server->tick != NULL)
		event_free(server->tick);
	if (server->note != NULL)
		event_free(server->note);
	if (server->stop != NULL)
		event_free(server->stop);
	if (server->base != NULL)
		event_base_free(server->base);
	pthread_mutex_destroy(&server->note_mutex);
}

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
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fork.h"
#include "control/envelope.h"
#include "switch/control/server.h"
#include "switch/shared/log.h"

/*
 * ---- the end: at once, or when what the peer was told has been sent and read ----
 *
 * The invariant: only a connection's own events and the tick free it, so that code that walks a
 * job's members may end any of them.
 */

/* An ending connection's peer may still read what it was told, for this long. */
#define LINGER_NS 1000000000ull
/* And for this long if it was lost on the way: TCP resends it after 0.2 s, 0.6 s, 1.4 s, … */
#define RESEND_NS 10000000000ull
/*
 * Who was silent for so long may be dead, and is not waited for. A rank has half of its heartbeat,
 * because some of its Pings are lost.
 */
#define SILENT_NS 2000000000ull

void sml_connection_free(struct sml_connection *connection)
{
	struct sml_server *server = connection->server;

	if (connection->previous != NULL)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	if (connection->next != NULL)
		connection->next->previous = connection->previous;
	server->n_connections--;
	server->held_bytes -= connection->held_bytes;
	if (server->uplink.connection == connection)
		sml_uplink_lost(server);
	sml_channel_close(&connection->channel);
	free(connection);
	if (server->stopping && server->connections == NULL)
		sml_loop_stop(server->loop);
}

void sml_connection_lose(struct sml_connection *connection, const char *why)
{
	sml_jobs_lost(&connection->server->jobs, &connection->peer, why, sml_now_ns());
	sml_connection_free(connection);
}

static bool is_silent(const struct sml_peer *peer)
{
	return sml_now_ns() >
	       peer->heard_ns + (peer->heartbeat_ms ? peer->heartbeat_ms * 500000ull : SILENT_NS);
}

void sml_connection_end(struct sml_connection *connection)
{
	if (connection->channel.closing)
		return;
	connection->was_silent = is_silent(&connection->peer);
	connection->peer.heard_ns = sml_now_ns();
	sml_channel_finish(&connection->channel);
}

/*
 * Once the descriptor is closed, the peer's next Ping ends the resending: a rank that has not
 * received Left then believes that its switch has died.
 */
bool sml_connection_is_resent(const struct sml_connection *connection)
{
	struct tcp_info info = {0};
	socklen_t length = sizeof(info);

	return !connection->was_silent &&
	       getsockopt(connection->channel.fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
	       info.tcpi_unacked > 0;
}

void sml_connection_keep_alive(struct sml_connection *connection)
{
	const int on = sml_peer_may_be_silent(&connection->peer), second = 1;
	const unsigned patience_ms = on ? connection->peer.heartbeat_ms : 0;

	if (on == connection->kept_alive)
		return;
	connection->kept_alive = on;
	setsockopt(connection->channel.fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
	setsockopt(connection->channel.fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
	/* Instead of a number of probes; also for what was sent and is not acknowledged. */
	setsockopt(connection->channel.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms,
		   sizeof(patience_ms));
	setsockopt(connection->channel.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

bool sml_connection_is_over(struct sml_connection *connection, uint64_t now_ns)
{
	if (connection->channel.closing)
		return now_ns > connection->peer.heard_ns + LINGER_NS &&
		       (now_ns > connection->peer.heard_ns + RESEND_NS ||
			!sml_connection_is_resent(connection));
	if (sml_peer_is_member(&connection->peer))
		connection->stranger_ns = now_ns;
	/* Whatever it says, only joining counts. */
	return now_ns >
	       connection->stranger_ns + connection->server->config.greeting_ms * 1000000ull;
}

/* ---- as the jobs (job/switch.h) see it: a peer's address, and the output functions ---- */

/* A peer that leaves this much unread gets no more answers. */
#define MAX_UNREAD_BYTES (64u << 10)

static void locate(struct sml_connection *connection, int fd)
{
	struct sml_peer *peer = &connection->peer;
	union sml_sockaddr theirs = {.v6 = {0}}, ours = {.v6 = {0}};
	socklen_t theirs_bytes = sizeof(theirs), ours_bytes = sizeof(ours);
	const uint8_t *bytes;
	uint8_t n;

	if (getpeername(fd, &theirs.any, &theirs_bytes) == 0) {
		bytes = sml_sockaddr_bytes(&theirs, &peer->address_bytes);
		memcpy(peer->address, bytes, peer->address_bytes);
	}
	if (getsockname(fd, &ours.any, &ours_bytes) == 0) {
		bytes = sml_sockaddr_bytes(&ours, &n);
		peer->is_local = n == peer->address_bytes && memcmp(bytes, peer->address, n) == 0;
	}
}

static struct sml_connection *connection_of(const struct sml_peer *peer)
{
	return (struct sml_connection *)((uintptr_t)peer - offsetof(struct sml_connection, peer));
}

static int send_message(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	return sml_channel_send(&connection_of(peer)->channel, message);
}

static void end(struct sml_peer *peer)
{
	sml_connection_end(connection_of(peer));
}

static bool listens(const struct sml_peer *peer)
{
	return sml_stream_unsent_bytes(&connection_of(peer)->channel.stream) <= MAX_UNREAD_BYTES;
}

static uint64_t random_u64(void *context)
{
	uint64_t value;

	(void)context;
	/* Reading up to 256 bytes cannot fail or be interrupted once the system is up. */
	while (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
		;
	return value;
}

static void log_line(void *context, enum sml_jobs_level level, const char *line)
{
	(void)context;
	sml_switch_log(level == SML_JOBS_WARNING ? SML_LOG_WARN : SML_LOG_INFO, "%s", line);
}

const struct sml_jobs_output sml_server_output = {
	.send = send_message,
	.end = end,
	.listens = listens,
	.random_u64 = random_u64,
	.log = log_line,
};

/* ---- peers whose TLS does not match ---- */

static void answer_plainly(struct sml_connection *connection, const char *text)
{
	SmlControl__Abort message = SML_CONTROL__ABORT__INIT;

	message.error = SML_ERROR_TLS;
	message.text = (char *)(uintptr_t)text;
	(void)sml_frame_write(connection->channel.stream.wire_out,
			      sml_envelope(ABORT, abort, &message));
	sml_connection_end(connection);
}

/* TLS is over: a member is lost; a stranger is told why, by an alert or in plain text. */
static void fail_tls(struct sml_connection *connection)
{
	char why[SML_SENTENCE_BYTES];

	snprintf(why, sizeof(why), "TLS failed: %s",
		 sml_stream_tls_reason(&connection->channel.stream));
	if (connection->peer.is_parent)
		sml_uplink_failed(connection->server, why);
	if (sml_peer_is_member(&connection->peer)) {
		sml_connection_lose(connection, why);
		return;
	}
	sml_strangers_refused(connection, why, true);
	if (sml_tls_peer_is_plain(connection->channel.stream.tls))
		answer_plainly(connection, sml_tls_demand(connection->server->tls));
	else
		sml_connection_end(connection);
}

/* A stranger speaks TLS, but this switch has no TLS. */
static void refuse_tls(struct sml_connection *connection)
{
	sml_strangers_refused(
		connection,
		"it speaks TLS, and this switch has neither a job key nor a "
		"certificate: start it with --key-file, or with --tls-certificate, "
		"--tls-key and --tls-authority; or, on the client, unset SWITCHML_JOB_KEY_FILE, or "
		"SWITCHML_TLS_CERTIFICATE, SWITCHML_TLS_KEY and SWITCHML_TLS_AUTHORITY",
		true);
	answer_plainly(connection, "the switch does not accept TLS connections");
}

/* ---- in and out ---- */

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

/* A peer that was never a member: not always logged, but always counted. */
static void turn_away(struct sml_connection *connection, const char *why)
{
	if (!sml_peer_is_member(&connection->peer))
		sml_strangers_refused(connection, why, false);
	sml_connection_lose(connection, why);
}

static const char *reject(void *self, const struct sml_head *head, char *text, size_t bytes)
{
	const struct sml_connection *connection = self;

	return sml_jobs_reject(&connection->server->jobs, &connection->peer, head, text, bytes);
}

/* A status is as much work as a whole call may do. */
static bool take_message(void *self, SmlControl__Envelope *message)
{
	struct sml_connection *connection = self;

	sml_jobs_message(&connection->server->jobs, &connection->peer, message, sml_now_ns());
	return message->body_case != SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST;
}

static void ended(void *self, int error, const char *why)
{
	struct sml_connection *connection = self;
	const struct sml_stream *stream = &connection->channel.stream;

	if (error != -EPROTO)
		report_broken(connection, error);
	else if (*sml_stream_tls_reason(stream))
		fail_tls(connection);
	else if (stream->tls == NULL && sml_tls_is_hello(stream->in))
		refuse_tls(connection);
	else
		turn_away(connection,
			  why ? why : "it sent something that is not a control message");
}

void sml_connection_classify(struct sml_connection *connection)
{
	bool runs = sml_peer_runs(&connection->peer) && connection->used_ns <= SML_MEMBER_CPU_NS;
	enum sml_turn_class class = runs ? SML_TURN_MEMBERS : SML_TURN_STRANGERS;

	if (class == connection->class)
		return;
	sml_watch_set_class(connection->channel.watch, class);
	connection->class = class;
}

static void serve(void *self, unsigned what)
{
	struct sml_connection *connection = self;
	uint64_t began_ns = sml_cpu_ns();

	if (!sml_channel_serve(&connection->channel, what))
		return;
	connection->used_ns += sml_cpu_ns() - began_ns;
	sml_connection_classify(connection);
	sml_strangers_count(connection);
}

/* ---- the beginning ---- */

/* NULL: no memory. The descriptor is closed then. */
static struct sml_connection *open_connection(struct sml_server *server, int fd,
					      struct sml_tls *tls, const char *host)
{
	struct sml_connection *connection = calloc(1, sizeof(*connection));
	const struct sml_channel_owner owner = {.self = connection,
						.serve = serve,
						.objects = reject,
						.received = take_message,
						.ended = ended,
						.max_unsent = SIZE_MAX};
	int one = 1;

	if (connection == NULL) {
		sml_fd_shut(fd);
		return NULL;
	}
	connection->server = server;
	connection->peer.heard_ns = connection->stranger_ns = sml_now_ns();
	connection->class = SML_TURN_STRANGERS;
	connection->next = server->connections;
	if (connection->next != NULL)
		connection->next->previous = connection;
	server->connections = connection;
	server->n_connections++;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	locate(connection, fd);
	if (sml_channel_open(&connection->channel, server->loop, fd, tls, host, &owner) < 0) {
		sml_connection_free(connection);
		return NULL;
	}
	sml_watch_set_class(connection->channel.watch, SML_TURN_STRANGERS);
	return connection;
}

void sml_connection_open(struct sml_server *server, int fd)
{
	(void)open_connection(server, fd, server->tls, NULL);
	sml_strangers_make_room(server);
}

struct sml_connection *sml_connection_open_parent(struct sml_server *server, int fd)
{
	return open_connection(server, fd, server->uplink.tls, server->uplink.host);
}

/* Without descriptors, the port stays readable: pause, to avoid a busy loop. */
static void stop_accepting(struct sml_server *server)
{
	(void)sml_watch_set(server->accept, 0);
	server->accepts_none = true;
	sml_strangers_evict_half(server);
}

/* Not more often, or a stranger could fill the log. */
#define TELL_ROOM_NS (60 * SML_NS_PER_SEC)

static void log_no_room(struct sml_server *server, int error)
{
	uint64_t now_ns = sml_now_ns();
	struct rlimit files = {0};

	if (server->room_logged_ns != 0 && now_ns - server->room_logged_ns < TELL_ROOM_NS)
		return;
	server->room_logged_ns = now_ns;
	(void)getrlimit(RLIMIT_NOFILE, &files);
	sml_switch_log(SML_LOG_WARN,
		       "a connection cannot be accepted: %s. The limit of descriptors is %llu: "
		       "raise it (ulimit -n; LimitNOFILE= of a service)",
		       strerror(error), (unsigned long long)files.rlim_cur);
}

static bool is_out_of_room(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

void sml_connection_accept(void *context, unsigned what)
{
	struct sml_server *server = context;

	(void)what;
	for (unsigned i = 0; i < SML_CALL_ACCEPTS; i++) {
		int fd = sml_fd_own(
			accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));

		if (fd < 0 && is_out_of_room(errno)) {
			log_no_room(server, errno);
			stop_accepting(server);
		}
		if (fd < 0)
			break;
		sml_connection_open(server, fd);
	}
}

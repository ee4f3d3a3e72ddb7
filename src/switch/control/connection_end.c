/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection ends: at once, or when what it was told has been sent and read.
 *
 * The invariant: only a connection's own events and the tick free it, so that code that walks a
 * job's members may end any of them.
 */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fork.h"
#include "switch/control/server.h"

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
	sml_stream_close(&connection->messages);
	sml_watch_free(connection->watch);
	sml_fd_shut(connection->fd);
	free(connection);
	if (server->stopping && server->connections == NULL)
		sml_loop_stop(server->loop);
}

void sml_connection_lose(struct sml_connection *connection, const char *why)
{
	sml_jobs_lost(&connection->server->jobs, &connection->peer, why, sml_now_ns());
	sml_connection_free(connection);
}

/*
 * Do not close() at once: if bytes from the peer are unread, that sends a reset, which destroys
 * what the peer has not read yet. So shut down our end first, and wait for the peer's.
 */
void sml_connection_end_when_sent(struct sml_connection *connection)
{
	if (sml_stream_unsent_bytes(&connection->messages) == 0)
		shutdown(connection->fd, SHUT_WR);
}

static bool is_silent(const struct sml_peer *peer)
{
	return sml_now_ns() >
	       peer->heard_ns + (peer->heartbeat_ms ? peer->heartbeat_ms * 500000ull : SILENT_NS);
}

void sml_connection_end(struct sml_connection *connection)
{
	if (connection->closing)
		return;
	connection->closing = true;
	connection->was_silent = is_silent(&connection->peer);
	connection->peer.heard_ns = sml_now_ns();
	sml_stream_ignore(&connection->messages);
	sml_stream_finish(&connection->messages);
	sml_connection_end_when_sent(connection);
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
	       getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
	       info.tcpi_unacked > 0;
}

void sml_connection_keep_alive(struct sml_connection *connection)
{
	const int on = sml_peer_may_be_silent(&connection->peer), second = 1;
	const unsigned patience_ms = on ? connection->peer.heartbeat_ms : 0;

	if (on == connection->kept_alive)
		return;
	connection->kept_alive = on;
	setsockopt(connection->fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
	setsockopt(connection->fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
	/* Instead of a number of probes; also for what was sent and is not acknowledged. */
	setsockopt(connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms,
		   sizeof(patience_ms));
	setsockopt(connection->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

bool sml_connection_is_over(struct sml_connection *connection, uint64_t now_ns)
{
	if (connection->closing)
		return now_ns > connection->peer.heard_ns + LINGER_NS &&
		       (now_ns > connection->peer.heard_ns + RESEND_NS ||
			!sml_connection_is_resent(connection));
	if (sml_peer_is_member(&connection->peer))
		connection->stranger_ns = now_ns;
	/* Whatever it says, only joining counts. */
	return now_ns >
	       connection->stranger_ns + connection->server->config.greeting_ms * 1000000ull;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strangers: connections that have not joined a job yet, or no longer belong to one. Anyone who
 * reaches the port can be one, so all of them together are bounded in number and in bytes. An
 * honest stranger soon joins a job, so the oldest stranger is closed to make room. A job's members
 * are never closed for this: the limits on jobs, ranks and descriptors bound them.
 *
 * The invariant: after every event there are at most max_strangers strangers, and their buffers
 * have at most MAX_HELD_BYTES.
 */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/address.h"
#include "switch/control/server.h"
#include "switch/shared/log.h"

/* Enough for the reports of hundreds of ranks at once, which are the longest messages. */
#define MAX_HELD_BYTES (64u << 20)

/* The oldest (NULL if there is none), and their number. */
static struct sml_connection *find_oldest(const struct sml_server *server, uint32_t *n)
{
	struct sml_connection *oldest = NULL;

	*n = 0;
	for (struct sml_connection *c = server->connections; c != NULL; c = c->next) {
		if (sml_peer_is_member(&c->peer))
			continue;
		++*n;
		/* If two came at the same moment, the later one in the list came first. */
		if (oldest == NULL || c->stranger_ns <= oldest->stranger_ns)
			oldest = c;
	}
	return oldest;
}

static void evict(struct sml_server *server, struct sml_connection *connection)
{
	server->jobs.n_evicted++;
	sml_connection_lose(connection, "it was closed to make room for others");
}

/*
 * The newer half may have come just now, with messages that have not been read yet. Closes some at
 * a time.
 */
void sml_strangers_evict_half(struct sml_server *server)
{
	struct sml_connection *oldest;
	uint32_t n, n_left;

	(void)find_oldest(server, &n_left);
	n_left = n_left / 2 < SML_TICK_LOSSES ? n_left / 2 : n_left - SML_TICK_LOSSES;
	while ((oldest = find_oldest(server, &n)) != NULL && n > n_left)
		evict(server, oldest);
}

void sml_strangers_make_room(struct sml_server *server)
{
	struct sml_connection *oldest;
	uint32_t n;

	/* Most of the time, there is nothing to do. */
	while (server->n_connections > server->config.max_strangers ||
	       server->n_connections > server->max_connections ||
	       server->held_bytes > MAX_HELD_BYTES) {
		oldest = find_oldest(server, &n);
		if (oldest == NULL || (n <= server->config.max_strangers &&
				       server->n_connections <= server->max_connections &&
				       server->held_bytes <= MAX_HELD_BYTES))
			break;
		evict(server, oldest);
	}
}

void sml_strangers_count(struct sml_connection *connection)
{
	struct sml_server *server = connection->server;
	size_t held = sml_peer_is_member(&connection->peer)
			      ? 0
			      : sml_stream_held_bytes(&connection->channel.stream);

	server->held_bytes += held - connection->held_bytes;
	connection->held_bytes = held;
	sml_strangers_make_room(server);
}

/* "10.0.0.3:51234", "[fe80::1]:51234" */
static void name_peer(const struct sml_connection *connection, char *text, size_t bytes)
{
	union sml_sockaddr address = {.v6 = {0}};
	socklen_t length = sizeof(address);
	char host[64] = "?"; /* with the zone, which sml_sockaddr_text() leaves out */

	if (getpeername(connection->channel.fd, &address.any, &length) == 0)
		(void)getnameinfo(&address.any, length, host, sizeof(host), NULL, 0,
				  NI_NUMERICHOST);
	sml_host_port_text(text, bytes, host, ntohs(address.v4.sin_port));
}

void sml_strangers_refused(struct sml_connection *connection, const char *why, bool important)
{
	struct sml_server *server = connection->server;
	char peer[80], more[SML_LOG_MORE_BYTES];

	server->jobs.n_refused++;
	/* Peers must not be able to fill a disk, and a scan must not hide a rank's wrong key. */
	if ((!important && server->config.debug < SML_LOG_INFO) ||
	    !sml_log_room_take(&server->refusals, SML_REFUSALS_LOGGED, sml_now_ns(), more))
		return;
	name_peer(connection, peer, sizeof(peer));
	sml_switch_log(SML_LOG_WARN, "the connection of %s was refused: %s%s", peer, why, more);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as the jobs (job/switch.h) see them: a peer's address, and the output functions. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "switch/control/server.h"
#include "switch/shared/log.h"

/* A peer that leaves this much unread gets no more answers. */
#define MAX_UNREAD_BYTES (64u << 10)

/* The bytes of an address; a mapped IPv4 address counts as IPv4. 0: neither family. */
static uint8_t address_bytes(const struct sockaddr_storage *address, uint8_t bytes[16])
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	if (address->ss_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		memcpy(bytes, &v4.sin_addr, 4);
		return 4;
	}
	if (address->ss_family != AF_INET6)
		return 0;
	memcpy(&v6, address, sizeof(v6));
	if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
		memcpy(bytes, v6.sin6_addr.s6_addr + 12, 4);
		return 4;
	}
	memcpy(bytes, &v6.sin6_addr, 16);
	return 16;
}

void sml_connection_locate(struct sml_connection *connection)
{
	int fd = connection->fd;
	struct sml_peer *peer = &connection->peer;
	struct sockaddr_storage theirs = {0}, ours = {0};
	socklen_t theirs_bytes = sizeof(theirs), ours_bytes = sizeof(ours);
	uint8_t own[16] = {0};
	uint8_t n;

	if (getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) == 0)
		peer->address_bytes = address_bytes(&theirs, peer->address);
	if (getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) == 0 &&
	    (n = address_bytes(&ours, own)) == peer->address_bytes)
		peer->is_local = memcmp(own, peer->address, n) == 0;
}

static struct sml_connection *connection_of(const struct sml_peer *peer)
{
	return (struct sml_connection *)((uintptr_t)peer - offsetof(struct sml_connection, peer));
}

static int send_message(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	struct sml_connection *connection = connection_of(peer);
	int rc;

	if (connection->closing)
		return 0;
	/*
	 * Without memory, the peer gets nothing more, and its heartbeat ends the connection. With
	 * TLS, the session is over then, and the next bytes that come end the connection.
	 */
	rc = sml_stream_write(&connection->messages, message);
	return rc == -EPROTO ? 0 : rc;
}

static void end(struct sml_peer *peer)
{
	sml_connection_end(connection_of(peer));
}

static bool listens(const struct sml_peer *peer)
{
	return sml_stream_unsent_bytes(&connection_of(peer)->messages) <= MAX_UNREAD_BYTES;
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

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A leaf's connection to its parent: made when the leaf starts, and again whenever it is lost. Each
 * reason for a failure is logged once, and ranks that join in the meantime are told the reason.
 *
 *	waiting --a pause--> connecting --> connected: sml_jobs_attach()
 *	   ^---- failed, or lost ----|---------|
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "core/wire.h"
#include "net/address.h"
#include "net/connect.h"
#include "switch/control/server.h"
#include "switch/shared/log.h"

/* Between two tries, and how long one may take. */
#define PAUSE_NS   (200 * SML_NS_PER_MS)
#define CONNECT_NS (3000 * SML_NS_PER_MS)
/* Without a known MTU: what every IPv6 path takes. */
#define LEAST_MTU 1280

static void connect_next(struct sml_server *server);

/* ---- when a try fails, or a connection ends ---- */

/* Go on with the tries after this time. */
static void wait_before_next(struct sml_uplink *uplink, uint64_t ns)
{
	if (uplink->timer != NULL)
		sml_watch_at(uplink->timer, sml_now_ns() + ns);
}

void sml_uplink_failed(struct sml_server *server, const char *why)
{
	struct sml_uplink *uplink = &server->uplink;

	snprintf(server->jobs.leaf.why, sizeof(server->jobs.leaf.why), "%s", why);
	if (strcmp(uplink->why, why) == 0)
		return;
	snprintf(uplink->why, sizeof(uplink->why), "%s", why);
	sml_switch_log(SML_LOG_WARN,
		       "the parent %s cannot be reached: %s. This leaf tries again until it "
		       "answers, and its ranks cannot join before that",
		       uplink->where, why);
}

void sml_uplink_lost(struct sml_server *server)
{
	server->uplink.connection = NULL;
	wait_before_next(&server->uplink, PAUSE_NS);
}

/* ---- the tries ---- */

static void stop_try(struct sml_uplink *uplink)
{
	sml_watch_free(uplink->connected);
	uplink->connected = NULL;
	if (uplink->fd >= 0)
		sml_fd_shut(uplink->fd);
	uplink->fd = -1;
}

static void fail(struct sml_server *server, int error)
{
	stop_try(&server->uplink);
	sml_uplink_failed(server, strerror(error));
	wait_before_next(&server->uplink, PAUSE_NS);
}

/* The lanes of a packet that the first link of the path takes; probes find out the rest. */
static uint16_t lanes_of(int fd, const union sml_sockaddr *parent)
{
	bool v6 = parent->any.sa_family == AF_INET6;
	int mtu = 0, headers = (v6 ? 40 : 20) + 8 + SML_HEADER_BYTES;
	socklen_t length = sizeof(mtu);

	if (getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &length) <
		    0 ||
	    mtu < LEAST_MTU)
		mtu = LEAST_MTU;
	if (mtu - headers > 4 * SML_MAX_LANES)
		return SML_MAX_LANES;
	return (uint16_t)((mtu - headers) / 4);
}

static void attach(struct sml_server *server)
{
	struct sml_uplink *uplink = &server->uplink;
	union sml_sockaddr parent = {0};
	socklen_t length = sizeof(parent);
	int fd = uplink->fd;
	uint16_t lanes;

	uplink->fd = -1;
	sml_watch_at(uplink->timer, UINT64_MAX);
	if (getpeername(fd, &parent.any, &length) < 0) {
		uplink->fd = fd;
		fail(server, errno);
		return;
	}
	lanes = lanes_of(fd, &parent);
	uplink->connection = sml_connection_open_parent(server, fd);
	if (uplink->connection == NULL) {
		fail(server, ENOMEM);
		return;
	}
	uplink->why[0] = '\0';
	server->jobs.operations->set_parent(server->jobs.dataplane, &parent);
	sml_jobs_attach(&server->jobs, &uplink->connection->peer, lanes, sml_now_ns());
}

static void on_connected(void *context, unsigned what)
{
	struct sml_server *server = context;
	struct sml_uplink *uplink = &server->uplink;
	int error = sml_connect_result(uplink->fd);

	(void)what;
	if (error) {
		fail(server, -error);
		return;
	}
	sml_watch_free(uplink->connected);
	uplink->connected = NULL;
	attach(server);
}

static void on_timer(void *context, unsigned what)
{
	struct sml_server *server = context;

	(void)what;
	if (server->uplink.fd >= 0)
		fail(server, ETIMEDOUT);
	else if (server->uplink.connection == NULL)
		connect_next(server);
}

static void connect_next(struct sml_server *server)
{
	struct sml_uplink *uplink = &server->uplink;
	const union sml_sockaddr *to = &uplink->addresses[uplink->next++ % uplink->n_addresses];
	int fd = sml_connect_begin(to, NULL, NULL);

	if (fd < 0) {
		fail(server, -fd);
		return;
	}
	uplink->fd = sml_fd_own(fd);
	uplink->connected = sml_watch_new(server->loop, uplink->fd, on_connected, server);
	if (uplink->connected == NULL || sml_watch_set(uplink->connected, SML_WATCH_WRITE) < 0)
		fail(server, ENOMEM);
	else
		wait_before_next(uplink, CONNECT_NS);
}

/* ---- the beginning and the end ---- */

static int note_addresses(struct sml_uplink *uplink, const struct sml_host_port *place)
{
	int n = sml_resolve(place->host, place->port, uplink->addresses, SML_PARENT_ADDRESSES);

	if (n < 0)
		return sml_error_set(-EHOSTUNREACH, /* there may be one later */
				     "--parent: the host name \"%s\" cannot be resolved: %s",
				     place->host, gai_strerror(n));
	uplink->n_addresses = (unsigned)n;
	return n > 0 ? 0
		     : sml_error_set(-EHOSTUNREACH, "--parent: \"%s\" has no address", place->host);
}

int sml_uplink_find(struct sml_server *server)
{
	const char *parent = server->config.parent;
	struct sml_uplink *uplink = &server->uplink;
	struct sml_host_port place;

	if (!sml_host_port_parse(parent, strlen(parent), &place) || place.host[0] == '\0' ||
	    (place.has_port && place.port == 0))
		return sml_error_set(-EINVAL,
				     "--parent must be HOST, HOST:PORT or [IPV6]:PORT, not '%s'",
				     parent);
	if (!place.has_port)
		place.port = SML_DEFAULT_PORT;
	snprintf(uplink->host, sizeof(uplink->host), "%s", place.host);
	sml_host_port_text(uplink->where, sizeof(uplink->where), place.host, place.port);
	return note_addresses(uplink, &place);
}

int sml_uplink_start(struct sml_server *server)
{
	struct sml_uplink *uplink = &server->uplink;

	uplink->timer = sml_watch_new(server->loop, -1, on_timer, server);
	if (uplink->timer == NULL)
		return -ENOMEM;
	wait_before_next(uplink, 0);
	return 0;
}

void sml_uplink_close(struct sml_server *server)
{
	struct sml_uplink *uplink = &server->uplink;

	stop_try(uplink);
	sml_watch_free(uplink->timer);
	uplink->timer = NULL;
}

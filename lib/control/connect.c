/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/control/connect.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "switchml.h"

/* One address of several must not use up the time of all. */
#define ATTEMPT_NS (5 * SML_NS_PER_SEC)
/* Between looks for a rank 0 that is not there yet: soon at first. */
#define PAUSE_MIN_MS 2
#define PAUSE_MAX_MS 100

static int poll_ms(uint64_t until_ns)
{
	uint64_t now_ns = sml_now_ns();

	/* Rounded up: waking early would only mean another round. */
	return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / SML_NS_PER_MS + 1);
}

static int finish_connect(int fd, uint64_t until_ns)
{
	struct pollfd ready = {.fd = fd, .events = POLLOUT};
	socklen_t length = sizeof(int);
	int error = 0, n;

	do
		n = poll(&ready, 1, poll_ms(until_ns));
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return -ETIMEDOUT;
	if (n < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		return -errno;
	return -error;
}

/* A socket, or -errno. */
static int attempt(const struct sml_endpoint *endpoint, const struct sml_interface *interface,
		   uint64_t until_ns)
{
	int fd = socket(endpoint->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			0);
	int on = 1, error;

	if (fd < 0)
		return -errno;
	error = sml_interface_bind(interface, fd);
	if (error)
		goto err_close;
	if (connect(fd, &endpoint->address.any, sml_sockaddr_length(&endpoint->address)) < 0) {
		error = errno == EINPROGRESS ? finish_connect(fd, until_ns) : -errno;
		if (error)
			goto err_close;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;

err_close:
	close(fd);
	return error;
}

/* What a failed attempt means, and what to do. */
static const char *advice(int error, bool embedded)
{
	switch (-error) {
	case ECONNREFUSED:
		return embedded ? "nothing listens there: has rank 0 been started, and is "
				  "SWITCHML_MASTER_ADDR (MASTER_ADDR) the host that it runs on?"
				: "nothing listens there: start `switchml switch`, or check "
				  "SWITCHML_SWITCH (a firewall that rejects looks the same)";
	case ETIMEDOUT:
		return "no answer: is the host up, and does a firewall let the TCP port pass?";
	case EHOSTUNREACH:
	case ENETUNREACH:
		return "check the address, the network and its firewalls "
		       "(SWITCHML_SOCKET_IFNAME chooses the interface)";
	default:
		return "check the address and the network";
	}
}

/* Once through the list. 0, or the last error, told. */
static int try_all(struct sml_connection *connection, const struct sml_connect_config *config)
{
	int error = -ETIMEDOUT;

	for (unsigned i = 0; i < config->n_endpoints; i++) {
		const struct sml_endpoint *endpoint = &config->endpoints[i];
		uint64_t until_ns = sml_now_ns() + ATTEMPT_NS;
		int fd;

		if (until_ns > config->deadline_ns)
			until_ns = config->deadline_ns;
		error = sml_interface_choose(&connection->interface, config->interface,
					     &endpoint->address, endpoint->name);
		if (error == SML_ERROR_CONFIG)
			return error;
		if (error)
			continue;
		fd = attempt(endpoint, &connection->interface, until_ns);
		if (fd >= 0) {
			connection->fd = fd;
			connection->endpoint = endpoint;
			return 0;
		}
		error = fd;
		sml_error_set(error, "the switch at %s cannot be reached: %s; %s", endpoint->name,
			      strerrordesc_np(-error), advice(error, config->embedded));
		sml_log(config->log, SML_LOG_TRACE, "%s", sml_error_last());
	}
	return error;
}

int sml_connect(struct sml_connection *connection, const struct sml_connect_config *config)
{
	unsigned pause_ms = PAUSE_MIN_MS;
	int error;

	for (;;) {
		error = try_all(connection, config);
		if (error == 0 || error == SML_ERROR_CONFIG)
			return error;
		if (!config->embedded ||
		    sml_now_ns() + pause_ms * SML_NS_PER_MS >= config->deadline_ns)
			return sml_error_set(SML_ERROR_UNREACHABLE, "%s", sml_error_last());
		poll(NULL, 0, (int)pause_ms);
		pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
	}
}

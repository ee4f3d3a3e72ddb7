/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/doctor/peers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/listen_address.h"

#define CONNECT_MS 2000
#define PAUSE_MS   100
#define SEND_MS	   5000

void peers_link_close(struct peers_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->line);
	link->fd = -1;
	link->line = NULL;
	link->length = 0;
}

bool peers_link_send(struct peers_link *link, json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);
	size_t length = text ? strlen(text) : 0, sent = 0;
	uint64_t deadline_ns = sml_now_ns() + SEND_MS * SML_NS_PER_MS;

	json_decref(message);
	if (text)
		text[length++] = '\n'; /* in place of the NUL */
	while (link->fd >= 0 && sent < length) {
		struct pollfd room = {.fd = link->fd, .events = POLLOUT};
		ssize_t n = send(link->fd, text + sent, length - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			sent += (size_t)n;
		else if (errno != EAGAIN || poll(&room, 1, sml_left_ms(deadline_ns)) <= 0)
			break;
	}
	free(text);
	if (length && sent == length)
		return true;
	peers_link_close(link);
	return false;
}

/* The first line of what has come, taken off. NULL: there is no whole line. */
static json_t *cut_line(struct peers_link *link)
{
	char *end = link->length ? memchr(link->line, '\n', link->length) : NULL;
	json_t *message;
	size_t used;

	if (end == NULL)
		return NULL;
	used = (size_t)(end - link->line) + 1;
	message = json_loadb(link->line, used, 0, NULL);
	memmove(link->line, link->line + used, link->length - used);
	link->length -= used;
	if (!json_is_object(message)) { /* not one of us */
		json_decref(message);
		message = NULL;
		peers_link_close(link);
	}
	return message;
}

json_t *peers_link_take(struct peers_link *link)
{
	json_t *message = cut_line(link);
	ssize_t n;

	if (message || link->fd < 0)
		return message;
	if (link->line == NULL)
		link->line = malloc(PEERS_LINE_BYTES);
	n = link->line && link->length < PEERS_LINE_BYTES
		    ? recv(link->fd, link->line + link->length, PEERS_LINE_BYTES - link->length,
			   MSG_DONTWAIT)
		    : 0;
	if (n > 0) {
		link->length += (size_t)n;
		return cut_line(link);
	}
	if (n == 0 || errno != EAGAIN)
		peers_link_close(link);
	return NULL;
}

json_t *peers_link_receive(struct peers_link *link, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd news = {.fd = link->fd, .events = POLLIN};
		json_t *message = peers_link_take(link);
		int wait_ms = sml_left_ms(deadline_ns);

		if (message || link->fd < 0 || wait_ms == 0)
			return message;
		poll(&news, 1, wait_ms);
	}
}

int peers_open(int type, const struct sml_port_range *ports, int *fd)
{
	struct sml_listen_address local;
	socklen_t length = sizeof(local.address);
	int error = sml_listen_address_parse(NULL, 0, &local), on = 1;

	*fd = error ? error : sml_listen_address_socket(&local, type);
	if (*fd < 0)
		return *fd;
	/* For one agreed port: connections of a job that has ended do not count. */
	if (type == SOCK_STREAM && ports->first && ports->first == ports->last)
		setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	error = sml_port_range_bind(ports, &local.address, *fd);
	if (error == 0 && type == SOCK_STREAM && listen(*fd, PEERS_MAX) < 0)
		error = -errno;
	if (error == 0 && getsockname(*fd, &local.address.any, &length) < 0)
		error = -errno;
	if (error == 0)
		return ntohs(local.address.v4.sin_port);
	close(*fd);
	*fd = -1;
	return error;
}

void peers_choose_device(const char *filter, char device[IFNAMSIZ])
{
	struct ifaddrs *all = NULL;

	device[0] = '\0';
	if (!filter || !*filter || getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i && !device[0]; i = i->ifa_next)
		if (i->ifa_addr && (i->ifa_flags & IFF_UP) &&
		    (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
		    sml_interface_matches(filter, i->ifa_name))
			snprintf(device, IFNAMSIZ, "%s", i->ifa_name);
	freeifaddrs(all);
}

void peers_bind_device(int fd, const char *device)
{
	if (*device)
		(void)setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device,
				 (socklen_t)strlen(device));
}

/* As the library binds its control connection. */
static int bind_source(const void *filter, const union sml_sockaddr *to, int fd)
{
	const struct sml_port_range any = {0};
	struct sml_interface interface;
	int error = sml_interface_choose(&interface, filter, to, "rank 0");

	return error ? error : sml_interface_bind(&interface, &any, fd);
}

int peers_connect(const char *host, uint16_t port, const char *filter, uint64_t deadline_ns)
{
	struct sml_connect wish = {.host = host,
				   .port = port,
				   .prepare = filter && *filter ? bind_source : NULL,
				   .self = filter};

	for (;;) {
		int left_ms = sml_left_ms(deadline_ns), fd;

		wish.timeout_ms = left_ms < CONNECT_MS ? left_ms : CONNECT_MS;
		fd = sml_connect(&wish);
		if (fd >= 0 || fd == SML_ERROR_CONFIG || left_ms == 0)
			return wish.unknown ? -ENOENT : fd;
		poll(NULL, 0, PAUSE_MS); /* rank 0 may not be there yet */
	}
}

bool peers_address(const char *text, int port, union sml_sockaddr *address)
{
	*address = (union sml_sockaddr){.any.sa_family = AF_INET};
	if (inet_pton(AF_INET, text, &address->v4.sin_addr) != 1) {
		address->any.sa_family = AF_INET6;
		if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) != 1)
			return false;
	}
	sml_sockaddr_set_port(address, (uint16_t)port);
	return true;
}

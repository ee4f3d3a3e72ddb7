/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz/port.h"

#include <stdlib.h>
#include <unistd.h>

#define BACKLOG 32

static void no_line(void *context, enum sml_jobs_level level, const char *line)
{
	(void)context;
	(void)level;
	(void)line;
}

void peer_port_move(struct peer_port *port, struct sml_server *server)
{
	static struct sml_jobs_output output;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	output = sml_server_output;
	output.log = no_line;
	server->jobs.output = &output;
	*port = (struct peer_port){.address.sun_family = AF_UNIX, .bytes = sizeof(port->address)};
	/* Any free abstract name. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&port->address, sizeof(sa_family_t)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&port->address, &port->bytes) < 0 ||
	    listen(fd, BACKLOG) < 0 || sml_watch_set(server->accept, 0) < 0 ||
	    dup2(fd, server->listen_fd) < 0 || sml_watch_set(server->accept, SML_WATCH_READ) < 0)
		abort();
	close(fd);
}

void peer_port_connect(const struct peer_port *port, struct peer *peer)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		abort();
	if (connect(fd, (const struct sockaddr *)&port->address, port->bytes) < 0) {
		close(fd);
		return;
	}
	peer_connect(peer, fd);
}

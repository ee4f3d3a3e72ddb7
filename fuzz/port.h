/* SPDX-License-Identifier: BSD-3-Clause */
/* A control server's port as a Unix socket: there are no addresses to run out of. */
#ifndef SML_FUZZ_PORT_H
#define SML_FUZZ_PORT_H

#include <sys/socket.h>
#include <sys/un.h>

#include "fuzz/peer.h"
#include "switch/control/server.h"

struct peer_port {
	struct sockaddr_un address;
	socklen_t bytes;
};

/* From now on the server listens there. */
void peer_port_move(struct peer_port *port, struct sml_server *server);

/* Where the backlog is full, it is not there, and may try again. */
void peer_port_connect(const struct peer_port *port, struct peer *peer);

#endif

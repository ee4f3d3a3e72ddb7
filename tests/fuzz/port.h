/* SPDX-License-Identifier: BSD-3-Clause */
/* The port of a control server as a Unix socket, so a test cannot run out of TCP ports. */
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

/* From now on, the server listens on this socket, and logs nothing. */
void peer_port_move(struct peer_port *port, struct sml_server *server);

/* If the backlog is full, the peer is not connected and may try again. */
void peer_port_connect(const struct peer_port *port, struct peer *peer);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A socket for results that a switch sends to a multicast group. */
#ifndef SML_LIB_UDP_GROUP_H
#define SML_LIB_UDP_GROUP_H

#include "lib/transport/interface.h"

/*
 * Opens a socket that takes only the switch's packets to the group's address and port, and only by
 * this interface. Ranks that share a host each get all of them. Returns the descriptor, or a
 * negative errno.
 */
int sml_udp_group_join(const union sml_sockaddr *group, const union sml_sockaddr *from,
		       const struct sml_interface *interface);

#endif

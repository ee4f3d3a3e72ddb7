/* SPDX-License-Identifier: BSD-3-Clause */
/* By which interface, and to which MAC address, the kernel would send: asked by netlink. */
#ifndef SML_LIB_AFXDP_ROUTE_H
#define SML_LIB_AFXDP_ROUTE_H

#include <net/if.h>

#include "lib/transport/afxdp/flow.h"

struct mnl_socket;

struct sml_route {
	struct mnl_socket *netlink;
	int ifindex;
	char name[IF_NAMESIZE];
	bool local;    /* to this very host */
	bool ethernet; /* else there are no MAC addresses */
	uint32_t mtu;  /* of the interface */
	uint8_t own_mac[SML_MAC_BYTES];
	union sml_sockaddr next_hop; /* the gateway, or the peer itself */
};

/*
 * The route to a peer; ifindex: by this interface, or 0. 0 or -errno; the route is to
 * be closed in any case.
 */
int sml_route_open(struct sml_route *route, const union sml_sockaddr *peer, int ifindex);
void sml_route_close(struct sml_route *route);

/* The next hop's address; false: the kernel does not know it (now). */
bool sml_route_next_mac(struct sml_route *route, uint8_t mac[SML_MAC_BYTES]);

#endif

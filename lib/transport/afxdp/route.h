/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks netlink which interface and which MAC address the kernel would use for a packet. */
#ifndef SML_LIB_AFXDP_ROUTE_H
#define SML_LIB_AFXDP_ROUTE_H

#include <net/if.h>

#include "lib/transport/afxdp/flow.h"

struct mnl_socket;

struct sml_route {
	struct mnl_socket *netlink;
	int ifindex;
	char name[IF_NAMESIZE];
	bool local;    /* the destination is this host */
	bool ethernet; /* false: there are no MAC addresses */
	uint32_t mtu;  /* the interface's own address */
	uint8_t own_mac[SML_MAC_BYTES];
	union sml_sockaddr next_hop; /* the gateway, or the peer itself */
};

/*
 * Find the route to a peer. ifindex: the route must use this interface, or 0. 0 or -errno.
 * The caller must close the route in both cases.
 */
int sml_route_open(struct sml_route *route, const union sml_sockaddr *peer, int ifindex);
void sml_route_close(struct sml_route *route);

/* The next hop's address. False: the kernel does not know it at the moment. */
bool sml_route_next_mac(struct sml_route *route, uint8_t mac[SML_MAC_BYTES]);

#endif

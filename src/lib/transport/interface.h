/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which network interface the packets leave by, and how large they may be: by
 * the route to the switch, or by names that the user gave.
 */
#ifndef SML_LIB_INTERFACE_H
#define SML_LIB_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"
#include "net/port_range.h"

struct sml_interface {
	char name[IFNAMSIZ];
	union sml_sockaddr source; /* port 0 */
	bool bound;		   /* by the user's choice: sockets bind to it */
	bool to_device;		   /* and to the device: the peer is not this very host */
	uint32_t mtu;		   /* of the path to the peer at most: the probes tell */
	uint32_t link_mbits;	   /* as its driver says; 0 if not known */
};

/*
 * filter: NULL; or "eth0,ib": the first interface whose name begins so; or
 * "^lo,docker": the first whose name doesn't. peer_name is for error texts. Returns 0 or a negative
 * error, and sets the error text.
 */
int sml_interface_choose(struct sml_interface *interface, const char *filter,
			 const union sml_sockaddr *peer, const char *peer_name);

/* Whether a name passes such a filter. */
bool sml_interface_matches(const char *filter, const char *name);

/* Bind a socket that is not connected yet, to one of these ports. 0 or -errno. */
int sml_interface_bind(const struct sml_interface *interface, const struct sml_port_range *ports,
		       int fd);

/* The largest lane count of the wire format whose packets fit; 0 if none does. */
uint16_t sml_lanes_of_mtu(uint32_t mtu, int family);

/*
 * The headers of UDP and IPv6. Those of IPv4 have 20 bytes less, but no two lengths of full packets
 * are so close, so an MTU of a packet and this is right for either.
 */
#define SML_HEADERS_MOST 48

#endif

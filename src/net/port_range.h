/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ports that a rank may open (SWITCHML_PORTS). Without a range, the kernel chooses. A range
 * holds for TCP and UDP alike: their port numbers do not collide.
 */
#ifndef SML_NET_PORT_RANGE_H
#define SML_NET_PORT_RANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/address.h"

struct sml_port_range {
	uint16_t first, last; /* 0 for any port */
};

/* "FIRST-LAST". False if these are not two ports, or the first is larger than the last. */
bool sml_port_range_parse(const char *text, struct sml_port_range *range);

static inline bool sml_port_range_is_set(const struct sml_port_range *range)
{
	return range->first != 0;
}

static inline unsigned sml_port_range_count(const struct sml_port_range *range)
{
	return range->last - range->first + 1u;
}

static inline bool sml_port_range_has(const struct sml_port_range *range, long port)
{
	return port >= range->first && port <= range->last;
}

/*
 * Binds a socket to this address and to the first free port of the range; without a range, to any
 * port. 0, -EADDRINUSE (all ports of the range are taken) or another negative errno.
 */
int sml_port_range_bind(const struct sml_port_range *range, const union sml_sockaddr *address,
			int fd);

#endif

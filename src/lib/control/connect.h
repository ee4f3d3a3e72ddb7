/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection to a switch: finder.h makes them. */
#ifndef SML_LIB_CONNECT_H
#define SML_LIB_CONNECT_H

#include "lib/control/endpoints.h"
#include "lib/transport/interface.h"

struct sml_reached {
	int fd; /* not blocking, no delay */
	const struct sml_endpoint *endpoint;
	struct sml_interface interface;
};

#endif

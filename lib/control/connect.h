/* SPDX-License-Identifier: BSD-3-Clause */
/* A TCP connection to the first switch of a list that takes one. */
#ifndef SML_LIB_CONNECT_H
#define SML_LIB_CONNECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "lib/control/endpoints.h"
#include "lib/transport/interface.h"

struct sml_connect_config {
	const struct sml_endpoint *endpoints;
	unsigned n_endpoints;
	const char *interface; /* filter, or NULL */
	bool embedded;	       /* rank 0 may come later: go on trying until the deadline */
	uint64_t deadline_ns;
	const struct sml_log *log;
};

struct sml_connection {
	int fd; /* not blocking, no delay */
	const struct sml_endpoint *endpoint;
	struct sml_interface interface;
};

/* 0 or an error, told by sml_error_set(). The caller closes fd. */
int sml_connect(struct sml_connection *connection, const struct sml_connect_config *config);

#endif

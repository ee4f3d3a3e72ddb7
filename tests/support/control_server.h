/* SPDX-License-Identifier: BSD-3-Clause */
/* A server of the control port that serves jobs without a switch, and that a test turns by hand. */
#ifndef SML_TESTS_CONTROL_SERVER_H
#define SML_TESTS_CONTROL_SERVER_H

#include <signal.h>
#include <stdlib.h>

#include "support/test.h"
#include "switch/control/server.h"
#include "switch/switch.h"

static inline struct sml_server *control_server_open(void)
{
	struct sml_server *server = calloc(1, sizeof(*server));

	signal(SIGPIPE, SIG_IGN);
	assert_non_null(server);
	sml_switch_config_init(&server->config);
	server->config.rendezvous = true;
	assert_int_equal(sml_server_open(server, "127.0.0.1", 0), 0);
	return server;
}

static inline void control_server_close(struct sml_server *server)
{
	sml_server_close(server);
	free(server);
}

#endif

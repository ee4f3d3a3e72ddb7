/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch whose control port is attacked, and a job of two ranks on it that must run unharmed.
 * Each test opens the switch with config_of_test(), and has tear_down() as its tear-down.
 */
#ifndef SML_TESTS_SUPPORT_UNHARMED_H
#define SML_TESTS_SUPPORT_UNHARMED_H

#include <errno.h>
#include <sys/socket.h>

#include "support/switch_client.h"
#include "support/test.h"

/* Longer than a busy machine stalls between connecting and joining. */
#define GREETING_MS 3000

static uint16_t port;
static struct client members[2];

static inline struct sml_switch_config config_of_test(void)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.greeting_ms = GREETING_MS;
	return config;
}

static inline void tear_down(void)
{
	clients_close(members, 2);
	client_close_switch();
}

static inline void start_job(void)
{
	clients_start(members, 2, "127.0.0.1", port, "unharmed");
}

static inline void expect_unharmed(void)
{
	for (uint32_t rank = 0; rank < 2; rank++)
		client_contribute(&members[rank], 4, 0, 8, 3);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_result(&members[rank], 4, 0, 8, 6);
}

/* Has the switch closed this connection? Does not wait. Drops what the switch sends. */
static inline bool has_ended(const struct client *client)
{
	unsigned char ignored[4096];
	ssize_t n;

	do
		n = recv(client->tcp, ignored, sizeof(ignored), MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno == ECONNRESET;
}

#endif

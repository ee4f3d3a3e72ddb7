/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks on a switch and on the ranks of a job by an attacker who can reach their ports.
 * Each attack has a thread and repeats one action until it is told to stop. Attacks trust
 * nothing and never give up: after a connection is refused or closed, they open a new one.
 *
 * The invariant: an attack counts what it has done, not what it has tried: sent bytes and
 * received answers.
 */
#ifndef SML_TESTS_ATTACKS_H
#define SML_TESTS_ATTACKS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/gen.h"

#define ATTACKS_PORTS 64

struct victim {
	struct sockaddr_in control, data;
	const char *job; /* the running job */
	uint32_t world_size;
	uint16_t ports[ATTACKS_PORTS]; /* UDP ports of its ranks */
	unsigned n_ports;
	/* The recorded handshake of an honest rank; 0 bytes: there is none. */
	uint8_t hello[4096];
	size_t hello_bytes;
};

/* Connections that stay open. If there is no room for a new one, the oldest is closed. */
struct herd {
	int fds[1400];
	unsigned n, most, next;
};

struct attack {
	const char *name;
	/* Do the action once more. */
	void (*act)(struct attack *attack);
	uint64_t enough;
	unsigned keeps; /* number of connections in herd */
	bool needs_root;
	const struct victim *victim;
	uint64_t done; /* atomic */
	struct gen gen;
	struct herd herd;
	int fd; /* -1: none */
};

/* Tables of attacks. The last entry has no name. */
extern struct attack attacks_on_control[], attacks_on_handshakes[], attacks_on_packets[];

void attack_done(struct attack *attack, uint64_t n);

/* Connect to the victim's control port. -1: no connection could be made. Every wait is bounded. */
int attack_connect(const struct attack *attack);
/* Send all of these bytes. Returns whether that succeeded. */
bool attack_say(int fd, const void *bytes, size_t n);
/* Wait for an answer or the end of the connection. Returns whether one came. */
bool attack_hear(int fd);
/* Keep a connection open, and close the oldest if there is no room. */
void attack_keep(struct attack *attack, int fd);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attacks on a switch and on the ranks of a job, by somebody who reaches their ports: each
 * has a thread, and does one thing after the other until it is told to stop. They believe
 * nothing, and never give up: a connection that is refused or closed is made again.
 *
 * The invariant: an attack counts what it has done, not what it has tried: bytes that have
 * been sent, answers that have come.
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
	const char *job; /* that runs */
	uint32_t world_size;
	uint16_t ports[ATTACKS_PORTS]; /* of its ranks, UDP */
	unsigned n_ports;
	/* What somebody has recorded of an honest rank's handshake; 0 bytes: there is none. */
	uint8_t hello[4096];
	size_t hello_bytes;
};

/* Connections that are kept; the oldest ends when there is no room for the next. */
struct herd {
	int fds[1400];
	unsigned n, most, next;
};

struct attack {
	const char *name;
	/* One thing more. */
	void (*act)(struct attack *attack);
	uint64_t enough;
	unsigned keeps; /* connections, in herd */
	bool needs_root;
	const struct victim *victim;
	uint64_t done; /* atomic */
	struct gen gen;
	struct herd herd;
	int fd; /* -1: none */
};

/* The tables, which end with one that has no name. */
extern struct attack attacks_on_control[], attacks_on_handshakes[], attacks_on_packets[];

void attack_done(struct attack *attack, uint64_t n);

/* A connection to the victim's control port; -1: none could be made. Every wait is bounded. */
int attack_connect(const struct attack *attack);
/* All of these bytes have been sent. */
bool attack_say(int fd, const void *bytes, size_t n);
/* An answer, or the end, has come. */
bool attack_hear(int fd);
/* Keep a connection open, in place of the oldest. */
void attack_keep(struct attack *attack, int fd);

#endif

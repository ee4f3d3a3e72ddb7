/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml doctor --peers`: all ranks of a job meet at rank 0, as they would without a switch,
 * and check every pair of hosts.
 *
 *	rank 0's coordinator (peers_meet.c)          each rank, rank 0 too (peers_rank.c)
 *	            <---------- hello      who I am, my settings, my ports
 *	time        ---------->            what time is it?
 *	probe       ---------->            of each host, one rank: names, TCP and UDP to all others
 *	            <---------- complete   all have been heard
 *	stop        ---------->
 *	            <---------- report
 *	switch      ---------->            one host after the other: can you reach the switches?
 *	open        ---------->            a trial: open the job, sum, …
 *	            <---------- opened
 *	close       ---------->            … and close it
 *	end         ---------->
 *
 * Each message is a line with a JSON object. Every wait has a deadline: a rank that does not come,
 * or ends, is named.
 */
#ifndef SML_CMD_DOCTOR_PEERS_H
#define SML_CMD_DOCTOR_PEERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cmd/doctor/doctor.h"
#include "core/wire.h"
#include "lib/transport/interface.h"
#include "net/address.h"
#include "net/connect.h"
#include "net/port_range.h"
#include "switchml.h"

#define PEERS_LINE_BYTES 65536

/* ---- peers_link.c: lines of JSON over TCP ---- */

struct peers_link {
	int fd; /* -1 if closed */
	size_t length;
	char *line; /* PEERS_LINE_BYTES; NULL until the first byte */
};

/* Sends the message, and frees it. Returns false if the other end is gone. */
bool peers_link_send(struct peers_link *link, json_t *message);

/*
 * Waits for the next message. Returns NULL if the deadline has passed, or if the other end is gone;
 * then the link is closed.
 */
json_t *peers_link_receive(struct peers_link *link, uint64_t deadline_ns);

/*
 * Returns a whole message that has already arrived, without waiting. Returns NULL if there is none;
 * the link may be closed then.
 */
json_t *peers_link_take(struct peers_link *link);

void peers_link_close(struct peers_link *link);

/*
 * Opens a socket of any address of this host, on a port of the range. Returns its port, or a
 * negative errno.
 */
int peers_open(int type, const struct sml_port_range *ports, int *fd);

/*
 * Tries to connect until the deadline, from the interface that the filter chooses (NULL for the
 * route's). Returns a descriptor or a negative errno. If the filter chooses no interface, returns
 * SML_ERROR_CONFIG at once, and sets the error text.
 */
int peers_connect(const char *host, uint16_t port, const char *filter, uint64_t deadline_ns);

/*
 * Parses a numeric address and a port, for sockets of both families. Returns false if the text is
 * none.
 */
bool peers_address(const char *text, int port, union sml_sockaddr *address);

/* ---- peers_probe.c: one host's tests of all others ---- */

struct peers_sockets {
	int udp, tcp;
	int udp_port, tcp_port;
	bool v6;
	char device[IFNAMSIZ]; /* all packets leave by it; "": by the route */
};

/* The interface that a rank with this SWITCHML_SOCKET_IFNAME would use; "": the route's. */
void peers_choose_device(const char *filter, char device[IFNAMSIZ]);

/* Packets of this socket leave by the device, as those of a rank would. "": by the route. */
void peers_bind_device(int fd, const char *device);

/* The report: an array with an object for each host of the plan. */
json_t *peers_probe(struct peers_link *coordinator, const struct peers_sockets *sockets,
		    const json_t *plan);

/* ---- peers_rank.c ---- */

/* Run this process as a rank. Returns the exit status: 0, or 1 after an error on standard error. */
int peers_rank_run(const struct sml_config *config, const char *host, unsigned wait_s);

/* ---- peers_meet.c ---- */

/* A report has each pair of ranks, so it is of a job that fits one switch. */
#define PEERS_MAX SML_MAX_CHILDREN

struct peers_rank {
	struct peers_link link;
	json_t *hello;	   /* NULL until it has come */
	json_t *report;	   /* of its host; NULL if another rank speaks for it, or it has not */
	json_t *at_switch; /* what is not fine between its host and the switches */
	double offset_ms;  /* of its clock from rank 0's */
	double error_ms;
	unsigned host;
	char address[64];
};

struct peers_host {
	unsigned rank; /* that speaks for it */
	unsigned mtu;  /* the largest of its interfaces that lead to others */
};

struct peers {
	const struct sml_config *config;
	bool embedded;
	unsigned n_ranks, n_hosts;
	struct peers_rank ranks[PEERS_MAX];
	struct peers_host hosts[PEERS_MAX];
	struct doctor *doctor;
};

/* ---- peers_judge.c: what the reports mean ---- */

void peers_judge_ranks(struct peers *peers);
void peers_judge_pairs(struct peers *peers);

const char *peers_text(const struct peers *peers, unsigned rank, const char *member);
json_t *peers_pair(const struct peers *peers, unsigned from, unsigned to);

/* The IP packet of the largest probe that came; 0 if there is none. */
unsigned peers_largest(const struct peers *peers, unsigned from, unsigned to);

/* ---- peers_print.c ---- */

void peers_print(const struct peers *peers);
json_t *peers_json(const struct peers *peers);

/*
 * `switchml doctor --peers`, for any rank. The exit status, or -1 if rank 0 has findings to print.
 */
int peers_run(struct peers *peers, unsigned wait_s);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `switchml doctor --peers`: all ranks of a job meet at rank 0, as they would without a switch,
 * and check every pair of hosts. Messages, job key and certificates are those of control
 * connections: rank 0 listens (peers_meet.c), and each rank, rank 0 too, does what it is asked
 * (peers_rank.c). control.proto draws the order of the messages; the tasks are:
 *
 *	TIME		what time is it?
 *	PROBE		one rank of a host: names, TCP and UDP to all others, again and again
 *	SWITCHES	one host after the other: can you reach the switches?
 *	TRIAL		open the job, sum, and close it
 *
 * Every wait has a deadline: a rank that does not come, or ends, is named.
 */
#ifndef SML_CMD_DOCTOR_PEERS_H
#define SML_CMD_DOCTOR_PEERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/doctor/doctor.h"
#include "cmd/shared/talk.h"
#include "control/envelope.h"
#include "core/wire.h"
#include "lib/settings/settings.h"
#include "net/listen_address.h"
#include "switchml.h"

/* A report has each pair of ranks, so it is of a job that fits one switch. */
#define PEERS_MAX SML_MAX_CHILDREN

struct peers_rank {
	struct sml_talk talk;
	uint32_t asked;		     /* the number of its last task */
	SmlControl__Hello *hello;    /* NULL until it has come */
	SmlControl__Done *report;    /* of its host; NULL: another rank's task, or it is silent */
	SmlControl__Done *at_switch; /* what is not fine between its host and the switches */
	double offset_ms;	     /* of its clock from rank 0's */
	double error_ms;
	unsigned host;
	unsigned memory; /* the first rank that shares memory with this one: itself */
};

struct peers_host {
	unsigned rank;	/* that speaks for it */
	unsigned mtu;	/* the largest of its interfaces that lead to others */
	char name[128]; /* with its address, if another host has the same name, as containers may */
};

struct peers {
	const struct sml_config *config;
	struct sml_settings settings; /* which follow from it */
	struct sml_tls *tls;	      /* rank 0's, who listens */
	char refused[400];	      /* the last that does not use TLS as rank 0 does; "": none */
	bool embedded;
	unsigned n_ranks, n_here, n_hosts;
	struct peers_rank ranks[PEERS_MAX];
	struct peers_host hosts[PEERS_MAX];
	struct doctor *doctor;
};

/* What a rank may say to rank 0, before and after its Hello, and rank 0 to a rank. */
enum peers_end { PEERS_STRANGER, PEERS_RANK, PEERS_RANK_0 };
extern const struct sml_rules peers_rules;

/* The speaker of a host. */
static inline const struct peers_rank *peers_speaker(const struct peers *peers, unsigned host)
{
	return &peers->ranks[peers->hosts[host].rank];
}

/*
 * `switchml doctor --peers`, for any rank. The exit status, or -1 if rank 0 has findings to print.
 */
int peers_run(struct peers *peers, unsigned wait_s);

/* ---- peers_rank.c ---- */

/*
 * Opens a socket of any address of this host, on a port of the range. Returns its port, or a
 * negative errno.
 */
int peers_open(int type, const struct sml_port_range *ports, int *fd);

/* As the library binds its control connection: for sml_connect_begin(). */
int peers_bind(const void *filter, const union sml_sockaddr *to, int fd);

/* Run this process as a rank. Returns the exit status: 0, or 1 after an error on standard error. */
int peers_rank_run(const struct peers *peers, const char *host, unsigned wait_s);

/* ---- peers_probe.c: one host's tests of all others ---- */

/* Before the first round: of these hosts, which must stay, through this socket. */
void peers_probe_begin(const SmlControl__Task *task, const char *interface, int udp);

/* A round: what is known by now. */
void peers_probe(SmlControl__Done *done);

/* ---- peers_judge.c: what the reports mean ---- */

#define PEERS_SETTINGS	    10
#define PEERS_SETTING_BYTES 256

/* Those that ranks compare. */
void peers_settings(const struct sml_config *config,
		    char texts[PEERS_SETTINGS][PEERS_SETTING_BYTES]);

void peers_judge_ranks(struct peers *peers);
void peers_judge_pairs(struct peers *peers);

/* What host `from` has found out about `to`; NULL: nothing. */
const SmlControl__Path *peers_path(const struct peers *peers, unsigned from, unsigned to);

/* The IP packet of the largest probe that came; 0 if there is none. */
unsigned peers_largest(const struct peers *peers, unsigned from, unsigned to);

/* ---- peers_print.c ---- */

void peers_print(const struct peers *peers);
json_t *peers_json(const struct peers *peers);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole switch, control plane and UDP dataplane, as threads of this process:
 * the daemon's body; and, without a dataplane, where ranks that embed the
 * stripes of their job find each other. Opens its sockets, then serves
 * until it is closed.
 */
#ifndef SML_SWITCH_SWITCH_H
#define SML_SWITCH_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/tls.h"

struct sml_switch;
struct sml_dataplane_operations;

/* Where an XDP program runs. */
enum sml_xdp_mode {
	SML_XDP_AUTO,	 /* in the driver, or, where it can't, as below; that is told */
	SML_XDP_NATIVE,	 /* in the driver, or not at all */
	SML_XDP_GENERIC, /* in front of the stack: any driver, slowly */
};

struct sml_switch_config {
	const char *listen;	/* "ADDR", "ADDR:PORT", "[V6]:PORT", ":PORT"; NULL: all, 28500 */
	uint16_t data_port;	/* UDP; 0: the control port's number */
	uint32_t max_slots;	/* in the pool, 4096 */
	uint32_t max_jobs;	/* 64 */
	uint32_t threads;	/* of the dataplane, 1 */
	uint32_t heartbeat_ms;	/* the most that a worker may ask for, 60000 */
	uint32_t max_strangers; /* connections that have not joined, 1024 */
	uint32_t greeting_ms;	/* each of them may stay so long, 10000 */
	/* Files, and what they are called where they are set; none: no TLS. */
	struct sml_tls_files tls, tls_names;
	const struct sml_dataplane_operations *dataplane; /* NULL: UDP */
	const char *multicast; /* "GROUP[:PORT]" for results of the first job; NULL: no multicast */
	uint32_t multicast_hops; /* that they may go, 1 */
	bool rendezvous;	 /* no slots here: ranks that embed the stripes only meet here */
	uint32_t local_stripes;	 /* then: so many are enough for ranks of one host; 0: any */
	const char *interfaces;	 /* for XDP: "eth0,eth1" */
	enum sml_xdp_mode xdp_mode;
	int debug; /* as struct sml_config's */
};

void sml_switch_config_init(struct sml_switch_config *config);

/*
 * Starts a switch. Port 0 takes a free one (sml_switch_port() tells). 0 or a
 * negative number; then error_text (of error_bytes) says why and what to do.
 */
int sml_switch_open(struct sml_switch **opened, const struct sml_switch_config *config,
		    char *error_text, size_t error_bytes);

uint16_t sml_switch_port(const struct sml_switch *opened);

/* What moves its packets, in words: "1 thread", "xdp (native) on eth0". */
void sml_switch_describe(const struct sml_switch *opened, char *text, size_t bytes);

/* Ends all jobs (their workers are told) and all threads. */
void sml_switch_close(struct sml_switch *opened);

#endif

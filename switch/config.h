/* SPDX-License-Identifier: BSD-3-Clause */
/* What a switch is opened with. switch.c fills in the defaults. */
#ifndef SML_SWITCH_CONFIG_H
#define SML_SWITCH_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "control/tls.h"

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
	/* Files or a job key, and what they are called where they are set; none: no TLS. */
	struct sml_tls_files tls, tls_names;
	struct sml_key_source job_key, job_key_names;	  /* to derive tls.job_key from */
	const struct sml_dataplane_operations *dataplane; /* NULL: UDP */
	const char *multicast; /* "GROUP[:PORT]" for results of the first job; NULL: no multicast */
	uint32_t multicast_hops; /* that they may go, 1 */
	bool rendezvous;	 /* no slots here: ranks that embed the stripes only meet here */
	const char *only_job;	 /* serve this job alone, of so many ranks; NULL: any */
	uint32_t only_world_size;
	uint32_t local_stripes; /* then: so many are enough for ranks of one host; 0: any */
	const char *interfaces; /* for XDP: "eth0,eth1" */
	enum sml_xdp_mode xdp_mode;
	/*
	 * All sockets are open, and no thread runs yet: rights can be given up. keeps_bpf: maps
	 * are still used. NULL: for a process that is not the switch's alone.
	 */
	void (*seal)(bool keeps_bpf);
	int debug; /* as struct sml_config's */
};

#endif

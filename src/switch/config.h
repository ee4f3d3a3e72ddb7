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
	SML_XDP_AUTO, /* in the driver, or in generic mode (with a message) if the driver cannot */
	SML_XDP_NATIVE,	 /* only in the driver */
	SML_XDP_GENERIC, /* generic mode, in front of the stack: any driver, but slow */
};

struct sml_switch_config {
	const char *listen;	/* "ADDR", "ADDR:PORT", "[V6]:PORT", ":PORT"; NULL for all, 28500 */
	uint16_t data_port;	/* UDP; 0 for the control port's number */
	uint32_t max_slots;	/* in the pool, 4096 */
	uint32_t max_jobs;	/* 64 */
	uint32_t threads;	/* of the dataplane, 1 */
	uint32_t heartbeat_ms;	/* the longest heartbeat that a worker may ask for, 60000 */
	uint32_t max_strangers; /* connections that have not joined, 1024 */
	uint32_t greeting_ms;	/* how long each of them may stay, 10000 */
	/* Files or a job key, and what their settings are called; none: no TLS. */
	struct sml_tls_files tls, tls_names;
	struct sml_key_source job_key, job_key_names;	  /* to derive tls.job_key from */
	const struct sml_dataplane_operations *dataplane; /* NULL for UDP */
	const char *parent; /* "HOST[:PORT]": this switch is a leaf of that one; NULL if none */
	bool rendezvous; /* no slots here: ranks that embed the stripes only find each other here */
	const char *only_job; /* serve only this job, with this many ranks; NULL for any job */
	bool only_elsewhere;  /* rank 0 has joined it at another switch */
	uint32_t only_world_size;
	uint32_t local_stripes; /* then: this many are enough for ranks of one host; 0 for any */
	const char *interfaces; /* for XDP: "eth0,eth1" */
	const char *target;	/* for P4: the switch's control port, "[PROTOCOL://]HOST:PORT" */
	const char *hosts;	/* for P4: "MAC=PORT,MAC=PORT", where to forward all else */
	enum sml_xdp_mode xdp_mode;
	/*
	 * Called when all sockets are open and no thread runs yet, so that privileges can be
	 * dropped. keeps_bpf: maps are still used. NULL if the process is not only a switch.
	 */
	void (*seal)(bool keeps_bpf);
	int debug; /* as in struct sml_config */
};

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of dataplanes, and their configuration. job/dataplane.h describes their operations. */
#ifndef SML_SWITCH_DATAPLANE_H
#define SML_SWITCH_DATAPLANE_H

#include "job/dataplane.h"
#include "switch/config.h"

struct sml_dataplane_config {
	uint16_t port;	     /* UDP */
	const char *address; /* numeric; NULL for all */
	unsigned n_threads;
	const char *interfaces; /* "eth0,eth1", for dataplanes that need to know; or NULL */
	enum sml_xdp_mode xdp_mode;
	const char *target; /* "[PROTOCOL://]HOST:PORT" of a P4 switch; or NULL */
	const char *hosts;  /* behind it: "MAC=PORT,MAC=PORT"; never NULL */
	uint32_t max_jobs, max_slots;
	void (*seal)(bool keeps_bpf); /* as in struct sml_switch_config; called by open() */
	int debug;
	/* Called from the dataplane's threads, so it must only leave a note. */
	void (*on_mismatch)(void *context, const struct sml_mismatch *mismatch);
	/* The same: the parent has answered a probe. */
	void (*on_probed)(void *context);
	void *context;
};

extern const struct sml_dataplane_operations sml_dataplane_udp;

/*
 * Slots in a switch that runs our P4 program (p4/); needs config.target, config.hosts and
 * config.address. See docs/p4.md.
 */
extern const struct sml_dataplane_operations sml_dataplane_p4;

/* Slots in the kernel; needs config.interfaces, CAP_BPF and CAP_NET_ADMIN. See docs/xdp.md. */
extern const struct sml_dataplane_operations sml_dataplane_xdp;

#endif

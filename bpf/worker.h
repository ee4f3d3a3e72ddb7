/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The maps of a worker's XDP program (switchml_worker.bpf.c), shared by the program and by all
 * processes of the host that have sockets on the interface. Dead processes leave flows behind, but
 * no sockets: a flow is valid only while it owns its place.
 */
#ifndef SML_BPF_WORKER_H
#define SML_BPF_WORKER_H

#include <linux/types.h>

#define SML_WORKER_PLACES   256
#define SML_WORKER_FLOWS    4096
#define SML_WORKER_NO_QUEUE 0xffffffffu

/* As in packets from the switch to the worker. IPv4: mapped, in the last word. */
struct sml_worker_flow_key {
	__u32 source[4], destination[4];
	__u16 source_port, destination_port;
};

struct sml_worker_flow {
	__u64 owner;	  /* the socket's, as in sml_wowners at `place` */
	__u32 place;	  /* in sml_wsockets */
	__u32 queue;	  /* that the socket is bound to, or SML_WORKER_NO_QUEUE */
	__u32 most_bytes; /* of a frame that fits its buffers */
	__u32 seen;	  /* by the program: 1 + the queue that the last packet came by; 0: none */
};

#endif

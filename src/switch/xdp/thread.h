/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP dataplane's thread handles what reaches the socket despite the program: it answers
 * probes, sends completed results if the ports cannot transmit them for XDP, and passes on the
 * program's notes of mismatches. Slots are only in the kernel.
 */
#ifndef SML_SWITCH_XDP_THREAD_H
#define SML_SWITCH_XDP_THREAD_H

#include <bpf/libbpf.h>

#include "net/udp_results.h"
#include "net/udp_socket.h"
#include "switch/shared/daemon.h"
#include "switch/xdp/attach.h"
#include "switch/xdp/maps.h"

/* The longest packet that we accept. */
#define SML_XDP_LONGEST_BYTES (SML_HEADER_BYTES + 4 * SML_XDP_LANES)

struct sml_xdp_user_job {
	struct sml_daemon_job common; /* its key: see bpf/layout.h */
	/*
	 * As the socket received it; the program has learned its own copy from the same probes. A
	 * leaf's parent is the last, as in the program's table of peers.
	 */
	struct sml_path paths[SML_MAX_CHILDREN + 1][SML_MAX_SHARDS];
	uint32_t arrived_by[SML_MAX_CHILDREN + 1]
			   [SML_MAX_SHARDS]; /* interface; 0 if not heard yet, or not reported */
	bool has_path[SML_MAX_CHILDREN + 1][SML_MAX_SHARDS];
	/* Of a leaf: where it has sent its probes, and how many lanes have come back. */
	union sml_sockaddr parent;
	uint16_t up_lanes[SML_MAX_SHARDS];
};

struct sml_dataplane {
	struct sml_daemon daemon;
	struct sml_xdp_maps *maps;
	struct sml_xdp_ports ports;
	struct ring_buffer *events;
	union sml_sockaddr parent;  /* of a leaf; the control thread's */
	struct sml_results results; /* by the sender, under its mutex */
};

/* ring_buffer_sample_fn of the program's events; its context is the dataplane. */
int sml_xdp_thread_event(void *context, void *data, size_t bytes);

/* The socket, what comes by it, and what leaves. 0, or an error with a text. */
int sml_xdp_thread_open(struct sml_dataplane *dataplane);

extern const struct sml_daemon_service sml_xdp_thread_service;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's XDP program on an interface, and its maps. A process loads them once, and all
 * processes with permission share them. All of these processes hold the program's link, and
 * it is pinned nowhere, so the kernel removes the program when the last process ends for any
 * reason. If the interface already has another program, libxdp's dispatcher has to run both.
 * The dispatcher's pins remain when this process is killed. Then the program remains too,
 * passes every packet to the network stack, and the next worker removes it.
 */
#ifndef SML_LIB_AFXDP_DEVICE_H
#define SML_LIB_AFXDP_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/worker.h"

struct sml_afxdp_services;
struct switchml_worker;
struct xdp_program;
struct sml_queue;

struct sml_device {
	struct sml_device *next;
	unsigned n_users;
	int ifindex;
	char name[IF_NAMESIZE];
	uint32_t mtu;
	bool generic; /* the program does not run in the driver */
	bool partial; /* checksums may be left to hardware that does not exist */
	bool joined;  /* another process attached the program */
	int name_fd;  /* for the dispatcher: tells others that this process lives; else -1 */
	int link_fd;  /* -1: the dispatcher has it */
	int flows, owners, sockets; /* file descriptors of maps */
	struct switchml_worker *skeleton;
	struct xdp_program *dispatched;
	struct sml_queue *queues;
};

/*
 * Open the device and attach the program. 0, or a negative errno, and the library's error_last()
 * says why; -EBUSY if another program uses the interface and cannot share it.
 */
int sml_device_get(struct sml_device **got, const struct sml_afxdp_services *library, int ifindex,
		   const char *name, uint32_t mtu);
void sml_device_put(struct sml_device *device);

/* One lock for the lists of devices and of their queues. */
void sml_devices_lock(void);
void sml_devices_unlock(void);

/* Register a flow that has no socket yet, and find a place for its socket. 0 or -errno. */
int sml_device_add_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			struct sml_worker_flow *flow);
/* Read the flow again. Returns whether the program has seen a packet of the flow. */
bool sml_device_look(const struct sml_device *device, const struct sml_worker_flow_key *key,
		     struct sml_worker_flow *flow);
/* From now on, packets on the flow's queue go to this socket. 0 or -errno. */
int sml_device_set_socket(struct sml_device *device, const struct sml_worker_flow_key *key,
			  struct sml_worker_flow *flow, int socket_fd, uint32_t most_bytes);
void sml_device_remove_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			    const struct sml_worker_flow *flow);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's XDP program on an interface, and its maps: once in a process, and shared
 * by all processes that may. The kernel takes the program off with the last of them,
 * however they end: a link, held by all, pinned nowhere. Only where another program is
 * there already does libxdp's dispatcher have to run both, and its pins stay when this
 * process is killed: then the program is still there, passes everything on, and the next
 * worker takes it away.
 */
#ifndef SML_LIB_AFXDP_DEVICE_H
#define SML_LIB_AFXDP_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/worker.h"

struct switchml_worker;
struct xdp_program;
struct sml_queue;

struct sml_device {
	struct sml_device *next;
	unsigned n_users;
	int ifindex;
	char name[IF_NAMESIZE];
	uint32_t mtu;
	bool generic; /* the program is not in the driver */
	bool partial; /* checksums may be left to hardware that isn't there */
	bool joined;  /* another process brought the program */
	int name_fd;  /* the dispatcher's: tells others that this process lives; else -1 */
	int link_fd;  /* -1: the dispatcher's */
	int flows, owners, sockets; /* maps */
	struct switchml_worker *skeleton;
	struct xdp_program *dispatched;
	struct sml_queue *queues;
};

/*
 * The device, with the program on it. NULL: *error and text say why; *error is -EBUSY if the
 * interface is used by another program that cannot share it.
 */
struct sml_device *sml_device_get(int ifindex, const char *name, uint32_t mtu, int *error,
				  char *text, size_t text_bytes);
void sml_device_put(struct sml_device *device);

/* One for the lists of devices and their queues. */
void sml_devices_lock(void);
void sml_devices_unlock(void);

/* Register a flow, without a socket yet, and find a place for one. 0 or -errno. */
int sml_device_add_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			struct sml_worker_flow *flow);
/* Read the flow again: has the program seen a packet? False: not yet. */
bool sml_device_look(const struct sml_device *device, const struct sml_worker_flow_key *key,
		     struct sml_worker_flow *flow);
/* Packets on the queue that was seen go to this socket from now on. 0 or -errno. */
int sml_device_set_socket(struct sml_device *device, const struct sml_worker_flow_key *key,
			  struct sml_worker_flow *flow, int socket_fd, uint32_t most_bytes);
void sml_device_remove_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			    const struct sml_worker_flow *flow);

#endif

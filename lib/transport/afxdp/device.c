/* SPDX-License-Identifier: BSD-3-Clause */
/* See device.h. */
#include "lib/transport/afxdp/device.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "lib/transport/afxdp/module.h"
#include "lib/transport/afxdp/program.h"
#include "net/xdp_device.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sml_device *devices;

void sml_devices_lock(void)
{
	pthread_mutex_lock(&lock);
}

void sml_devices_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * A child made by fork() has neither these threads nor this memory, and the kernel objects
 * belong to the parent alone. The child starts with an empty list and does not keep the
 * program attached.
 */
static void forget_in_child(void)
{
	for (struct sml_device *device = devices; device; device = device->next)
		sml_program_forget(device);
	devices = NULL;
	pthread_mutex_init(&lock, NULL);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void mind_forks(void)
{
	(void)pthread_atfork(NULL, NULL, forget_in_child);
}

/* ---- devices ---- */

static void destroy(struct sml_device *device)
{
	sml_program_detach(device);
	free(device);
}

static void explain(const struct sml_device *device, const struct sml_afxdp_services *library,
		    int error)
{
	if (error == -EBUSY)
		library->error_set(error,
				   "%s has another XDP program, which does not share the interface "
				   "or needs CAP_SYS_ADMIN to share it (`bpftool net` shows the "
				   "program)",
				   device->name);
	else if (error == -EPERM || error == -EACCES)
		library->error_set(error,
				   "the kernel does not permit XDP on %s: it needs CAP_NET_ADMIN "
				   "and CAP_BPF of the host, not of a user namespace",
				   device->name);
	else
		library->error_set(error, "the XDP program cannot be attached to %s: %s",
				   device->name, strerrordesc_np(-error));
}

static struct sml_device *find(int ifindex)
{
	for (struct sml_device *device = devices; device; device = device->next)
		if (device->ifindex == ifindex)
			return device;
	return NULL;
}

static int make(struct sml_device **made, const struct sml_afxdp_services *library, int ifindex,
		const char *name, uint32_t mtu)
{
	struct sml_device *device = calloc(1, sizeof(*device));
	int error;

	if (device == NULL)
		return library->error_set(-ENOMEM, "no memory");
	device->link_fd = device->name_fd = device->flows = device->owners = device->sockets = -1;
	device->ifindex = ifindex;
	device->mtu = mtu;
	memcpy(device->name, name, sizeof(device->name));
	device->partial = sml_xdp_is_virtual(device->name);
	error = sml_program_attach(device);
	if (error) {
		explain(device, library, error);
		destroy(device);
		return error;
	}
	device->next = devices;
	devices = *made = device;
	return 0;
}

int sml_device_get(struct sml_device **got, const struct sml_afxdp_services *library, int ifindex,
		   const char *name, uint32_t mtu)
{
	int error = 0;

	pthread_once(&once, mind_forks);
	sml_devices_lock();
	*got = find(ifindex);
	if (*got == NULL)
		error = make(got, library, ifindex, name, mtu);
	if (*got)
		(*got)->n_users++;
	sml_devices_unlock();
	return error;
}

void sml_device_put(struct sml_device *device)
{
	struct sml_device **place = &devices;

	sml_devices_lock();
	if (--device->n_users == 0) {
		while (*place != device)
			place = &(*place)->next;
		*place = device->next;
		destroy(device);
	}
	sml_devices_unlock();
}

/* ---- flows ---- */

/* Entries of closed sockets are free, because the kernel empties them. The owner is random. */
int sml_device_add_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			struct sml_worker_flow *flow)
{
	*flow = (struct sml_worker_flow){.queue = SML_WORKER_NO_QUEUE};
	if (getrandom(&flow->owner, sizeof(flow->owner), 0) != sizeof(flow->owner))
		return -EIO;
	return bpf_map_update_elem(device->flows, key, flow, BPF_ANY) < 0 ? -errno : 0;
}

bool sml_device_look(const struct sml_device *device, const struct sml_worker_flow_key *key,
		     struct sml_worker_flow *flow)
{
	return bpf_map_lookup_elem(device->flows, key, flow) == 0 && flow->seen > 0;
}

static int take_place(struct sml_device *device, struct sml_worker_flow *flow, int socket_fd)
{
	for (uint32_t i = 0; i < SML_WORKER_PLACES; i++) {
		flow->place = (uint32_t)(flow->owner + i) % SML_WORKER_PLACES;
		if (bpf_map_update_elem(device->sockets, &flow->place, &socket_fd, BPF_NOEXIST) ==
		    0)
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -ENOSPC;
}

int sml_device_set_socket(struct sml_device *device, const struct sml_worker_flow_key *key,
			  struct sml_worker_flow *flow, int socket_fd, uint32_t most_bytes)
{
	int error = take_place(device, flow, socket_fd);

	if (error)
		return error;
	flow->most_bytes = most_bytes;
	flow->queue = flow->seen - 1;
	if (bpf_map_update_elem(device->owners, &flow->place, &flow->owner, BPF_ANY) == 0 &&
	    bpf_map_update_elem(device->flows, key, flow, BPF_ANY) == 0)
		return 0;
	error = -errno;
	(void)bpf_map_delete_elem(device->sockets, &flow->place);
	flow->queue = SML_WORKER_NO_QUEUE;
	return error;
}

void sml_device_remove_flow(struct sml_device *device, const struct sml_worker_flow_key *key,
			    const struct sml_worker_flow *flow)
{
	(void)bpf_map_delete_elem(device->flows, key);
	if (flow->queue != SML_WORKER_NO_QUEUE)
		(void)bpf_map_delete_elem(device->sockets, &flow->place);
}

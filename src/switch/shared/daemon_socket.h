/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The daemon's own socket beside slots that are elsewhere (in the kernel, or in a P4 switch), and
 * the thread that serves it. The thread gets what is meant for the daemon: probes, mismatches, and
 * what the place of the slots cannot send itself.
 *
 * The invariant: there is one such socket, and only its thread receives from it.
 */
#ifndef SML_SWITCH_SHARED_DAEMON_SOCKET_H
#define SML_SWITCH_SHARED_DAEMON_SOCKET_H

#include <pthread.h>

#include "net/udp_inbox.h"
#include "net/udp_sender.h"
#include "switch/dataplane.h"

struct sml_daemon_socket {
	int fd, wake_fd;       /* wake_fd: readable when the thread should end */
	uint32_t buffer_bytes; /* of the kernel, for what comes in */
	struct sml_udp_inbox *inbox;
	struct sml_udp_sender sender;
	pthread_t thread;
	bool has_thread;
};

/* Then close() and stop() do no harm. */
void sml_daemon_socket_init(struct sml_daemon_socket *own);

/*
 * At the data port of this configuration. segments: the sender may use UDP_SEGMENT. 0, or an error
 * with a text.
 */
int sml_daemon_socket_open(struct sml_daemon_socket *own, const struct sml_dataplane_config *config,
			   uint32_t inbox_bytes, bool segments);
void sml_daemon_socket_close(struct sml_daemon_socket *own);

/* serve() runs until wake_fd is readable. Returns 0, or an error with a text. */
int sml_daemon_socket_start(struct sml_daemon_socket *own, void *(*serve)(void *), void *argument);
void sml_daemon_socket_stop(struct sml_daemon_socket *own);

/*
 * How a dataplane with such a socket is opened. `prepare` keeps the configuration and cannot fail;
 * from then on, free_all() does no harm. open_parts(): 0, or an error with a text.
 */
struct sml_daemon_opening {
	size_t bytes; /* of its struct sml_dataplane */
	void (*prepare)(struct sml_dataplane *dataplane, const struct sml_dataplane_config *config);
	int (*open_parts)(struct sml_dataplane *dataplane);
	void (*free_all)(struct sml_dataplane *dataplane);
};

int sml_daemon_open(const struct sml_daemon_opening *opening, struct sml_dataplane **opened,
		    const struct sml_dataplane_config *config);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch/shared/daemon_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "net/udp_socket.h"

void sml_daemon_socket_init(struct sml_daemon_socket *own)
{
	memset(own, 0, sizeof(*own));
	own->fd = own->wake_fd = -1;
}

int sml_daemon_socket_open(struct sml_daemon_socket *own, const struct sml_dataplane_config *config,
			   uint32_t inbox_bytes, bool segments)
{
	const struct sml_udp_options options = {
		.address = config->address,
		.port = config->port,
		.n_threads = 1,
		.for_xdp = true,
	};
	struct sml_udp_inbox_config inbox = {.bytes = inbox_bytes, .sources = true};

	own->fd = sml_udp_socket_open(&options, true, &own->buffer_bytes);
	if (own->fd < 0)
		return own->fd;
	sml_udp_sender_init(&own->sender, own->fd, segments);
	inbox.fd = own->fd;
	own->inbox = sml_udp_inbox_new(&inbox);
	if (own->inbox == NULL)
		return sml_error_set(-ENOMEM, "no memory for the dataplane");
	own->wake_fd = eventfd(0, EFD_CLOEXEC);
	return own->wake_fd < 0
		       ? sml_error_set(
				 -ENOMEM,
				 "no file descriptor for the dataplane's thread: raise the limit "
				 "(ulimit -n, or LimitNOFILE= of the service)")
		       : 0;
}

void sml_daemon_socket_close(struct sml_daemon_socket *own)
{
	sml_udp_inbox_free(own->inbox);
	if (own->fd >= 0)
		sml_fd_close(own->fd);
	if (own->wake_fd >= 0)
		close(own->wake_fd);
}

int sml_daemon_socket_start(struct sml_daemon_socket *own, void *(*serve)(void *), void *argument)
{
	int rc = sml_thread_start(&own->thread, "sml-data", serve, argument);

	own->has_thread = rc == 0;
	return rc < 0 ? sml_error_set(rc, "the dataplane's thread cannot be started: %s",
				      strerror(-rc))
		      : 0;
}

void sml_daemon_socket_stop(struct sml_daemon_socket *own)
{
	uint64_t one = 1;

	if (!own->has_thread)
		return;
	while (write(own->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(own->thread, NULL);
}

int sml_daemon_open(const struct sml_daemon_opening *opening, struct sml_dataplane **opened,
		    const struct sml_dataplane_config *config)
{
	struct sml_dataplane *dataplane = calloc(1, opening->bytes);
	int rc;

	if (dataplane == NULL)
		return sml_error_set(-ENOMEM, "no memory for the dataplane");
	opening->prepare(dataplane, config);
	rc = opening->open_parts(dataplane);
	if (rc < 0) {
		opening->free_all(dataplane);
		return rc;
	}
	*opened = dataplane;
	return 0;
}

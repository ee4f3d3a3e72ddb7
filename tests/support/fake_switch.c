/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/fake_switch.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"

#define BACKLOG 8

int listen_on_loopback(uint16_t *port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, BACKLOG), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
	*port = ntohs(address.sin_port);
	return fd;
}

static void *fake_switch_main(void *argument)
{
	struct fake_switch *fake = argument;
	int fd = accept(fake->listen_fd, NULL, NULL);

	fake->serve(fake, fd);
	close(fd);
	return NULL;
}

void fake_switch_open(struct fake_switch *fake)
{
	uint16_t port;

	fake->listen_fd = listen_on_loopback(&port);
	snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%u", port);
	assert_int_equal(pthread_create(&fake->thread, NULL, fake_switch_main, fake), 0);
}

void fake_switch_close(struct fake_switch *fake)
{
	pthread_join(fake->thread, NULL);
	close(fake->listen_fd);
}

void fake_switch_read(struct fake_switch *fake, int fd)
{
	struct evbuffer *in = evbuffer_new();
	SmlControl__Envelope *message;

	while (evbuffer_read(in, fd, -1) > 0) {
		while (sml_frame_read(in, &message) == 1) {
			fake->hear(fake->self, fd, message);
			sml_control__envelope__free_unpacked(message, NULL);
		}
	}
	evbuffer_free(in);
}

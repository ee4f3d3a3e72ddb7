/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/transport/afxdp/name.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct name {
	struct sockaddr_un address;
	socklen_t bytes;
};

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* The kernel tells which user was listening. If it cannot be asked, the name counts as held. */
static bool is_ours(const struct name *name)
{
	struct ucred holder = {.uid = 0};
	socklen_t bytes = sizeof(holder);
	bool ours = true;
	int fd = new_socket();

	if (fd < 0)
		return true;
	if (connect(fd, (const struct sockaddr *)&name->address, name->bytes) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &holder, &bytes) == 0)
		ours = holder.uid == 0 || holder.uid == geteuid();
	else
		/* Our processes all listen. One that ended a moment ago has released its name. */
		ours = errno == EAGAIN;
	close(fd);
	return ours;
}

static int claim(int fd, const struct name *name)
{
	if (bind(fd, (const struct sockaddr *)&name->address, name->bytes) == 0)
		return listen(fd, SOMAXCONN);
	if (errno == EADDRINUSE)
		errno = is_ours(name) ? EADDRINUSE : EPERM;
	return -1;
}

int sml_name_hold(const char *of, uint32_t number)
{
	struct name name = {.address = {.sun_family = AF_UNIX}};
	int fd = new_socket(), error;
	int length = snprintf(name.address.sun_path + 1, sizeof(name.address.sun_path) - 1,
			      "switchml-xdp-%s%u", of, number);

	name.bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	if (fd < 0 || claim(fd, &name) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

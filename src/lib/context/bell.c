/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/bell.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "core/base.h"

void sml_bell_init(struct sml_bell *bell)
{
	bell->fd = -1;
}

int sml_bell_open(struct sml_bell *bell)
{
	/* It begins with 1, because calls may have ended before. */
	if (bell->fd < 0)
		bell->fd = sml_fd_own(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	return bell->fd < 0 ? -errno : bell->fd;
}

void sml_bell_ring(const struct sml_bell *bell)
{
	uint64_t one = 1;

	/* It cannot be full: nobody rings 2^64 times. A child's end of it has no context. */
	if (bell->fd >= 0 && write(bell->fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
}

void sml_bell_fini(struct sml_bell *bell)
{
	if (bell->fd >= 0)
		sml_fd_close(bell->fd);
}

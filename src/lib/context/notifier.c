/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/notifier.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fork.h"
#include "core/base.h"

void sml_notifier_init(struct sml_notifier *notifier)
{
	notifier->fd = -1;
}

int sml_notifier_open(struct sml_notifier *notifier)
{
	/* It begins with 1, because calls may have ended before. */
	if (notifier->fd < 0)
		notifier->fd = sml_fd_own(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
	return notifier->fd < 0 ? -errno : notifier->fd;
}

void sml_notifier_notify(const struct sml_notifier *notifier)
{
	uint64_t one = 1;

	/* It cannot be full: nobody notifies 2^64 times. A child's end of it has no context. */
	if (notifier->fd >= 0 && write(notifier->fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
}

void sml_notifier_fini(struct sml_notifier *notifier)
{
	if (notifier->fd >= 0)
		sml_fd_close(notifier->fd);
}

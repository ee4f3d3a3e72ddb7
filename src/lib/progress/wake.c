/* SPDX-License-Identifier: BSD-3-Clause */
/* Waking a progress thread that rests: see progress.h. Everybody may do that. */
#include <errno.h>
#include <unistd.h>

#include "lib/progress/progress.h"

void sml_progress_wake(struct sml_progress *progress)
{
	uint64_t one = 1;

	if (__atomic_exchange_n(&progress->resting, SML_AWAKE, __ATOMIC_SEQ_CST) == SML_AWAKE)
		return;
	/* The eventfd cannot be full, and the reader takes all of it. */
	if (write(progress->wake_fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
}

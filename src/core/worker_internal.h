/* SPDX-License-Identifier: BSD-3-Clause */
/* What the worker's files share among themselves. */
#ifndef SML_CORE_WORKER_INTERNAL_H
#define SML_CORE_WORKER_INTERNAL_H

#include "core/worker.h"

/* Give a slot its next ticket: it then waits until that ticket's chunk can be sent. */
void sml_worker_assign(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		       uint32_t ticket);

/* A packet in flight counts as lost: it goes to the back of those that are sent again. */
void sml_worker_lose(struct sml_worker *worker, uint16_t slot, bool timed_out);

/* The switch lied: stop before it can make us access buffers that we no longer own. */
void sml_worker_break(struct sml_worker *worker);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* What the worker's files share among themselves. */
#ifndef SML_CORE_WORKER_INTERNAL_H
#define SML_CORE_WORKER_INTERNAL_H

#include "core/worker.h"

/* Hand a slot its next ticket: it waits for that ticket's chunk to be sendable. */
void sml_worker_assign(struct sml_worker *worker, enum sml_stream_id stream, uint16_t slot,
		       uint32_t ticket);

/* The switch lied: stop before it can make us touch what is not ours any more. */
void sml_worker_break(struct sml_worker *worker);

#endif

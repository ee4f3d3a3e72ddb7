/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening what moves packets: a socket and a worker for each shard. */
#ifndef SML_LIB_DATA_PATH_H
#define SML_LIB_DATA_PATH_H

#include "lib/context.h"

/*
 * After admission: opens the transports, probes the path, agrees on the job's
 * lane count and makes the shards, not started yet. 0 or an error, told by
 * sml_error_set(); then the shards that exist are the context's all the same.
 */
int sml_data_path_open(struct sml_context *context, uint64_t deadline_ns);

/*
 * The same for a switch that goes on where another has died: the shards are
 * parked, and get workers and transports of the new epoch. keep: see
 * sml_shard_renew().
 */
int sml_data_path_renew(struct sml_context *context, struct sml_control *control,
			uint64_t deadline_ns, bool keep);

#endif

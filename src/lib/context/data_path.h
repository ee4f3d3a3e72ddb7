/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening what moves packets: a transport, a line and a worker for each stripe and shard. */
#ifndef SML_LIB_DATA_PATH_H
#define SML_LIB_DATA_PATH_H

#include "lib/context/context.h"

/*
 * After admission: opens a transport for each shard (SML_MAX_SHARDS places, NULL at first), proves
 * the paths and agrees with the other ranks on the lane count that this stripe's switch starts
 * with. Returns 0, or an error with its text set by sml_error_set(). The caller owns the transports
 * in any case.
 */
int sml_data_path_agree(struct sml_stripe *stripe, struct sml_control *control,
			struct sml_transport **transports, uint16_t *lanes, uint64_t deadline_ns);

/*
 * One transport: to the stripe's switch, or, where peers (one shard's, of all
 * ranks) is not NULL, to all of them, of any family that the system has. Returns 0 or a negative
 * error, and sets the error text.
 */
int sml_data_path_open_transport(const struct sml_stripe *stripe, unsigned shard,
				 const union sml_sockaddr *peers, struct sml_transport **transport);

/* Closes the transports that exist, and forgets them. */
void sml_data_path_close(struct sml_transport **transports);

/*
 * When all stripes have opened: the job's lane count is the least of theirs. Creates the threads,
 * not started yet, with lines and shards. Returns 0, or an error with its text set; the context
 * owns what exists in any case.
 */
int sml_data_path_open(struct sml_context *context);

/*
 * For a replacement switch: the stripe's shards are parked, and get workers and transports of the
 * new epoch. keep: see sml_shard_renew().
 */
int sml_data_path_renew(struct sml_stripe *stripe, struct sml_control *control,
			uint64_t deadline_ns, bool keep);

/*
 * The last part of it: the stripe's admission is that of the new epoch, and these transports (one
 * a shard) become the shards' own. Returns 0; or an error, and then sets the error text, and no
 * shard has changed.
 */
int sml_data_path_renew_shards(struct sml_stripe *stripe, struct sml_transport **transports,
			       bool keep);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that a rank keeps of a job, as bytes, in any order: they go to members of the next job
 * that lack them (standing.h). Each is 4-byte aligned:
 *
 *	stream, chunk (in the whole stream), number of lanes: 32 bits each, big-endian
 *	the lanes, big-endian
 */
#ifndef SML_CORE_KEPT_H
#define SML_CORE_KEPT_H

#include "core/worker.h"

/* How many bytes a frozen worker keeps; and write them. Returns where the next ones go. */
size_t sml_kept_bytes(const struct sml_worker *worker);
uint8_t *sml_kept_write(const struct sml_worker *worker, uint8_t *out);

/* How many bytes one result takes. */
static inline size_t sml_kept_size(uint16_t n_lanes)
{
	return 12 + 4 * (size_t)n_lanes;
}

/* Write one result. chunk is its number in the whole stream. Returns where the next one goes. */
uint8_t *sml_kept_put(uint8_t *out, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		      uint16_t n_lanes);

/*
 * Give tensors, which no worker has any more, the results that they lack. The bytes may come from a
 * peer that lies: what does not fit is left out.
 */
void sml_kept_take(const uint8_t *kept, size_t bytes, struct sml_tensor *const *tensors,
		   unsigned n_tensors);

#endif

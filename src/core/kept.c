/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/kept.h"

/* ---- a rank's own ---- */

size_t sml_kept_bytes(const struct sml_worker *worker)
{
	size_t bytes = 0;

	for (uint16_t slot = 0; slot < worker->n_slots; slot++)
		if (worker->slots[slot].kept == SML_KEPT_COPY)
			bytes += sml_kept_size(worker->slots[slot].kept_lanes);
	return bytes;
}

uint8_t *sml_kept_put(uint8_t *out, enum sml_stream_id stream, uint32_t chunk, const void *lanes,
		      uint16_t n_lanes)
{
	const uint32_t head[3] = {sml_be32(stream), sml_be32(chunk), sml_be32(n_lanes)};

	__builtin_memcpy(out, head, sizeof(head));
	if (n_lanes > 0)
		__builtin_memcpy(out + sizeof(head), lanes, 4u * n_lanes);
	return out + sml_kept_size(n_lanes);
}

uint8_t *sml_kept_write(const struct sml_worker *worker, uint8_t *out)
{
	for (uint16_t slot = 0; slot < worker->n_slots; slot++) {
		const struct sml_worker_slot *state = &worker->slots[slot];

		if (state->kept == SML_KEPT_COPY)
			out = sml_kept_put(out, sml_worker_stream_of(worker, slot),
					   sml_worker_stream_chunk(worker, state->kept_chunk),
					   worker->kept + (size_t)slot * worker->kept_stride,
					   state->kept_lanes);
	}
	return out;
}

/* ---- for those that lack them ---- */

struct result {
	enum sml_stream_id stream;
	uint32_t chunk;
	uint16_t n_lanes;
	const void *lanes;
};

/* The next one; returns where it ends, or NULL: there is none. */
static const uint8_t *next_result(const uint8_t *at, const uint8_t *end, struct result *result)
{
	uint32_t head[3];

	if ((size_t)(end - at) < sizeof(head))
		return NULL;
	__builtin_memcpy(head, at, sizeof(head));
	if (sml_be32(head[0]) >= SML_STREAMS || sml_be32(head[2]) > SML_MAX_LANES)
		return NULL;
	result->stream = (enum sml_stream_id)sml_be32(head[0]);
	result->chunk = sml_be32(head[1]);
	result->n_lanes = (uint16_t)sml_be32(head[2]);
	result->lanes = at + sizeof(head);
	return (size_t)(end - at) < sml_kept_size(result->n_lanes)
		       ? NULL
		       : at + sml_kept_size(result->n_lanes);
}

static bool lacks(const struct sml_tensor *tensor, const struct result *result)
{
	uint32_t index = result->chunk - tensor->window[result->stream].first;

	return index < tensor->window[result->stream].count &&
	       !sml_tensor_chunk_is_done(tensor, result->stream, index);
}

/* False: not yet, because it needs exponents or upper halves first; or it does not fit. */
static bool take(struct sml_tensor *tensor, const struct result *result)
{
	uint32_t index = result->chunk - tensor->window[result->stream].first;
	struct sml_contribution described;

	/* A chunk's lanes depend on its exponents. */
	if (!sml_tensor_chunk_is_ready(tensor, result->stream, index))
		return false;
	sml_tensor_describe_chunk(tensor, result->stream, index, &described);
	if (described.lanes != result->n_lanes)
		return false;
	(void)sml_tensor_take(tensor, result->stream, index, result->lanes);
	return true;
}

static bool give(struct sml_tensor *const *tensors, unsigned n_tensors, const struct result *result)
{
	for (unsigned i = 0; i < n_tensors; i++)
		if (lacks(tensors[i], result))
			return take(tensors[i], result);
	return false;
}

void sml_kept_take(const uint8_t *kept, size_t bytes, struct sml_tensor *const *tensors,
		   unsigned n_tensors)
{
	struct result result;
	const uint8_t *at;
	bool taken = true;

	/* Exponents come before elements, and upper halves before lower ones. */
	while (taken) {
		taken = false;
		at = kept;
		while ((at = next_result(at, kept + bytes, &result)) != NULL)
			taken |= give(tensors, n_tensors, &result);
	}
}

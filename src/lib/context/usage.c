/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/usage.h"

#include "base/clock.h"

/*
 * What each rank of a ring sends on average, of a tensor of this many bytes: one round of n - 1
 * parts of n to combine or to distribute it, and two for both.
 */
static uint64_t ring_bytes(enum sml_collective collective, uint64_t bytes, unsigned n_ranks)
{
	uint64_t round = bytes / n_ranks * (n_ranks - 1);

	switch (collective) {
	case SML_ALLREDUCE:
		return 2 * round;
	case SML_REDUCE: /* combined in parts, which go to the root */
		return round + bytes / n_ranks;
	case SML_BROADCAST:
	case SML_ALLGATHER:
	case SML_REDUCE_SCATTER:
		return round;
	case SML_BARRIER:
		break;
	}
	return 0;
}

void sml_usage_begin(struct sml_usage *usage, const struct sml_tensor_spec *spec, unsigned n_ranks,
		     uint64_t now_ns)
{
	uint64_t bytes = spec->count * sml_element_bytes(spec->type);

	usage->bytes += bytes;
	usage->ring_bytes += ring_bytes(spec->collective, bytes, n_ranks);
	if (__atomic_fetch_add(&usage->in_progress, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&usage->since_ns, now_ns, __ATOMIC_SEQ_CST);
}

void sml_usage_end(struct sml_usage *usage, uint64_t n)
{
	/* Read first: with the last call, another one may begin the next interval. */
	uint64_t since_ns = __atomic_load_n(&usage->since_ns, __ATOMIC_SEQ_CST);

	if (__atomic_fetch_sub(&usage->in_progress, n, __ATOMIC_SEQ_CST) == n)
		__atomic_add_fetch(&usage->busy_ns, sml_now_ns() - since_ns, __ATOMIC_RELAXED);
}

uint64_t sml_usage_busy_ns(const struct sml_usage *usage, uint64_t now_ns)
{
	uint64_t busy_ns = __atomic_load_n(&usage->busy_ns, __ATOMIC_RELAXED);

	/* After a failure, calls never end. */
	if (__atomic_load_n(&usage->in_progress, __ATOMIC_SEQ_CST) > 0)
		busy_ns += now_ns - __atomic_load_n(&usage->since_ns, __ATOMIC_SEQ_CST);
	return busy_ns;
}

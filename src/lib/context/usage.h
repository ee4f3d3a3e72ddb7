/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job was used for, for the line at its end: the bytes of its calls, what a ring would have
 * sent for them, and for how long any call was under way.
 *
 * The one rule of in_progress: a call counts before any thread may complete it, and since_ns is set
 * by the call that finds no other one under way.
 */
#ifndef SML_LIB_USAGE_H
#define SML_LIB_USAGE_H

#include <stdint.h>

#include "core/tensor.h"

#define SML_ELSEWHERE_BYTES 32

struct sml_usage {
	uint64_t opened_ns;
	/* Of whoever submits: under the submit lock. */
	uint64_t bytes, ring_bytes;
	/* Atomic. */
	uint64_t in_progress, since_ns, busy_ns;
	/* Calls that were made elsewhere. Under the context's lock. */
	uint64_t n_elsewhere;
	char elsewhere[SML_ELSEWHERE_BYTES];
};

/* A call of n_ranks ranks is submitted, before a thread gets it. */
void sml_usage_begin(struct sml_usage *usage, const struct sml_tensor_spec *spec, unsigned n_ranks,
		     uint64_t now_ns);

/* Note that n calls are done. */
void sml_usage_end(struct sml_usage *usage, uint64_t n);

/* For how long a call was under way, until now. */
uint64_t sml_usage_busy_ns(const struct sml_usage *usage, uint64_t now_ns);

#endif

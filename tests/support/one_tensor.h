/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tensor of a test, in packets of 32 lanes, of a job with three ranks. Its memory detects
 * writes outside it.
 */
#ifndef SML_TESTS_SUPPORT_ONE_TENSOR_H
#define SML_TESTS_SUPPORT_ONE_TENSOR_H

#include "core/tensor.h"
#include "support/guard.h"
#include "support/test.h"

#define LANES 32
#define RANKS 3
/* Elements of the blocks whose exponents fill a head chunk, on the int32 and int16 wires. */
#define HEAD_32 (2 * LANES * 256)
#define HEAD_16 (2 * LANES * 64)

static struct sml_tensor tensor;
static struct guarded memory;

static inline struct sml_tensor_spec spec_of(enum sml_type type, enum sml_op op, uint64_t count)
{
	return (struct sml_tensor_spec){.type = type,
					.op = op,
					.wire = SML_WIRE_INT32,
					.count = count,
					.send_count = count,
					.recv_count = count};
}

/* Of the first call, if `sequence` is NULL. */
static inline void make_in(const struct sml_tensor_spec *spec, const struct sml_shape *shape,
			   struct sml_sequence *sequence)
{
	struct sml_sequence first = {0};

	guard_give(&memory);
	memory = guard_take(sml_tensor_memory_bytes(spec, shape));
	sml_tensor_init(&tensor, spec, shape, sequence ? sequence : &first, memory.bytes);
}

static inline void make(const struct sml_tensor_spec *spec, struct sml_sequence *sequence)
{
	const struct sml_shape shape = {LANES, 1, RANKS, false, false, false, false};

	make_in(spec, &shape, sequence);
}

static inline void end(void)
{
	assert_true(guard_give(&memory));
}

#endif

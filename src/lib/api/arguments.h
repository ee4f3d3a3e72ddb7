/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of a call's arguments. Each check returns 0, or -EINVAL with the context's error text,
 * which names the argument.
 */
#ifndef SML_LIB_ARGUMENTS_H
#define SML_LIB_ARGUMENTS_H

#include "lib/context/context.h"

/* The most ranks with which gradients of bfloat16 are int16 where switches do not round. */
#define SML_INT16_RANKS 16

/* A type that can be combined, and an operation. */
int sml_check_numbers(struct sml_context *context, enum sml_type type, enum sml_op op);

/*
 * The size of n times count elements, as *bytes; refused if no memory can be
 * that large.
 */
int sml_check_size(struct sml_context *context, size_t count, enum sml_type type, unsigned n,
		   size_t *bytes);

int sml_check_buffer(struct sml_context *context, const char *name, const void *buffer,
		     size_t bytes, enum sml_type type);

/*
 * Checks that the two buffers do not overlap, unless recv is in_place, which is the only overlap
 * that is allowed.
 */
int sml_check_apart(struct sml_context *context, const void *send, size_t send_bytes,
		    const void *recv, size_t recv_bytes, const void *in_place);

#define SML_RESIDUAL_REFUSED "a residual is only for SUM and AVG of float32, float16 and bfloat16"

/*
 * The wire that the call's options, or else the type or the context, ask for, and their residual.
 * EXACT is given to floats that it makes a difference for: spec has type, op, the buffers and the
 * whole tensor's count. Checked last: the job remembers that floats were sent.
 */
int sml_check_wire(struct sml_context *context, const struct sml_options *options,
		   struct sml_tensor_spec *spec);

/*
 * Afterwards: does the call ask for exact sums of float32, float16 or bfloat16 where switches or
 * hosts would round their parts? Then every rank receives the elements of all.
 */
bool sml_wire_gathers(struct sml_context *context, const struct sml_options *options,
		      const struct sml_tensor_spec *spec);

#endif

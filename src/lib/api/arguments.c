/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/api/arguments.h"

#include <errno.h>
#include <stddef.h>

#include "base/error.h"
#include "core/gather.h"

/* Of each element, without exponents. */
#define INT64_WIRE_BYTES 12
/* One round trip, or about one, is then shorter than two. */
#define FEW_BYTES 8192

size_t sml_type_size(enum sml_type type)
{
	return sml_element_bytes(type);
}

int sml_check_numbers(struct sml_context *context, enum sml_type type, enum sml_op op)
{
	if (sml_type_size(type) == 0)
		return sml_context_refuse(context, -EINVAL, "type %d does not exist", (int)type);
	if (type == SML_BYTE)
		return sml_context_refuse(
			context, -EINVAL,
			"bytes cannot be combined: SML_BYTE is only for calls that copy");
	if (op < SML_SUM || op > SML_MIN)
		return sml_context_refuse(
			context, -EINVAL,
			"operation %d does not exist: the switch computes SUM, AVG, MAX and MIN; "
			"for PROD and bitwise operations, use MPI or the framework's own backend",
			(int)op);
	if (type == SML_BOOL && op == SML_AVG)
		return sml_context_refuse(context, -EINVAL,
					  "SML_BOOL has no AVG: use SUM, MAX or MIN");
	return 0;
}

int sml_check_size(struct sml_context *context, size_t count, enum sml_type type, unsigned n,
		   size_t *bytes)
{
	size_t each = sml_type_size(type);

	*bytes = 0;
	if (each == 0)
		return sml_context_refuse(context, -EINVAL, "type %d does not exist", (int)type);
	if (count > PTRDIFF_MAX / each / n)
		return sml_context_refuse(context, -EINVAL, "%zu elements are too many", count);
	*bytes = count * each * n;
	return 0;
}

int sml_check_buffer(struct sml_context *context, const char *name, const void *buffer,
		     size_t bytes, enum sml_type type)
{
	if (bytes == 0)
		return 0;
	if (buffer == NULL)
		return sml_context_refuse(context, -EINVAL,
					  "%s is NULL, but the call needs a buffer of %zu bytes",
					  name, bytes);
	if ((uintptr_t)buffer % sml_type_size(type))
		return sml_context_refuse(context, -EINVAL,
					  "%s (%p) is not aligned to its element size of %zu bytes",
					  name, buffer, sml_type_size(type));
	return 0;
}

int sml_check_apart(struct sml_context *context, const void *send, size_t send_bytes,
		    const void *recv, size_t recv_bytes, const void *in_place)
{
	if (!sml_overlap(send, send_bytes, recv, recv_bytes) || recv == in_place)
		return 0;
	return sml_context_refuse(context, -EINVAL,
				  "send (%p, %zu bytes) and recv (%p, %zu bytes) overlap, but are "
				  "not the buffers of an in-place call",
				  send, send_bytes, recv, recv_bytes);
}

/* Could elements of these lose bits to others of their block? */
static bool is_float_sum(const struct sml_tensor_spec *spec)
{
	bool is_float = spec->type == SML_FLOAT32 || spec->type == SML_FLOAT16 ||
			spec->type == SML_BFLOAT16 || spec->type == SML_FLOAT64;

	return is_float && (spec->op == SML_SUM || spec->op == SML_AVG);
}

/*
 * Gradients where switches add only integers: where the error is about or below that of a ring in
 * the type (docs/internals/numbers.md).
 */
static bool travels_as_int16(const struct sml_shape *shape, enum sml_type type)
{
	if (sml_shape_rounds(shape, 16))
		return type == SML_FLOAT16 || type == SML_BFLOAT16;
	return type == SML_BFLOAT16 && shape->n_ranks <= SML_INT16_RANKS && !shape->only_int32;
}

/* Sums that switches may round: the int8 wire and residuals are only for them. */
static bool may_be_rounded(const struct sml_tensor_spec *spec)
{
	return is_float_sum(spec) && spec->type != SML_FLOAT64;
}

/* Will the switches add the elements of a sum as floats? Else, its ranks gather them. */
static bool sends_floats(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	return spec->type != SML_FLOAT64 && sml_submit_fix_floats(context);
}

/* Has a packet room for an element of every rank? */
static bool has_room_of_all(const struct sml_context *context, const struct sml_tensor_spec *spec)
{
	return sml_gather_capacity(spec->type, context->shape.lanes, context->shape.n_ranks) > 0;
}

/* So few elements or ranks that the int64 wire is not worth it, or not smaller. */
static bool are_few(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	size_t bytes = sml_type_size(spec->type);

	return spec->wire != SML_WIRE_GRADIENT && spec->type != SML_FLOAT64 &&
	       (bytes * context->shape.n_ranks <= INT64_WIRE_BYTES ||
		bytes * spec->count <= FEW_BYTES);
}

/* The context's wire where it can be, and the default where switches add floats. */
static bool is_exact(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	enum sml_wire wire = context->settings.config.wire;

	if (!is_float_sum(spec) || (wire != SML_WIRE_DEFAULT && wire != SML_WIRE_EXACT))
		return false;
	if (sends_floats(context, spec))
		return true;
	return (wire == SML_WIRE_EXACT || are_few(context, spec)) &&
	       sml_tensor_may_be_exact(spec->type, &context->shape);
}

/* Where a call asks for none: the context's, or its type's. */
static enum sml_wire default_wire(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	enum sml_wire wire = context->settings.config.wire;

	if (is_exact(context, spec))
		return SML_WIRE_EXACT;
	if (spec->type == SML_FLOAT64 ||
	    (wire == SML_WIRE_DEFAULT && is_float_sum(spec) && spec->wire != SML_WIRE_GRADIENT))
		return SML_WIRE_INT64;
	if (wire == SML_WIRE_INT8)
		return may_be_rounded(spec) ? SML_WIRE_INT8 : SML_WIRE_INT32;
	if (wire == SML_WIRE_DEFAULT && travels_as_int16(&context->shape, spec->type))
		return SML_WIRE_INT16;
	return wire == SML_WIRE_EXACT || wire == SML_WIRE_DEFAULT ? SML_WIRE_INT32 : wire;
}

static int check_exact(struct sml_context *context, struct sml_tensor_spec *spec)
{
	if (!is_float_sum(spec)) {
		/* Exact on every wire. */
		spec->wire = default_wire(context, spec);
		return 0;
	}
	if ((sends_floats(context, spec) && !sml_submit_fix_parts(context)) ||
	    has_room_of_all(context, spec))
		return 0;
	return sml_context_refuse(context, -EINVAL,
				  "packets of %u lanes are too small for the exact wire with %u "
				  "ranks: raise the path's MTU, or ask for no wire",
				  context->shape.lanes, context->shape.n_ranks);
}

/* The context's own wire is refused at the join, unless the switch lies. */
static int check_int8(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	if (!may_be_rounded(spec))
		return sml_context_refuse(context, -EINVAL,
					  "the int8 wire is only for SUM and AVG of float32, "
					  "float16 and bfloat16: ask for no wire, or for int32");
	if (sml_shape_rounds(&context->shape, 8))
		return 0;
	return sml_context_refuse(
		context, -EINVAL,
		"the int8 wire is not for this job: one of its switches does not "
		"round sums. Ask for no wire, or use switches with --dataplane udp "
		"or xdp");
}

/* As above. */
static int check_int16(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	if (spec->wire != SML_WIRE_INT16 || !context->shape.only_int32 || !is_float_sum(spec))
		return 0;
	return sml_context_refuse(context, -EINVAL,
				  "the int16 wire is not for this job: one of its switches adds "
				  "only int32 lanes. Ask for the int32 wire, or use another "
				  "switch program");
}

/* A wire of 32 bits or less: of the context, or of the call. */
static int check_width(struct sml_context *context, const struct sml_tensor_spec *spec)
{
	return spec->wire == SML_WIRE_INT8 ? check_int8(context, spec) : check_int16(context, spec);
}

static int check_residual(struct sml_context *context, float *residual,
			  struct sml_tensor_spec *spec)
{
	size_t bytes = spec->count * sizeof(*residual);

	if (residual == NULL)
		return 0;
	if (!may_be_rounded(spec))
		return sml_context_refuse(context, -EINVAL, SML_RESIDUAL_REFUSED);
	if (sml_tensor_uses(spec, residual, bytes))
		return sml_context_refuse(context, -EINVAL,
					  "residual (%p, %zu bytes) overlaps send or recv",
					  (const void *)residual, bytes);
	spec->residual = residual;
	return sml_check_buffer(context, "residual", residual, bytes, SML_FLOAT32);
}

static int choose_wire(struct sml_context *context, const struct sml_options *options,
		       struct sml_tensor_spec *spec)
{
	spec->wire = options->wire;
	if (spec->wire == SML_WIRE_DEFAULT || spec->wire == SML_WIRE_GRADIENT) {
		spec->wire = default_wire(context, spec);
		return check_width(context, spec);
	}
	if (spec->wire < SML_WIRE_INT32 || spec->wire > SML_WIRE_INT8)
		return sml_context_refuse(context, -EINVAL, "wire %d does not exist",
					  (int)spec->wire);
	if (spec->wire == SML_WIRE_INT64 && spec->type != SML_FLOAT64)
		return sml_context_refuse(context, -EINVAL,
					  "the int64 wire is only for SML_FLOAT64");
	return spec->wire == SML_WIRE_EXACT ? check_exact(context, spec)
					    : check_width(context, spec);
}

int sml_check_wire(struct sml_context *context, const struct sml_options *options,
		   struct sml_tensor_spec *spec)
{
	int error = check_residual(context, options->residual, spec);

	return error ? error : choose_wire(context, options, spec);
}

/* If its wire is EXACT, it has fixed whether floats are sent. */
bool sml_wire_gathers(struct sml_context *context, const struct sml_options *options,
		      const struct sml_tensor_spec *spec)
{
	bool asks =
		options->wire == SML_WIRE_EXACT || context->settings.config.wire == SML_WIRE_EXACT;

	return asks && spec->wire == SML_WIRE_EXACT &&
	       sml_shape_adds(&context->shape, spec->type) && sml_submit_fix_parts(context) &&
	       has_room_of_all(context, spec);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/carried.h"

#include <stddef.h>

enum number { NONE, FLOAT, SIGNED, UNSIGNED };

/* Fortran's types have a handle in C; their size is the compiler's that MPI was built with. */
static bool has_four_bytes(MPI_Datatype type)
{
	int bytes = 0;

	return type != MPI_DATATYPE_NULL && PMPI_Type_size(type, &bytes) == MPI_SUCCESS &&
	       bytes == SML_MPI_ELEMENT_BYTES;
}

static bool is_any(MPI_Datatype type, const MPI_Datatype *types, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (type == types[i])
			return has_four_bytes(type);
	return false;
}

static enum number number_of(MPI_Datatype type)
{
	const MPI_Datatype floats[] = {MPI_FLOAT, MPI_REAL, MPI_REAL4};
	const MPI_Datatype signeds[] = {MPI_INT, MPI_INT32_T, MPI_INTEGER, MPI_INTEGER4};
	const MPI_Datatype unsigneds[] = {MPI_UNSIGNED, MPI_UINT32_T};

#define IS_ANY(list) is_any(type, list, sizeof(list) / sizeof((list)[0]))
	if (IS_ANY(floats))
		return FLOAT;
	if (IS_ANY(signeds))
		return SIGNED;
	return IS_ANY(unsigneds) ? UNSIGNED : NONE;
#undef IS_ANY
}

bool sml_mpi_kind_of(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op)
{
	enum number number;

	if (op != MPI_SUM && op != MPI_MAX && op != MPI_MIN)
		return false;
	number = number_of(type);
	/* Sums that wrap around have the same bits with and without sign; the order hasn't. */
	if (number == NONE || (number == UNSIGNED && op != MPI_SUM))
		return false;
	kind->type = number == FLOAT ? SML_FLOAT32 : SML_INT32;
	kind->op = op == MPI_SUM ? SML_SUM : op == MPI_MAX ? SML_MAX : SML_MIN;
	return true;
}

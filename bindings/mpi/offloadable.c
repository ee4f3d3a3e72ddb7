/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/offload.h"

#include <stddef.h>
#include <stdlib.h>

enum number { NONE, FLOAT, SIGNED, UNSIGNED, BOOLEAN };

static bool is_any(MPI_Datatype type, const MPI_Datatype *types, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (type == types[i])
			return true;
	return false;
}

/* A handle that this MPI lacks (Fortran's, without a Fortran compiler) equals the null handle. */
static enum number number_of(MPI_Datatype type)
{
	static const MPI_Datatype floats[] = {MPI_FLOAT, MPI_DOUBLE, MPI_REAL,
					      MPI_REAL4, MPI_REAL8,  MPI_DOUBLE_PRECISION};
	static const MPI_Datatype signeds[] = {
		MPI_INT,      MPI_LONG,	    MPI_LONG_LONG, MPI_SHORT,	 MPI_SIGNED_CHAR,
		MPI_INT8_T,   MPI_INT16_T,  MPI_INT32_T,   MPI_INT64_T,	 MPI_INTEGER,
		MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4,  MPI_INTEGER8,
	};
	static const MPI_Datatype unsigneds[] = {
		MPI_UNSIGNED,	    MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG,
		MPI_UNSIGNED_SHORT, MPI_UNSIGNED_CHAR, MPI_UINT8_T,
		MPI_UINT16_T,	    MPI_UINT32_T,      MPI_UINT64_T,
	};

#define IS_ANY(list) is_any(type, list, sizeof(list) / sizeof((list)[0]))
	if (type == MPI_DATATYPE_NULL)
		return NONE;
	if (IS_ANY(floats))
		return FLOAT;
	if (IS_ANY(signeds))
		return SIGNED;
	if (IS_ANY(unsigneds))
		return UNSIGNED;
	return type == MPI_C_BOOL ? BOOLEAN : NONE;
#undef IS_ANY
}

/* Sizes are those of the compiler that built MPI. False: there is no such type here. */
static bool type_of(enum number number, int bytes, enum sml_type *type)
{
	switch (bytes) {
	case 1:
		*type = number == BOOLEAN ? SML_BOOL : number == SIGNED ? SML_INT8 : SML_UINT8;
		return number != FLOAT;
	case 2:
		*type = SML_INT16;
		return number == SIGNED || number == UNSIGNED;
	case 4:
		*type = number == FLOAT ? SML_FLOAT32 : SML_INT32;
		return number != BOOLEAN;
	case 8:
		*type = number == FLOAT ? SML_FLOAT64 : SML_INT64;
		return number != BOOLEAN;
	default:
		return false;
	}
}

/* MPI uses other operations for truth values than for numbers. */
static bool op_of(enum number number, MPI_Op op, enum sml_op *found)
{
	if (op == (number == BOOLEAN ? MPI_LOR : MPI_MAX))
		*found = SML_MAX;
	else if (op == (number == BOOLEAN ? MPI_LAND : MPI_MIN))
		*found = SML_MIN;
	else if (number != BOOLEAN && op == MPI_SUM)
		*found = SML_SUM;
	else
		return false;
	return true;
}

static bool find_kind(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op)
{
	enum number number = number_of(type);
	int bytes = 0;

	if (number == NONE || !op_of(number, op, &kind->op) ||
	    PMPI_Type_size(type, &bytes) != MPI_SUCCESS || !type_of(number, bytes, &kind->type))
		return false;
	/* Wrapping sums have the same bits for signed and unsigned types. MAX and MIN differ. */
	return number != UNSIGNED || kind->op == SML_SUM || kind->type == SML_UINT8;
}

/*
 * Small calls take few microseconds, and most programs repeat a type and an operation. Only handles
 * that are always valid are kept: what the switch offloads is predefined.
 */
bool sml_mpi_kind_of(struct sml_mpi_kind *kind, MPI_Datatype type, MPI_Op op)
{
	static _Thread_local struct {
		bool valid;
		MPI_Datatype type;
		MPI_Op op;
		struct sml_mpi_kind kind;
	} last;

	if (last.valid && last.type == type && last.op == op) {
		*kind = last.kind;
		return true;
	}
	if (!find_kind(kind, type, op))
		return false;
	last.valid = true;
	last.type = type;
	last.op = op;
	last.kind = *kind;
	return true;
}

static enum sml_type named_element_of(MPI_Datatype type)
{
	enum number number = number_of(type);
	enum sml_type found;
	int bytes = 0;

	if (number != NONE && PMPI_Type_size(type, &bytes) == MPI_SUCCESS &&
	    type_of(number, bytes, &found))
		return found;
	return SML_BYTE;
}

static bool is_named(MPI_Datatype type)
{
	int integers, addresses, types, combiner = MPI_COMBINER_DUP;

	return PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner) ==
		       MPI_SUCCESS &&
	       combiner == MPI_COMBINER_NAMED;
}

/* What the parts have in common. A struct may have parts of length 0, which count for nothing. */
static enum sml_type common_element_of(const MPI_Datatype *parts, int n, const int *lengths)
{
	enum sml_type common = SML_BYTE;
	bool is_first = true;

	for (int i = 0; i < n; i++) {
		enum sml_type element;

		if (lengths && lengths[i] == 0)
			continue;
		element = sml_mpi_element_of(parts[i]);
		if (!is_first && element != common)
			return SML_BYTE;
		common = element;
		is_first = false;
	}
	return common;
}

static enum sml_type built_element_of(MPI_Datatype type, int n_integers, int n_addresses,
				      int n_parts, int combiner)
{
	int *integers = calloc((size_t)n_integers + 1, sizeof(*integers));
	MPI_Aint *addresses = calloc((size_t)n_addresses + 1, sizeof(*addresses));
	MPI_Datatype *parts = calloc((size_t)n_parts + 1, sizeof(MPI_Datatype));
	enum sml_type element = SML_BYTE;

	if (integers && addresses && parts &&
	    PMPI_Type_get_contents(type, n_integers, n_addresses, n_parts, integers, addresses,
				   parts) == MPI_SUCCESS) {
		element = common_element_of(parts, n_parts,
					    combiner == MPI_COMBINER_STRUCT ? integers + 1 : NULL);
		for (int i = 0; i < n_parts; i++)
			if (!is_named(parts[i]))
				PMPI_Type_free(&parts[i]);
	}
	free(integers);
	free(addresses);
	free(parts);
	return element;
}

enum sml_type sml_mpi_element_of(MPI_Datatype type)
{
	int integers, addresses, parts, combiner;

	if (PMPI_Type_get_envelope(type, &integers, &addresses, &parts, &combiner) != MPI_SUCCESS)
		return SML_BYTE;
	if (combiner == MPI_COMBINER_NAMED)
		return named_element_of(type);
	return built_element_of(type, integers, addresses, parts, combiner);
}

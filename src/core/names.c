/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/names.h"

const char *sml_collective_name(enum sml_collective collective)
{
	switch (collective) {
	case SML_ALLREDUCE:
		return "all-reduce";
	case SML_BROADCAST:
		return "broadcast";
	case SML_ALLGATHER:
		return "all-gather";
	case SML_REDUCE_SCATTER:
		return "reduce-scatter";
	case SML_BARRIER:
		return "barrier";
	case SML_REDUCE:
		return "reduce";
	}
	return "unknown";
}

const char *sml_type_name(enum sml_type type)
{
	switch (type) {
	case SML_FLOAT32:
		return "float32";
	case SML_FLOAT16:
		return "float16";
	case SML_BFLOAT16:
		return "bfloat16";
	case SML_INT32:
		return "int32";
	case SML_BYTE:
		return "byte";
	case SML_FLOAT64:
		return "float64";
	case SML_INT64:
		return "int64";
	case SML_UINT8:
		return "uint8";
	case SML_INT8:
		return "int8";
	case SML_INT16:
		return "int16";
	case SML_BOOL:
		return "bool";
	}
	return "unknown";
}

const char *sml_op_name(enum sml_op op)
{
	switch (op) {
	case SML_SUM:
		return "sum";
	case SML_AVG:
		return "avg";
	case SML_MAX:
		return "max";
	case SML_MIN:
		return "min";
	}
	return "unknown";
}

const char *sml_wire_name(enum sml_wire wire)
{
	switch (wire) {
	case SML_WIRE_DEFAULT:
		return "default";
	case SML_WIRE_INT32:
		return "int32";
	case SML_WIRE_INT16:
		return "int16";
	case SML_WIRE_INT64:
		return "int64";
	case SML_WIRE_EXACT:
		return "exact";
	case SML_WIRE_INT8:
		return "int8";
	case SML_WIRE_GRADIENT:
		return "gradient";
	}
	return "unknown";
}

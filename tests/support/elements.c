/* SPDX-License-Identifier: BSD-3-Clause */
/* See elements.h. Floats are written in a simple way, not by the core's code. */
#include "support/elements.h"

#include <math.h>
#include <stdint.h>

#include "core/element.h"
#include "support/quantize_reference.h"

int element_value(int rank, size_t i, unsigned salt)
{
	uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + salt * 977u;

	x ^= x >> 15;
	return (int)(x % 201) - 100;
}

void element_put(void *buffer, enum sml_type type, size_t i, int value)
{
	if (type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16)
		ref_store(type, buffer, i, value);
	else if (type == SML_INT32)
		((sml_any_u32 *)buffer)[i] = (uint32_t)value;
	else
		((uint8_t *)buffer)[i] = (uint8_t)value;
}

double element_get(const void *buffer, enum sml_type type, size_t i)
{
	if (type == SML_FLOAT32 || type == SML_FLOAT16 || type == SML_BFLOAT16)
		return ref_load(type, buffer, i);
	if (type == SML_INT32)
		return (double)(int32_t)((const sml_any_u32 *)buffer)[i];
	return (double)((const int8_t *)buffer)[i];
}

double element_expected(int n, enum sml_type type, enum sml_op op, size_t i, unsigned salt)
{
	double result = element_value(0, i, salt);

	for (int r = 1; r < n; r++) {
		double x = element_value(r, i, salt);

		if (op == SML_SUM || op == SML_AVG)
			result += x;
		else if (op == SML_MAX ? x > result : x < result)
			result = x;
	}
	if (op == SML_AVG)
		result = type == SML_INT32 ? trunc(result / n) : result / n;
	return result;
}

double element_tolerance(int n, enum sml_type type, enum sml_op op, enum sml_wire wire)
{
	double most = 100.0 * n, step = wire == SML_WIRE_INT16 ? 0x1p-14 : 0x1p-30;
	double unit = type == SML_FLOAT32 ? 0x1p-24 : type == SML_FLOAT16 ? 0x1p-11 : 0x1p-8;

	if (type == SML_INT32 || op == SML_MAX || op == SML_MIN)
		return 0;
	return most * unit + 100.0 * n * n * 2 * step;
}

void elements_fill(int32_t *data, size_t n, int32_t value)
{
	for (size_t i = 0; i < n; i++)
		data[i] = value;
}

bool elements_are(const int32_t *data, size_t n, int32_t value)
{
	for (size_t i = 0; i < n; i++)
		if (data[i] != value)
			return false;
	return true;
}

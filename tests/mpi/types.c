/* SPDX-License-Identifier: BSD-3-Clause */
/* Many types, operations and sizes, in place and not in place, in buffers with odd addresses. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

#define MOST_BYTES (8 * 300000)

#ifdef MPICH
#define COMPARES_SIGNED true
#else
#define COMPARES_SIGNED false
#endif

static const int counts[] = {0, 1, 100, 16383, 16384, LARGE, 300000};

enum number { FLOATING, SIGNED, UNSIGNED, TRUTH };

struct type {
	const char *name;
	MPI_Datatype handle;
	enum number number;
	int bytes;
};

enum operation { SUM, MAX, MIN, PROD };
static const char *const operations[] = {"sum", "max", "min", "product"};

static MPI_Op handle_of(const struct type *type, enum operation operation)
{
	/* Truth values: "or" twice, "and", and an operation that no switch does. */
	if (type->number == TRUTH)
		return operation == MIN ? MPI_LAND : operation == PROD ? MPI_LXOR : MPI_LOR;
	return operation == SUM	  ? MPI_SUM
	       : operation == MAX ? MPI_MAX
	       : operation == MIN ? MPI_MIN
				  : MPI_PROD;
}

/* With the type's width, signed or unsigned. */
static int64_t fitted(const struct type *type, int64_t x)
{
	int unused = 64 - 8 * type->bytes;
	uint64_t bits = (uint64_t)x << unused;

	if (type->number == FLOATING)
		return x;
	return type->number == SIGNED ? (int64_t)bits >> unused : (int64_t)(bits >> unused);
}

/* Products of few small primes are exact, too. */
static int64_t element(const struct type *type, enum operation operation, int rank, int i)
{
	int64_t x = operation == PROD ? 1 + (rank + i) % 3 : value(rank, i, 5);

	if (type->number == TRUTH)
		return x % 2 != 0;
	if (operation == PROD || type->number == FLOATING)
		return x;
	/* MPICH 4.0.2 compares unsigned numbers as signed ones, Open MPI 4.1.4 those of 64 bits. */
	if (type->number == UNSIGNED && operation != SUM && (COMPARES_SIGNED || type->bytes == 8))
		return llabs(x);
	/* Open MPI's sums of narrow integers stop at the limit, and others wrap around. */
	if (type->bytes < 4 && operation == SUM)
		return type->number == UNSIGNED ? llabs(x) : x / 2;
	/* Large numbers: the highest bit tells signed from unsigned, and sums wrap around. */
	return fitted(type, x * ((int64_t)1 << (8 * type->bytes - 7)));
}

static void put(char *place, const struct type *type, int64_t x)
{
	const double d = (double)x;
	const float f = (float)x;
	const int32_t i32 = (int32_t)x;
	const int16_t i16 = (int16_t)x;
	const int8_t i8 = (int8_t)x;

	if (type->number == FLOATING)
		memcpy(place, type->bytes == 8 ? (const void *)&d : &f, (size_t)type->bytes);
	else if (type->bytes == 8)
		memcpy(place, &x, sizeof(x));
	else if (type->bytes == 4)
		memcpy(place, &i32, sizeof(i32));
	else if (type->bytes == 2)
		memcpy(place, &i16, sizeof(i16));
	else
		memcpy(place, &i8, sizeof(i8));
}

static int64_t combine(const struct type *type, enum operation operation, int64_t a, int64_t b)
{
	bool less = type->number == UNSIGNED ? (uint64_t)a < (uint64_t)b : a < b;

	if (type->number == TRUTH)
		return operation == MIN ? a & b : operation == PROD ? a ^ b : a | b;
	switch (operation) {
	case SUM:
		return fitted(type, (int64_t)((uint64_t)a + (uint64_t)b));
	case MAX:
		return less ? b : a;
	case MIN:
		return less ? a : b;
	case PROD:
		return fitted(type, (int64_t)((uint64_t)a * (uint64_t)b));
	}
	return 0;
}

static void try(const struct type *type, enum operation operation, int count, bool in_place,
		int odd)
{
	static char send[MOST_BYTES + 16], recv[MOST_BYTES + 16], right[8];
	char what[100];
	int rank, n_ranks;
	int64_t x;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	memset(recv, 0xa5, sizeof(recv));
	for (int i = 0; i < count; i++)
		put((in_place ? recv : send) + odd + i * type->bytes, type,
		    element(type, operation, rank, i));
	MPI_Allreduce(in_place ? MPI_IN_PLACE : send + odd, recv + odd, count, type->handle,
		      handle_of(type, operation), MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		const char *is = recv + odd + i * type->bytes;
		uint64_t bits = 0;

		x = element(type, operation, 0, i);
		for (int r = 1; r < n_ranks; r++)
			x = combine(type, operation, x, element(type, operation, r, i));
		put(right, type, x);
		if (memcmp(right, is, (size_t)type->bytes) == 0)
			continue;
		snprintf(what, sizeof(what), "%s of %d %s%s, element %d (its bits)",
			 operations[operation], count, type->name, in_place ? " in place" : "", i);
		memcpy(&bits, is, (size_t)type->bytes);
		complain(what, (double)bits, (double)x);
		return;
	}
	if ((unsigned char)recv[odd + count * type->bytes] != 0xa5)
		complain("the byte behind the buffer", recv[odd + count * type->bytes], 0xa5);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	const struct type types[] = {
		{"float", MPI_FLOAT, FLOATING, 4},
		{"double", MPI_DOUBLE, FLOATING, 8},
		{"signed char", MPI_SIGNED_CHAR, SIGNED, 1},
		{"unsigned char", MPI_UNSIGNED_CHAR, UNSIGNED, 1},
		{"short", MPI_SHORT, SIGNED, 2},
		{"uint16_t", MPI_UINT16_T, UNSIGNED, 2},
		{"int", MPI_INT, SIGNED, 4},
		{"unsigned", MPI_UNSIGNED, UNSIGNED, 4},
		{"long", MPI_LONG, SIGNED, sizeof(long)},
		{"int64_t", MPI_INT64_T, SIGNED, 8},
		{"unsigned long", MPI_UNSIGNED_LONG, UNSIGNED, sizeof(long)},
		{"bool", MPI_C_BOOL, TRUTH, sizeof(bool)},
	};

	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (int operation = SUM; operation <= PROD; operation++)
			for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
				for (int in_place = 0; in_place < 2; in_place++)
					try(&types[t], (enum operation)operation, counts[c],
					    in_place, 0);
	/* MPI requires no alignment. Only one rank may have an unaligned buffer. */
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	try(&types[0], SUM, LARGE, false, rank == 1);
	try(&types[0], SUM, LARGE, true, rank == 1 ? 3 : 0);
	return end();
}

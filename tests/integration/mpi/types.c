/* SPDX-License-Identifier: BSD-3-Clause */
/* Many types, operations and sizes, in place and not, in buffers of odd addresses. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

#define MOST_BYTES (8 * 300000)

static const int counts[] = {0, 1, 100, 16383, 16384, LARGE, 300000};

enum number { FLOAT, DOUBLE, INT, UNSIGNED, LONG };

struct type {
	const char *name;
	enum number number;
	int bytes;
};

static const struct type types[] = {
	{"float", FLOAT, 4},	   {"double", DOUBLE, 8}, {"int", INT, 4},
	{"unsigned", UNSIGNED, 4}, {"long", LONG, 8},
};

enum operation { SUM, MAX, MIN, PROD };
static const char *const operations[] = {"sum", "max", "min", "product"};

static MPI_Datatype handle(enum number number)
{
	return number == FLOAT	    ? MPI_FLOAT
	       : number == DOUBLE   ? MPI_DOUBLE
	       : number == INT	    ? MPI_INT
	       : number == UNSIGNED ? MPI_UNSIGNED
				    : MPI_LONG;
}

static MPI_Op handle_of(enum operation operation)
{
	return operation == SUM	  ? MPI_SUM
	       : operation == MAX ? MPI_MAX
	       : operation == MIN ? MPI_MIN
				  : MPI_PROD;
}

/* Of few small primes, so that products are exact, too; unsigned ones not below zero. */
static double element(const struct type *type, enum operation operation, int rank, int i)
{
	int x = operation == PROD ? 1 + (rank + i) % 3 : value(rank, i, 5);

#ifdef MPICH
	/* MPICH 4.0.2 compares unsigned numbers as signed ones. */
	if (type->number == UNSIGNED && operation != SUM)
		return abs(x);
#endif
	/* Large numbers with the highest bit set tell signed from unsigned. */
	if (type->number == UNSIGNED && operation != PROD)
		return (double)(uint32_t)(x * 40000000);
	return x;
}

static void put(char *place, const struct type *type, double x)
{
	const float f = (float)x;
	const int i = (int)x;
	const unsigned u = (unsigned)x;
	const long l = (long)x;

	switch (type->number) {
	case FLOAT:
		memcpy(place, &f, sizeof(f));
		break;
	case DOUBLE:
		memcpy(place, &x, sizeof(x));
		break;
	case INT:
		memcpy(place, &i, sizeof(i));
		break;
	case UNSIGNED:
		memcpy(place, &u, sizeof(u));
		break;
	case LONG:
		memcpy(place, &l, sizeof(l));
		break;
	}
}

static double combine(const struct type *type, enum operation operation, double a, double b)
{
	switch (operation) {
	case SUM:
		return type->number == UNSIGNED ? (double)((uint32_t)a + (uint32_t)b) : a + b;
	case MAX:
		return a > b ? a : b;
	case MIN:
		return a < b ? a : b;
	case PROD:
		return a * b;
	}
	return 0;
}

static void try(const struct type *type, enum operation operation, int count, bool in_place,
		int odd)
{
	static char send[MOST_BYTES + 16], recv[MOST_BYTES + 16], right[8];
	char what[100];
	unsigned first_word;
	int rank, n_ranks;
	double x;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	memset(recv, 0xa5, sizeof(recv));
	for (int i = 0; i < count; i++)
		put((in_place ? recv : send) + odd + i * type->bytes, type,
		    element(type, operation, rank, i));
	MPI_Allreduce(in_place ? MPI_IN_PLACE : send + odd, recv + odd, count, handle(type->number),
		      handle_of(operation), MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		x = element(type, operation, 0, i);
		for (int r = 1; r < n_ranks; r++)
			x = combine(type, operation, x, element(type, operation, r, i));
		put(right, type, x);
		if (memcmp(right, recv + odd + i * type->bytes, (size_t)type->bytes) == 0)
			continue;
		snprintf(what, sizeof(what), "%s of %d %s%s, element %d", operations[operation],
			 count, type->name, in_place ? " in place" : "", i);
		memcpy(&first_word, recv + odd + i * type->bytes, sizeof(first_word));
		complain(what, first_word, x);
		return;
	}
	if ((unsigned char)recv[odd + count * type->bytes] != 0xa5)
		complain("the byte behind the buffer", recv[odd + count * type->bytes], 0xa5);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++)
		for (int operation = SUM; operation <= PROD; operation++)
			for (unsigned c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
				for (int in_place = 0; in_place < 2; in_place++)
					try(&types[t], (enum operation)operation, counts[c],
					    in_place, 0);
	/* MPI asks for no alignment. A rank may be alone with it. */
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	try(&types[0], SUM, LARGE, false, rank == 1);
	try(&types[0], SUM, LARGE, true, rank == 1 ? 3 : 0);
	return end();
}

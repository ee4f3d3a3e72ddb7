/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduces, reduce-scatters and broadcasts: every type that an all-reduce has, to every root, in
 * place and not, in buffers with odd addresses; wrong arguments; what only MPI does.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "program.h"

#define MOST  (8 * (LARGE + 100))
#define SMALL 8000 /* of any type, below the threshold of 64 KiB */

static int rank, n_ranks;
static char send_data[MOST], recv_data[MOST], all_data[MOST];

struct type {
	const char *name;
	MPI_Datatype handle;
	MPI_Op op;
	int bytes;
};

/* Positive, and small enough that sums neither round nor wrap around. */
static void put(char *place, const struct type *type, int from, int i)
{
	int x = abs(value(from, i, 3)) % 20;
	const double d = x;
	const float f = (float)x;
	const int64_t i64 = x;

	if (type->handle == MPI_FLOAT)
		memcpy(place, &f, sizeof(f));
	else if (type->handle == MPI_DOUBLE)
		memcpy(place, &d, sizeof(d));
	else if (type->handle == MPI_C_BOOL)
		*place = (char)(x & 1);
	else
		memcpy(place, &i64, (size_t)type->bytes); /* little-endian */
}

static void fill_all(char *buffer, const struct type *type, int n)
{
	for (int i = 0; i < n; i++)
		put(buffer + i * type->bytes, type, rank, i);
}

/* MPI's own all-reduce is small enough to stay there, part by part. */
static void reference(const struct type *type, int n)
{
	fill_all(all_data, type, n);
	for (int i = 0; i < n; i += SMALL)
		MPI_Allreduce(MPI_IN_PLACE, all_data + i * type->bytes,
			      n - i < SMALL ? n - i : SMALL, type->handle, type->op,
			      MPI_COMM_WORLD);
}

static void compare(const char *what, const struct type *type, const char *is, const char *wanted,
		    int n)
{
	char title[100];

	for (int i = 0; i < n; i++) {
		if (memcmp(is + i * type->bytes, wanted + i * type->bytes, (size_t)type->bytes) ==
		    0)
			continue;
		snprintf(title, sizeof(title), "%s of %s, element", what, type->name);
		complain(title, i, n);
		return;
	}
}

static bool is_untouched(const char *buffer, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (buffer[i] != 0x5a)
			return false;
	return true;
}

static void reduce(const struct type *type, int n, int root, bool in_place, int odd)
{
	size_t bytes = (size_t)n * (size_t)type->bytes;

	memset(recv_data, 0x5a, sizeof(recv_data));
	fill_all((in_place && rank == root ? recv_data : send_data) + odd, type, n);
	MPI_Reduce(in_place && rank == root ? MPI_IN_PLACE : send_data + odd,
		   rank == root ? recv_data + odd : NULL, n, type->handle, type->op, root,
		   MPI_COMM_WORLD);
	if (rank == root)
		compare("reduce", type, recv_data + odd, all_data, n);
	else if (!is_untouched(recv_data, bytes))
		complain("a rank that is not root", rank, root);
}

static void reduce_scatter(const struct type *type, int n, bool in_place, int odd)
{
	int part = n / n_ranks;
	size_t bytes = (size_t)part * (size_t)type->bytes;

	memset(recv_data, 0x5a, sizeof(recv_data));
	fill_all((in_place ? recv_data : send_data) + odd, type, part * n_ranks);
	MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : send_data + odd, recv_data + odd, part,
				 type->handle, type->op, MPI_COMM_WORLD);
	compare("reduce_scatter_block", type, recv_data + odd, all_data + bytes * (size_t)rank,
		part);
}

static void all_types(void)
{
	const struct type types[] = {
		{"float", MPI_FLOAT, MPI_SUM, 4},
		{"float", MPI_FLOAT, MPI_MAX, 4},
		{"double", MPI_DOUBLE, MPI_SUM, 8},
		{"double", MPI_DOUBLE, MPI_MIN, 8},
		{"signed char", MPI_SIGNED_CHAR, MPI_SUM, 1},
		{"unsigned char", MPI_UNSIGNED_CHAR, MPI_MAX, 1},
		{"short", MPI_SHORT, MPI_SUM, 2},
		{"uint16_t", MPI_UINT16_T, MPI_SUM, 2},
		{"int", MPI_INT, MPI_SUM, 4},
		{"unsigned", MPI_UNSIGNED, MPI_SUM, 4},
		{"long", MPI_LONG, MPI_SUM, sizeof(long)},
		{"int64_t", MPI_INT64_T, MPI_MAX, 8},
		{"unsigned long", MPI_UNSIGNED_LONG, MPI_SUM, sizeof(long)},
		{"bool", MPI_C_BOOL, MPI_LOR, sizeof(bool)},
		{"bool", MPI_C_BOOL, MPI_LAND, sizeof(bool)},
		{"int, product", MPI_INT, MPI_PROD, 4}, /* no switch computes this */
	};

	for (unsigned t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
		reference(&types[t], LARGE);
		/* In place at root 0 only: MPICH 4.0's own crashes at other roots. */
		for (int root = 0; root < n_ranks; root++)
			reduce(&types[t], LARGE, root, root == 0, 0);
		reduce(&types[t], SMALL, 0, true, 0);
		reduce_scatter(&types[t], LARGE, false, 0);
		reduce_scatter(&types[t], LARGE, true, 0);
	}
	/* Only one rank has unaligned buffers. */
	reference(&types[0], LARGE);
	reduce(&types[0], LARGE, n_ranks - 1, false, rank == n_ranks - 1);
	reduce(&types[0], LARGE, 0, true, rank == 0 ? 3 : 0);
	reduce_scatter(&types[0], LARGE, false, rank == 0);
	reduce_scatter(&types[0], LARGE, true, rank == n_ranks - 1 ? 1 : 0);
}

/* Rank 0 has every second element of a column, the others have them side by side. */
static void broadcasts(void)
{
	static int column[2 * LARGE], row[LARGE];
	MPI_Datatype every_second, pairs;
	struct {
		double value;
		int place;
	} *found = calloc(LARGE, sizeof(*found));

	for (int root = 0; root < n_ranks; root++) {
		for (int i = 0; i < LARGE; i++)
			row[i] = rank == root ? value(root, i, 9) : -1;
		MPI_Bcast(row, LARGE, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < LARGE; i++)
			if (row[i] != value(root, i, 9)) {
				complain("broadcast", row[i], value(root, i, 9));
				break;
			}
	}
	MPI_Type_vector(LARGE, 1, 2, MPI_INT, &every_second);
	MPI_Type_commit(&every_second);
	for (int root = 0; root < 2 && root < n_ranks; root++) {
		for (int i = 0; i < 2 * LARGE; i++)
			column[i] = rank == 0 && root == 0 ? i : -7;
		for (int i = 0; i < LARGE; i++)
			row[i] = 2 * i;
		if (rank == 0)
			MPI_Bcast(column, 1, every_second, root, MPI_COMM_WORLD);
		else
			MPI_Bcast(row, LARGE, MPI_INT, root, MPI_COMM_WORLD);
		for (int i = 0; i < LARGE; i++)
			if ((rank == 0 ? column[2 * i] : row[i]) != 2 * i ||
			    (rank == 0 && root == 1 && column[2 * i + 1] != -7)) {
				complain("broadcast of a column, element", i, 2 * i);
				break;
			}
	}
	MPI_Type_free(&every_second);
	/* A type with a gap. */
	for (int i = 0; i < LARGE && rank == 0; i++) {
		found[i].value = i;
		found[i].place = -i;
	}
	MPI_Type_dup(MPI_DOUBLE_INT, &pairs);
	MPI_Bcast(found, LARGE, rank == 0 ? MPI_DOUBLE_INT : pairs, 0, MPI_COMM_WORLD);
	for (int i = 0; i < LARGE; i++)
		if (found[i].value != i || found[i].place != -i) {
			complain("broadcast of pairs", found[i].value, i);
			break;
		}
	MPI_Type_free(&pairs);
	free(found);
}

static void add(void *in, void *in_out, int *n, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *n; i++)
		((float *)in_out)[i] += ((float *)in)[i];
}

static void only_mpi(void)
{
	const struct type type = {"float", MPI_FLOAT, MPI_SUM, 4};
	MPI_Comm self, inter;
	MPI_Op own;
	int low, remote;

	reference(&type, LARGE);
	MPI_Op_create(add, 1, &own);
	fill_all(send_data, &type, LARGE);
	MPI_Reduce(send_data, recv_data, LARGE, MPI_FLOAT, own, 0, MPI_COMM_WORLD);
	if (rank == 0)
		compare("an operation of its own", &type, recv_data, all_data, LARGE);
	MPI_Op_free(&own);
	if (n_ranks < 2)
		return;
	/* Rank 0 alone, and all others: the group of rank 0 gets the others' sum. */
	low = rank == 0;
	MPI_Comm_split(MPI_COMM_WORLD, low, rank, &self);
	MPI_Intercomm_create(self, 0, MPI_COMM_WORLD, low, 4, &inter);
	MPI_Comm_remote_size(inter, &remote);
	MPI_Reduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, low ? MPI_ROOT : 0, inter);
	if (low) {
		for (int i = 0; i < LARGE; i++) {
			float wanted, mine;

			memcpy(&wanted, all_data + 4 * i, 4);
			memcpy(&mine, send_data + 4 * i, 4);
			if (((float *)(void *)recv_data)[i] == wanted - mine)
				continue;
			complain("between groups, element", i, remote);
			break;
		}
	}
	MPI_Bcast(recv_data, LARGE, MPI_FLOAT, low ? MPI_ROOT : 0, inter);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&self);
}

/* Each is an error on all ranks, and harms nothing. Debian's MPICH checks no arguments. */
static void wrong_arguments(void)
{
#ifndef MPICH
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Allreduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_MAX, comm);
	if (MPI_Reduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, n_ranks, comm) ==
		    MPI_SUCCESS ||
	    MPI_Reduce(send_data, recv_data, LARGE, MPI_FLOAT, MPI_SUM, -7, comm) == MPI_SUCCESS ||
	    MPI_Reduce(send_data, recv_data, -1, MPI_FLOAT, MPI_SUM, 0, comm) == MPI_SUCCESS ||
	    MPI_Reduce_scatter_block(send_data, recv_data, -1, MPI_FLOAT, MPI_SUM, comm) ==
		    MPI_SUCCESS ||
	    MPI_Bcast(send_data, LARGE, MPI_FLOAT, n_ranks, comm) == MPI_SUCCESS)
		complain("a wrong argument was accepted", 0, 1);
	MPI_Barrier(comm);
	MPI_Comm_free(&comm);
#endif
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
	all_types();
	broadcasts();
	only_mpi();
	wrong_arguments();
	return end();
}

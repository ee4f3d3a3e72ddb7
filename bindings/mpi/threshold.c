/* SPDX-License-Identifier: BSD-3-Clause */
#include "bindings/mpi/threshold.h"

#include <stdlib.h>
#include <string.h>

bool sml_mpi_parse_bytes(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	*bytes = strtoull(text, &end, 10);
	if (*bytes > UINT64_MAX >> 32)
		return false;
	if (*end) {
		unit = strchr(units, *end++);
		if (unit == NULL)
			return false;
		*bytes <<= 10 * (unit - units + 1);
	}
	return *end == '\0' && *bytes > 0;
}

/*
 * Bytes over a rank's link for each element. MPI's best algorithms send 2(n-1)/n times an
 * element's size. SwitchML sends 4 for float32 and int32, 12 for sums of 64 bits, 8 for
 * their MAX and MIN, 2 for sums of narrow integers, and 4 for their MAX and MIN. A switch in
 * the ranks sends as many as a ring, or more, and on one host MPI has shared memory. Sums of 64
 * bits save a seventh with 8 ranks, which is where they were measured to be faster (docs/mpi.md); 6
 * and 7 ranks save less, and were not. A reduce or a reduce-scatter of them can move fewer bytes
 * through MPI: 8 an element, or less.
 */
static bool gains(const struct sml_mpi_site *site, enum sml_type type, enum sml_mpi_sizes size)
{
	if (site->embedded || !site->apart || site->ranks < 3)
		return false;
	switch (type) {
	case SML_FLOAT32:
	case SML_INT32:
		return true;
	case SML_FLOAT64:
	case SML_INT64:
		return size == SML_MPI_MAX || (size == SML_MPI_SUM && site->ranks >= 8);
	case SML_INT16:
		return size != SML_MPI_MAX;
	default:
		return false;
	}
}

void sml_mpi_bytes_fill(struct sml_mpi_bytes *bytes, uint64_t value)
{
	for (size_t type = 0; type < SML_TYPES; type++)
		for (int size = 0; size < SML_MPI_SIZES; size++)
			bytes->of[type][size] = value;
}

void sml_mpi_bytes_gaining(struct sml_mpi_bytes *bytes, const struct sml_mpi_site *site)
{
	sml_mpi_bytes_fill(bytes, SML_MPI_NEVER);
	for (size_t type = 0; type < SML_TYPES; type++)
		for (int size = 0; size < SML_MPI_SIZES; size++)
			if (gains(site, (enum sml_type)type, (enum sml_mpi_sizes)size))
				bytes->of[type][size] = SML_MPI_THRESHOLD;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The size from which an all-reduce goes through the switch: a table, as text. This code does
 * not use MPI.
 *
 *	switchml-mpi-table 1
 *	# switch   hosts  ranks  type     op   from
 *	dedicated  each   2      float32  sum  65536
 *	dedicated  each   8      float64  sum  32K
 *	embedded   *      2      *        *    never
 *
 *	switch	dedicated, or embedded in the ranks
 *	hosts	each: one rank on each host; one: all ranks on one host; some: other
 *	ranks	a line applies to communicators of at least this many ranks
 *	type	as SwitchML calls it
 *	op	sum; max, which also applies to MIN; or reduce, which is a sum that not every rank
 *		gets as a whole (lines of sum also apply to it)
 *	from	bytes, also with K, M or G; or never
 *
 * `*` stands for all values of the first two columns, all types or all operations. Of the
 * lines that apply, the last one decides. A call that no line applies to never goes through
 * the switch.
 */
#ifndef SML_MPI_TABLE_H
#define SML_MPI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switchml.h"

/* Of a communicator. Larger ones would need a tree of switches, and are left to MPI. */
#define SML_MPI_MAX_RANKS 64

/* The longest table that can be read. */
#define SML_MPI_TABLE_BYTES ((size_t)1 << 18)

#define SML_MPI_NEVER UINT64_MAX
#define SML_MPI_TYPES ((size_t)SML_BOOL + 1)

enum sml_mpi_hosts { SML_MPI_EACH, SML_MPI_ONE, SML_MPI_SOME };

/* Where the ranks of a communicator and their switch are. */
struct sml_mpi_site {
	bool embedded;
	enum sml_mpi_hosts hosts;
	int ranks;
};

/* What a size holds for: all-reduces that sum, all of MAX and MIN, and other calls that sum. */
enum sml_mpi_sizes { SML_MPI_SUM, SML_MPI_MAX, SML_MPI_SUM_IN_PARTS, SML_MPI_SIZES };

/* Bytes. */
struct sml_mpi_bytes {
	uint64_t of[SML_MPI_TYPES][SML_MPI_SIZES];
};

/* in_parts: of MPI_Reduce and MPI_Reduce_scatter_block. */
static inline uint64_t *sml_mpi_bytes_of(struct sml_mpi_bytes *bytes, enum sml_type type,
					 enum sml_op op, bool in_parts)
{
	enum sml_mpi_sizes size = op == SML_MAX || op == SML_MIN ? SML_MPI_MAX
				  : in_parts			 ? SML_MPI_SUM_IN_PARTS
								 : SML_MPI_SUM;

	return &bytes->of[type][size];
}

/* Use the same value for every type and operation. */
void sml_mpi_bytes_fill(struct sml_mpi_bytes *bytes, uint64_t value);

/*
 * Apply a table's lines for a site to `from`. False: `why` says which line is wrong and why,
 * and `from` is unchanged.
 */
bool sml_mpi_table_read(const char *text, const struct sml_mpi_site *site,
			struct sml_mpi_bytes *from, char *why, size_t why_bytes);

/* The default table, used if no other table applies. */
const char *sml_mpi_table_default(void);

/* "65536" or "64K": at least 1, and less than 2^62. */
bool sml_mpi_parse_bytes(const char *text, uint64_t *bytes);

/* The words in the columns of a table. */
const char *sml_mpi_type_word(enum sml_type type);
const char *sml_mpi_hosts_word(enum sml_mpi_hosts hosts);

#endif

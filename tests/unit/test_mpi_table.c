/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the MPI preload: its decisions, and the tables that it refuses. */
#include "bindings/mpi/table.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADING "switchml-mpi-table 1\n"

static const struct sml_mpi_site eight = {.hosts = SML_MPI_EACH, .ranks = 8};

static bool read_table(const char *text, const struct sml_mpi_site *site,
		       struct sml_mpi_bytes *from, char why[128])
{
	sml_mpi_bytes_fill(from, SML_MPI_NEVER);
	why[0] = '\0';
	return sml_mpi_table_read(text, site, from, why, 128);
}

static uint64_t decided_for(const char *text, const struct sml_mpi_site *site, enum sml_type type,
			    enum sml_op op, bool in_parts)
{
	struct sml_mpi_bytes from;
	char why[128];

	if (!read_table(text, site, &from, why))
		fail_msg("%s", why);
	return *sml_mpi_bytes_of(&from, type, op, in_parts);
}

static uint64_t decided(const char *text, const struct sml_mpi_site *site, enum sml_type type,
			enum sml_op op)
{
	return decided_for(text, site, type, op, false);
}

TEST(the_last_line_that_fits_decides)
{
	static const char table[] = HEADING "# a comment\n"
					    "\n"
					    "*         each 2 *       *   64K   # the first\n"
					    "dedicated each 4 float64 sum 1M\r\n"
					    "\tdedicated each 8 float64\tsum 123\n"
					    "dedicated each 9 * * 1\n"
					    "embedded * 2 * * never\n"
					    "dedicated one 2 * * 2G";
	struct sml_mpi_site site = eight;

	assert_int_equal(decided(table, &site, SML_FLOAT64, SML_SUM), 123);
	assert_int_equal(decided(table, &site, SML_FLOAT64, SML_MAX), 65536);
	assert_int_equal(decided(table, &site, SML_FLOAT32, SML_SUM), 65536);
	site.ranks = 7;
	assert_int_equal(decided(table, &site, SML_FLOAT64, SML_SUM), 1 << 20);
	site.ranks = 9;
	assert_int_equal(decided(table, &site, SML_FLOAT64, SML_MIN), 1);
	site.hosts = SML_MPI_ONE;
	assert_true(decided(table, &site, SML_BOOL, SML_MIN) == (uint64_t)2 << 30);
	site.hosts = SML_MPI_SOME;
	assert_true(decided(table, &site, SML_FLOAT32, SML_SUM) == SML_MPI_NEVER);
	site = (struct sml_mpi_site){.embedded = true, .hosts = SML_MPI_EACH, .ranks = 64};
	assert_true(decided(table, &site, SML_FLOAT32, SML_SUM) == SML_MPI_NEVER);
}

TEST(lines_may_end_as_on_windows)
{
	static const char table[] = "switchml-mpi-table 1\r\n* * 2 * * 4096\r\n\r\n";

	assert_int_equal(decided(table, &eight, SML_INT64, SML_MAX), 4096);
}

TEST(max_stands_for_min_too)
{
	static const char table[] = HEADING "* * 2 int64 max 4096\n";

	assert_int_equal(decided(table, &eight, SML_INT64, SML_MAX), 4096);
	assert_int_equal(decided(table, &eight, SML_INT64, SML_MIN), 4096);
	assert_true(decided(table, &eight, SML_INT64, SML_SUM) == SML_MPI_NEVER);
}

/* A reduce has the size of a sum, if no later line gives it one. */
TEST(sum_stands_for_reduce_too)
{
	static const char table[] = HEADING "* * 2 int64 sum 4096\n* * 2 float64 reduce 8192\n";
	static const char later[] = HEADING "* * 2 int64 reduce 8192\n* * 2 int64 sum 4096\n";

	assert_int_equal(decided_for(table, &eight, SML_INT64, SML_SUM, true), 4096);
	assert_int_equal(decided_for(table, &eight, SML_FLOAT64, SML_SUM, true), 8192);
	assert_true(decided(table, &eight, SML_FLOAT64, SML_SUM) == SML_MPI_NEVER);
	assert_true(decided_for(table, &eight, SML_INT64, SML_MAX, true) == SML_MPI_NEVER);
	assert_int_equal(decided_for(later, &eight, SML_INT64, SML_SUM, true), 4096);
}

TEST(a_wrong_line_is_named_and_changes_nothing)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{"", "line 1: not \"switchml-mpi-table 1\""},
		{"switchml-mpi-table 2\n", "line 1: not \"switchml-mpi-table 1\""},
		{HEADING "* * 2 * * 1\n* * 2 * * 0\n", "line 3: from"},
		{HEADING "* * 2 * * -1\n", "line 2: from"},
		{HEADING "* * 2 * * 64q\n", "line 2: from"},
		{HEADING "* * 2 * * 99999999999999999999\n", "line 2: from"},
		{HEADING "* * 65 * * 1\n", "line 2: ranks"},
		{HEADING "* * -2 * * 1\n", "line 2: ranks"},
		{HEADING "* * two * * 1\n", "line 2: ranks"},
		{HEADING "both * 2 * * 1\n", "line 2: switch"},
		{HEADING "* all 2 * * 1\n", "line 2: hosts"},
		{HEADING "* * 2 float * 1\n", "line 2: type"},
		{HEADING "* * 2 * avg 1\n", "line 2: op"},
		{HEADING "* * 2 * *\n", "line 2: not six columns"},
		{HEADING "* * 2 * * 1 1\n", "line 2: not six columns"},
		{HEADING "\n\n* * 2 * # * 1\n", "line 4: not six columns"},
	};
	struct sml_mpi_bytes from;
	char why[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(read_table(wrong[i].text, &eight, &from, why));
		if (strncmp(why, wrong[i].why, strlen(wrong[i].why)) != 0)
			fail_msg("\"%s\" and not \"%s\"", why, wrong[i].why);
		assert_true(from.of[SML_FLOAT32][0] == SML_MPI_NEVER);
	}
}

TEST(a_line_without_end_is_refused)
{
	static char text[70000];
	struct sml_mpi_bytes from;
	char why[128];

	memset(text, '*', sizeof(text) - 1);
	memcpy(text, HEADING, strlen(HEADING));
	assert_false(read_table(text, &eight, &from, why));
	assert_string_equal(why, "line 2: longer than 1023 characters");
}

/* Random contents of a file: never a crash, and always an answer. */
TEST(any_damage_is_survived)
{
	static const char letters[] = "* \n\t#0129KMGsumaxeadfloat64nvr";
	char text[400], why[128];
	struct sml_mpi_bytes from;
	unsigned seed = 1;

	for (int i = 0; i < 20000; i++) {
		size_t n = strlen(HEADING);

		memcpy(text, HEADING "* * 2 float64 sum 64K\n", n + 22);
		for (size_t k = n; k < sizeof(text) - 1; k++) {
			seed = seed * 1664525u + 1013904223u;
			if (k >= n + 22 || seed >> 29 == 0)
				text[k] = letters[(seed >> 16) % (sizeof(letters) - 1)];
		}
		text[sizeof(text) - 1] = '\0';
		if (!read_table(text, &eight, &from, why))
			assert_memory_equal(why, "line ", 5);
	}
}

/* Never if the switch moves more bytes than MPI does, or if MPI has shared memory. */
TEST(the_default_table_carries_what_gains)
{
	const char *table = sml_mpi_table_default();
	struct sml_mpi_site site = eight;

	assert_int_equal(decided(table, &eight, SML_FLOAT32, SML_SUM), 256 << 10);
	assert_int_equal(decided(table, &eight, SML_FLOAT64, SML_MAX), 256 << 10);
	assert_int_equal(decided(table, &eight, SML_INT64, SML_MIN), 256 << 10);
	assert_int_equal(decided(table, &eight, SML_FLOAT64, SML_SUM), 256 << 10);
	assert_int_equal(decided(table, &eight, SML_INT64, SML_SUM), 256 << 10);
	assert_true(decided_for(table, &eight, SML_FLOAT64, SML_SUM, true) == SML_MPI_NEVER);
	assert_true(decided_for(table, &eight, SML_INT64, SML_SUM, true) == SML_MPI_NEVER);
	assert_int_equal(decided_for(table, &eight, SML_FLOAT32, SML_SUM, true), 256 << 10);
	assert_int_equal(decided_for(table, &eight, SML_FLOAT64, SML_MAX, true), 256 << 10);
	assert_true(decided(table, &eight, SML_UINT8, SML_SUM) == SML_MPI_NEVER);
	assert_true(decided(table, &eight, SML_INT16, SML_MAX) == SML_MPI_NEVER);
	/* Fewer bytes with 7 ranks, but not shown to be faster. */
	site.ranks = 7;
	assert_true(decided(table, &site, SML_FLOAT64, SML_SUM) == SML_MPI_NEVER);
	assert_true(decided(table, &site, SML_INT64, SML_SUM) == SML_MPI_NEVER);
	site.ranks = 4;
	assert_int_equal(decided(table, &site, SML_FLOAT64, SML_MAX), 256 << 10);
	site.ranks = 2;
	assert_true(decided(table, &site, SML_FLOAT32, SML_SUM) == SML_MPI_NEVER);
	for (site.ranks = 2; site.ranks <= SML_MPI_MAX_RANKS; site.ranks++) {
		site.hosts = SML_MPI_ONE;
		assert_true(decided(table, &site, SML_FLOAT32, SML_SUM) == SML_MPI_NEVER);
	}
	site = (struct sml_mpi_site){.embedded = true, .hosts = SML_MPI_EACH, .ranks = 8};
	assert_true(decided(table, &site, SML_FLOAT32, SML_SUM) == SML_MPI_NEVER);
}

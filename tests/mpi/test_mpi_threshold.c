/* SPDX-License-Identifier: BSD-3-Clause */
/* Which calls the MPI preload sends through the switch, and the sizes that it reads. */
#include "bindings/mpi/threshold.h"
#include "support/test.h"

static const struct sml_mpi_site eight = {.apart = true, .ranks = 8};

static uint64_t decided_for(const struct sml_mpi_site *site, enum sml_type type, enum sml_op op,
			    bool in_parts)
{
	struct sml_mpi_bytes from;

	sml_mpi_bytes_gaining(&from, site);
	return *sml_mpi_bytes_of(&from, type, op, in_parts);
}

static void goes(const struct sml_mpi_site *site, enum sml_type type, enum sml_op op)
{
	assert_int_equal(decided_for(site, type, op, false), 256 << 10);
}

static void stays(const struct sml_mpi_site *site, enum sml_type type, enum sml_op op)
{
	assert_true(decided_for(site, type, op, false) == SML_MPI_NEVER);
}

TEST(what_moves_fewer_bytes_goes_through_the_switch)
{
	const struct sml_mpi_site three = {.apart = true, .ranks = 3};

	goes(&three, SML_FLOAT32, SML_SUM);
	goes(&three, SML_INT32, SML_MIN);
	goes(&three, SML_FLOAT64, SML_MAX);
	goes(&three, SML_INT64, SML_MIN);
	goes(&three, SML_INT16, SML_SUM);
	goes(&eight, SML_FLOAT64, SML_SUM);
	goes(&eight, SML_INT64, SML_SUM);
	stays(&eight, SML_INT16, SML_MAX);
	stays(&eight, SML_UINT8, SML_SUM);
	stays(&eight, SML_BOOL, SML_MAX);
}

TEST(sums_of_64_bits_stay_with_mpi_where_no_gain_was_measured)
{
	struct sml_mpi_site site = eight;

	/* Fewer bytes with 7 ranks, but not shown to be faster. */
	for (site.ranks = 2; site.ranks < 8; site.ranks++) {
		stays(&site, SML_FLOAT64, SML_SUM);
		stays(&site, SML_INT64, SML_SUM);
	}
	assert_true(decided_for(&eight, SML_FLOAT64, SML_SUM, true) == SML_MPI_NEVER);
	assert_true(decided_for(&eight, SML_INT64, SML_SUM, true) == SML_MPI_NEVER);
	assert_int_equal(decided_for(&eight, SML_FLOAT64, SML_MAX, true), 256 << 10);
	assert_int_equal(decided_for(&eight, SML_FLOAT32, SML_SUM, true), 256 << 10);
}

TEST(nothing_goes_through_a_switch_that_gains_nothing)
{
	struct sml_mpi_site two = {.apart = true, .ranks = 2};
	struct sml_mpi_site site = eight;

	stays(&two, SML_FLOAT32, SML_SUM);
	for (site.ranks = 2; site.ranks <= SML_MPI_MAX_RANKS; site.ranks++) {
		site.apart = false;
		stays(&site, SML_FLOAT32, SML_SUM);
		site.apart = site.embedded = true;
		stays(&site, SML_FLOAT32, SML_SUM);
		site.embedded = false;
	}
}

TEST(sizes_have_units)
{
	static const char *const wrong[] = {
		"", "0", "-1", "64q", "64KB", "K", "99999999999999999999"};
	uint64_t bytes;

	assert_true(sml_mpi_parse_bytes("123", &bytes) && bytes == 123);
	assert_true(sml_mpi_parse_bytes("64K", &bytes) && bytes == 65536);
	assert_true(sml_mpi_parse_bytes("2G", &bytes) && bytes == (uint64_t)2 << 30);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (sml_mpi_parse_bytes(wrong[i], &bytes))
			fail_msg("\"%s\" was read as %llu", wrong[i], (unsigned long long)bytes);
}

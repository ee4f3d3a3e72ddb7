/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables that fit the terminal: cmd/shared/columns.h. */
#include <locale.h>
#include <string.h>

#include "cmd/shared/columns.h"
#include "support/test.h"

#define N 3

static const struct sml_column columns[N] = {
	{"JOB", 8, 0, true},
	{"RATE", 6, 1, false},
	{"SLOWEST", 9, 0, false},
};

static void check_line(int room, const char *name, const char *rate, const char *expected)
{
	const struct sml_columns layout = sml_columns_fit(columns, N, 20, room);
	const char *const cells[N] = {name, rate, "2 (31%)"};
	char line[SML_COLUMNS_LINE] = "";

	assert_int_equal(sml_columns_add(&layout, 0, N, cells, line, 0), strlen(expected));
	assert_string_equal(line, expected);
}

TEST(the_first_column_gets_the_room_that_is_left)
{
	check_line(25, "train", "12.5", "train      12.5   2 (31%)");
	check_line(28, "train", "12.5", "train         12.5   2 (31%)");
	check_line(100, "train", "12.5", "train                  12.5   2 (31%)");
}

TEST(a_column_goes_where_the_terminal_is_narrow)
{
	check_line(24, "train", "12.5", "train            2 (31%)");
	check_line(5, "train", "12.5", "train      2 (31%)");
}

/* Groups of one run differ at the end of their names, and two runs differ before it. */
TEST(a_name_that_is_too_long_keeps_both_ends)
{
	check_line(25, "alice-digits-3fa9.ranks-2-3", "12.5", "alic~2-3   12.5   2 (31%)");
	check_line(25, "alice-digits-3fa9.ranks-0-1", "12.5", "alic~0-1   12.5   2 (31%)");
	check_line(25, "eightlet", "12.5", "eightlet   12.5   2 (31%)");
	check_line(25, "nineletts", "12.5", "nine~tts   12.5   2 (31%)");
}

TEST(a_number_is_never_cut_off)
{
	check_line(25, "train", "123456789", "train    123456789   2 (31%)");
}

TEST(a_width_of_nothing_is_no_width)
{
	char shorter[SML_COLUMNS_LINE];

	assert_string_equal(sml_columns_shorten("name", 0, shorter), "name");
	assert_string_equal(sml_columns_shorten("name", -1, shorter), "name");
	assert_string_equal(sml_columns_shorten("name", 3, shorter), "n~e");
}

TEST(a_name_takes_columns_not_bytes)
{
	assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
	check_line(25, "r\xc3\xbc\xc3\x9fnet", "12.5", "r\xc3\xbc\xc3\x9fnet     12.5   2 (31%)");
	/* Each of these takes two columns, and no half of one is shown. */
	check_line(25, "\xe8\xae\xad\xe7\xbb\x83\xe7\xbd\x91\xe7\xbb\x9c\xe4\xb8\x80", "12.5",
		   "\xe8\xae\xad\xe7\xbb\x83~\xe4\xb8\x80    12.5   2 (31%)");
	setlocale(LC_CTYPE, "C");
}

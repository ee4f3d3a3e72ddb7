/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A table that fits the terminal: where it is narrow, columns go, the least important ones first,
 * and where it is wide, the first column gets the room that is left.
 */
#ifndef SML_CMD_SHARED_COLUMNS_H
#define SML_CMD_SHARED_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#define SML_COLUMNS_LINE 512

struct sml_column {
	const char *head;
	int width;     /* of the first column: the least */
	unsigned goes; /* 1: before all others; 0 if never */
	bool is_text;  /* begins at its left edge; numbers end at their right edge */
};

struct sml_columns {
	const struct sml_column *columns;
	unsigned n;
	unsigned shown; /* a bit for each column */
	int first;	/* the first column's width */
};

/* most: the first column's width, however wide the terminal is. At most 32 columns. */
struct sml_columns sml_columns_fit(const struct sml_column *columns, unsigned n, int most,
				   int room);

/* As wide as these columns, with the gaps between them. */
int sml_columns_width(const struct sml_columns *layout, unsigned first, unsigned end);

/*
 * The bytes of the text's beginning that take at most `width` columns of a terminal, as the locale
 * shows them. *columns: how many they take; may be NULL.
 */
size_t sml_columns_bytes(const char *text, int width, int *columns);

/* How many columns the whole text takes. */
int sml_columns_of(const char *text);

/* How many spaces fill the text up to this many columns. */
int sml_columns_gap(const char *text, int width);

/* Write the text, shortened or filled up to this many columns. Returns its bytes, as snprintf(). */
size_t sml_columns_put(char *to, size_t bytes, const char *text, int width);

/* A text that is too long keeps its beginning and its end: names may differ by either. */
const char *sml_columns_shorten(const char *text, int width, char shorter[SML_COLUMNS_LINE]);

/* Append these cells to a line: cells[0] is that of column `first`. Returns the line's length. */
size_t sml_columns_add(const struct sml_columns *layout, unsigned first, unsigned end,
		       const char *const *cells, char line[SML_COLUMNS_LINE], size_t length);

/* 0 where the value would be printed as -0.0. unit: 1 in the last digit, as 0.1. */
static inline double sml_without_minus_zero(double value, double unit)
{
	return value < 0 && value >= -unit / 2 ? 0 : value;
}

/* The line with the heads. */
void sml_columns_heads(const struct sml_columns *layout, char line[SML_COLUMNS_LINE]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of ncurses' screen: each is made in memory and cut off at the screen's right edge. */
#ifndef SML_CMD_TOP_LINES_H
#define SML_CMD_TOP_LINES_H

#include "cmd/shared/columns.h"

/* Nothing is written outside the screen, however small it is. */
void sml_top_put(int y, bool marked, const char *text);
__attribute__((format(printf, 3, 4))) void sml_top_print(int y, bool marked, const char *format,
							 ...);

/* The line of a table, and the line of its heads. */
void sml_top_draw_cells(int y, bool marked, const struct sml_columns *layout,
			const char *const *cells);
void sml_top_draw_heads(int y, const struct sml_columns *layout);

/* ---- texts of cells ---- */

/* As many characters as have room; one that the locale cannot show becomes '?'. */
const char *sml_top_plain(char *to, size_t bytes, const char *from);

/* A negative share is not known. */
const char *sml_top_share(char text[16], double value);
const char *sml_top_number(char text[16], bool known, double value);

#endif

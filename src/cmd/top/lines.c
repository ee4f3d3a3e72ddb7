/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/top/screen.h"

#include <limits.h>
#include <ncurses.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#define LINE_BYTES 512

void sml_top_put(int y, bool marked, const char *text)
{
	if (y < 0 || y >= LINES || COLS <= 1)
		return;
	if (marked)
		attron(A_REVERSE);
	mvaddnstr(y, 0, text, (int)sml_columns_bytes(text, COLS - 1, NULL));
	if (marked)
		attroff(A_REVERSE);
}

/* A number is never cut off: a line that is too long ends after a part of it, or else after a word.
 */
static void end_in_time(char *line)
{
	char *part, *word;

	if (COLS <= 1 || sml_columns_of(line) < COLS)
		return;
	line[sml_columns_bytes(line, COLS, NULL)] = '\0';
	part = strrchr(line, ',');
	word = strrchr(line, ' ');
	if (part != NULL && part - line > COLS / 2)
		*part = '\0';
	else if (word != NULL)
		*word = '\0';
}

void sml_top_print(int y, bool marked, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	end_in_time(line);
	sml_top_put(y, marked, line);
}

const char *sml_top_plain(char *to, size_t bytes, const char *from)
{
	size_t n = 0, next;

	for (; *from != '\0'; from += next) {
		mbstate_t state = {0};
		wchar_t character;
		bool shown;

		next = mbrtowc(&character, from, MB_LEN_MAX, &state);
		shown = next <= MB_LEN_MAX && wcwidth(character) >= 0;
		if (!shown)
			next = 1;
		if (n + next >= bytes)
			break;
		memcpy(to + n, shown ? from : "?", next);
		n += next;
	}
	to[n] = '\0';
	return to;
}

const char *sml_top_share(char text[16], double value)
{
	if (value < 0)
		return "-";
	snprintf(text, 16, "%.0f%%", 100 * value);
	return text;
}

const char *sml_top_number(char text[16], bool known, double value)
{
	if (!known)
		return "-";
	snprintf(text, 16, value < 100 ? "%.1f" : "%.0f", value);
	return text;
}

void sml_top_draw_cells(int y, bool marked, const struct sml_columns *layout,
			const char *const *cells)
{
	char line[SML_COLUMNS_LINE] = "";

	sml_columns_add(layout, 0, layout->n, cells, line, 0);
	sml_top_put(y, marked, line);
}

void sml_top_draw_heads(int y, const struct sml_columns *layout)
{
	char line[SML_COLUMNS_LINE];

	sml_columns_heads(layout, line);
	sml_top_put(y, true, line);
}

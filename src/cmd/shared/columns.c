/* SPDX-License-Identifier: BSD-3-Clause */
/* See columns.h. */
#include "cmd/shared/columns.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static bool is_shown(const struct sml_columns *layout, unsigned column)
{
	return layout->shown >> column & 1;
}

static int width_of(const struct sml_columns *layout, unsigned column)
{
	return column == 0 ? layout->first : layout->columns[column].width;
}

int sml_columns_width(const struct sml_columns *layout, unsigned first, unsigned end)
{
	int width = -1; /* one gap less than columns */

	for (unsigned i = first; i < end; i++)
		width += is_shown(layout, i) ? width_of(layout, i) + 1 : 0;
	return width > 0 ? width : 0;
}

struct sml_columns sml_columns_fit(const struct sml_column *columns, unsigned n, int most, int room)
{
	struct sml_columns layout = {columns, n, 0, columns->width};
	int width;

	for (unsigned i = 0; i < n; i++)
		layout.shown |= 1u << i;
	for (unsigned goes = 1; goes <= n && sml_columns_width(&layout, 0, n) > room; goes++)
		for (unsigned i = 0; i < n; i++)
			if (columns[i].goes == goes)
				layout.shown &= ~(1u << i);
	width = sml_columns_width(&layout, 0, n);
	if (width < room)
		layout.first += room - width;
	if (layout.first > most)
		layout.first = most;
	return layout;
}

/* The next character's bytes. *columns: 1 for what the locale does not know. */
static size_t character_of(const char *text, int *columns)
{
	mbstate_t state = {0};
	wchar_t character;
	size_t n = mbrtowc(&character, text, MB_LEN_MAX, &state);

	*columns = 1;
	if (n == 0 || n > MB_LEN_MAX)
		return 1;
	*columns = wcwidth(character) >= 0 ? wcwidth(character) : 1;
	return n;
}

size_t sml_columns_bytes(const char *text, int width, int *columns)
{
	size_t bytes = 0;
	int taken = 0;

	while (text[bytes] != '\0') {
		int more;
		size_t n = character_of(text + bytes, &more);

		if (taken + more > width)
			break;
		bytes += n;
		taken += more;
	}
	if (columns != NULL)
		*columns = taken;
	return bytes;
}

int sml_columns_of(const char *text)
{
	int columns;

	(void)sml_columns_bytes(text, INT_MAX / 2, &columns);
	return columns;
}

int sml_columns_gap(const char *text, int width)
{
	int columns = sml_columns_of(text);

	return columns < width ? width - columns : 0;
}

const char *sml_columns_shorten(const char *text, int width, char shorter[SML_COLUMNS_LINE])
{
	int columns = sml_columns_of(text), end = (width - 1) / 2, more;
	const char *rest = text;

	if (columns <= width || width < 3 || width >= SML_COLUMNS_LINE)
		return text;
	for (; columns > end; columns -= more)
		rest += character_of(rest, &more);
	snprintf(shorter, SML_COLUMNS_LINE, "%.*s~%s",
		 (int)sml_columns_bytes(text, width - 1 - end, NULL), text, rest);
	return shorter;
}

size_t sml_columns_put(char *to, size_t bytes, const char *text, int width)
{
	char shorter[SML_COLUMNS_LINE];
	int columns;
	size_t n;

	text = sml_columns_shorten(text, width, shorter);
	n = sml_columns_bytes(text, width, &columns);
	return (size_t)snprintf(to, bytes, "%.*s%*s", (int)n, text,
				width > columns ? width - columns : 0, "");
}

size_t sml_columns_add(const struct sml_columns *layout, unsigned first, unsigned end,
		       const char *const *cells, char line[SML_COLUMNS_LINE], size_t length)
{
	for (unsigned i = first; i < end && length < SML_COLUMNS_LINE - 1; i++) {
		const char *cell = cells[i - first];
		int width = width_of(layout, i);

		if (!is_shown(layout, i))
			continue;
		if (length > 0)
			line[length++] = ' ';
		/* A number is never cut off: a wrong one would be worse than a crooked line. */
		length += layout->columns[i].is_text
				  ? sml_columns_put(line + length, SML_COLUMNS_LINE - length, cell,
						    width)
				  : (size_t)snprintf(line + length, SML_COLUMNS_LINE - length,
						     "%*s", width, cell);
	}
	return length < SML_COLUMNS_LINE ? length : SML_COLUMNS_LINE - 1;
}

void sml_columns_heads(const struct sml_columns *layout, char line[SML_COLUMNS_LINE])
{
	size_t length = 0;

	line[0] = '\0';
	for (unsigned i = 0; i < layout->n; i++)
		length = sml_columns_add(layout, i, i + 1, &layout->columns[i].head, line, length);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* See columns.h. */
#include "cmd/shared/columns.h"

#include <stdio.h>
#include <string.h>

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

const char *sml_columns_shorten(const char *text, int width, char shorter[SML_COLUMNS_LINE])
{
	int length = (int)strlen(text), end = (width - 1) / 2;

	if (length <= width || width < 3 || width >= SML_COLUMNS_LINE)
		return text;
	snprintf(shorter, SML_COLUMNS_LINE, "%.*s~%s", width - 1 - end, text, text + length - end);
	return shorter;
}

size_t sml_columns_add(const struct sml_columns *layout, unsigned first, unsigned end,
		       const char *const *cells, char line[SML_COLUMNS_LINE], size_t length)
{
	char shorter[SML_COLUMNS_LINE];

	for (unsigned i = first; i < end && length < SML_COLUMNS_LINE - 1; i++) {
		const bool is_text = layout->columns[i].is_text;
		const char *cell = cells[i - first];
		int width = width_of(layout, i);

		if (!is_shown(layout, i))
			continue;
		/* A number is never cut off: a wrong one would be worse than a crooked line. */
		length += (size_t)snprintf(
			line + length, SML_COLUMNS_LINE - length, is_text ? "%s%-*.*s" : "%s%*.*s",
			length > 0 ? " " : "", width, is_text ? width : SML_COLUMNS_LINE,
			is_text ? sml_columns_shorten(cell, width, shorter) : cell);
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

/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/switch/log.h"

#include <jansson.h>

#include "control/text.h"

size_t sml_switch_log_json(char *line, size_t bytes, const struct sml_log_entry *entry)
{
	char text[SML_LOG_LINE_BYTES / 2 - 128]; /* quotes double; the rest is for the names */
	json_t *object;
	size_t n;

	/* The name of a file may not be UTF-8. */
	sml_text_copy(text, sizeof(text), entry->text);
	object = json_pack("{s:s, s:s, s:s, s:s}", "time", entry->time, "level", entry->level,
			   "program", "switchml switch", "message", text);
	if (object == NULL)
		return 0;
	n = json_dumpb(object, line, bytes, JSON_COMPACT);
	json_decref(object);
	return n <= bytes ? n : 0;
}

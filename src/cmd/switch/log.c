/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/switch/daemon.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

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

/* Of each descriptor. */
static bool is_journal[STDERR_FILENO + 1];

static size_t journal_line(char *line, size_t bytes, const struct sml_log_entry *entry)
{
	int priority = !strcmp(entry->level, "error")  ? LOG_ERR
		       : !strcmp(entry->level, "warn") ? LOG_WARNING
		       : !strcmp(entry->level, "info") ? LOG_INFO
						       : LOG_DEBUG;
	int whole = is_journal[entry->descriptor]
			    ? snprintf(line, bytes, "<%d>%s", priority, entry->text)
			    : 0;

	return whole > 0 ? (size_t)whole : 0;
}

/* systemd names the device and inode of the descriptor that it gives a service. */
void sml_switch_log_find_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char mine[64];
	struct stat found;

	for (int i = STDOUT_FILENO; stream != NULL && i <= STDERR_FILENO; i++) {
		if (fstat(i, &found) < 0)
			continue;
		snprintf(mine, sizeof(mine), "%ju:%ju", (uintmax_t)found.st_dev,
			 (uintmax_t)found.st_ino);
		is_journal[i] = strcmp(stream, mine) == 0;
	}
	sml_switch_log_set_form(journal_line);
}

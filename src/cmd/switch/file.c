/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's configuration file: see daemon.h. */
#include "cmd/switch/daemon.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

/* While it is read. */
struct reading {
	FILE *stream;
	struct sml_switch_file *file;
	int line;
	bool is_indented;    /* that line: it continues the one before */
	int long_line, most; /* the first line with more bytes than libinih takes; 0: none */
	int section; /* the first line with one, of which libinih tells only with a setting */
};

/* The rest of a line that was read in part. False: it has none. */
static bool skip_rest(FILE *stream)
{
	int n = 0;

	for (int c = getc(stream); c != EOF && c != '\n'; c = getc(stream))
		n = 1;
	return n > 0;
}

static bool is_comment(const char *line)
{
	line += strspn(line, " \t");
	return *line == '#' || *line == ';';
}

/*
 * As fgets(), for libinih, which does not tell take_line() where it is, and would split lines.
 * Newer versions (59) skip what follows a full buffer. Here, that would be the next line, so no
 * line fills the buffer.
 */
static char *read_line(char *text, int bytes, void *context)
{
	struct reading *reading = context;

	bytes--;
	if (fgets(text, bytes, reading->stream) == NULL)
		return NULL;
	reading->line++;
	reading->is_indented = *text == ' ' || *text == '\t';
	if (*text == '[' && reading->section == 0)
		reading->section = reading->line;
	if (strchr(text, '\n') == NULL && skip_rest(reading->stream) && !is_comment(text) &&
	    reading->long_line == 0) {
		reading->long_line = reading->line;
		reading->most = bytes - 1;
	}
	return text;
}

/* The last setting's value goes on. */
static int append(struct sml_switch_setting *setting, const char *more)
{
	size_t bytes = strlen(setting->value) + strlen(more) + 1;
	char *value = malloc(bytes);

	if (value == NULL)
		return 0;
	snprintf(value, bytes, "%s%s", setting->value, more);
	free(setting->value);
	setting->value = value;
	return 1;
}

/* A line, for libinih: 0 says that it cannot be taken. */
static int take_line(void *context, const char *section, const char *name, const char *value)
{
	const struct reading *reading = context;
	struct sml_switch_file *file = reading->file;
	struct sml_switch_setting *setting;

	if (reading->is_indented && file->n > 0)
		return append(&file->settings[file->n - 1], value);
	if (*section != '\0' || file->n == SML_SWITCH_SETTINGS)
		return 0;
	setting = &file->settings[file->n];
	setting->name = strdup(name);
	setting->value = strdup(value);
	setting->line = reading->line;
	file->n++;
	return setting->name != NULL && setting->value != NULL;
}

int sml_switch_file_read(struct sml_switch_file *file, const char *path)
{
	const char *why;
	struct reading reading = {.stream = sml_file_read(path, &why), .file = file};
	int line, error;

	if (reading.stream == NULL)
		return sml_error_set(-EINVAL, "cannot read %s: %s", path, why);
	line = ini_parse_stream(read_line, &reading, take_line, &reading);
	error = ferror(reading.stream) ? errno : 0;
	fclose(reading.stream);
	/* To libinih, a file that cannot be read, such as a folder, is only a short one. */
	if (error)
		return sml_error_set(-error, "cannot read %s: %s", path, strerror(error));
	if (reading.long_line > 0 && (line == 0 || reading.long_line <= line))
		return sml_error_set(-EINVAL,
				     "%s, line %d: longer than %d bytes: put the rest into the "
				     "next line, indented",
				     path, reading.long_line, reading.most);
	if (reading.section > 0 && (line == 0 || reading.section < line))
		line = reading.section;
	if (line == 0)
		return 0;
	return sml_error_set(
		-EINVAL,
		"%s, line %d: expected NAME = VALUE, without [sections], and at most %d lines",
		path, line, SML_SWITCH_SETTINGS);
}

void sml_switch_file_free(struct sml_switch_file *file)
{
	for (size_t i = 0; i < file->n; i++) {
		free(file->settings[i].name);
		free(file->settings[i].value);
	}
	file->n = 0;
}

const struct sml_switch_setting *sml_switch_file_find(const struct sml_switch_file *file,
						      const char *name)
{
	for (size_t i = file->n; i-- > 0;)
		if (strcmp(file->settings[i].name, name) == 0)
			return &file->settings[i];
	return NULL;
}

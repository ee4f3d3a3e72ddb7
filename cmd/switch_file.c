/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's configuration file: see switch_file.h. */
#include "cmd/switch_file.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A line, for libinih: 0 says that it cannot be taken. */
static int take_line(void *context, const char *section, const char *name, const char *value)
{
	struct sml_switch_file *file = context;
	struct sml_switch_setting *setting;

	if (*section != '\0' || file->n == SML_SWITCH_SETTINGS)
		return 0;
	setting = &file->settings[file->n];
	setting->name = strdup(name);
	setting->value = strdup(value);
	file->n++;
	return setting->name != NULL && setting->value != NULL;
}

int sml_switch_file_read(struct sml_switch_file *file, const char *path)
{
	FILE *stream = fopen(path, "re");
	int line, error;

	if (stream == NULL)
		return sml_error_set(-errno, "cannot read %s: %s", path, strerror(errno));
	line = ini_parse_file(stream, take_line, file);
	error = ferror(stream) ? errno : 0;
	fclose(stream);
	/* To libinih, a file that cannot be read, such as a folder, is only a short one. */
	if (error)
		return sml_error_set(-error, "cannot read %s: %s", path, strerror(error));
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

const char *sml_switch_file_value(const struct sml_switch_file *file, const char *name)
{
	for (size_t i = file->n; i-- > 0;)
		if (strcmp(file->settings[i].name, name) == 0)
			return file->settings[i].value;
	return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switch's configuration file: lines of "name = value", with the names of the options of
 * `switchml switch`. Comments begin with # or ;. An indented line continues the value of the line
 * before. The file is read with libinih.
 */
#ifndef SML_CMD_SWITCH_FILE_H
#define SML_CMD_SWITCH_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Where it is, unless --config names another. */
#define SML_SWITCH_FILE "/etc/switchml/switch.conf"

/* More lines than there are options are a mistake. */
#define SML_SWITCH_SETTINGS 64

struct sml_switch_setting {
	char *name, *value;
	int line; /* where it is, from 1 */
};

struct sml_switch_file {
	struct sml_switch_setting settings[SML_SWITCH_SETTINGS];
	size_t n;
};

/*
 * Read a file into a zeroed struct. Returns 0, or a negative errno: then sml_error_last() names the
 * file, the line if one is wrong, and the cause. Free the struct in both cases.
 */
int sml_switch_file_read(struct sml_switch_file *file, const char *path);
void sml_switch_file_free(struct sml_switch_file *file);

/* The setting of a name in the file, or NULL. The last line with the name wins. */
const struct sml_switch_setting *sml_switch_file_find(const struct sml_switch_file *file,
						      const char *name);

#endif

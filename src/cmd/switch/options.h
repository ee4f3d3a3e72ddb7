/* SPDX-License-Identifier: BSD-3-Clause */
/* What `switchml switch` is told: by its environment, its configuration file, and its options. */
#ifndef SML_CMD_SWITCH_OPTIONS_H
#define SML_CMD_SWITCH_OPTIONS_H

#include "cmd/switch/file.h"
#include "switch/switch.h"

/* The config points into the file's values and the command line. */
struct sml_switch_options {
	struct sml_switch_config config;
	struct sml_switch_file file;
	const char *path; /* of the file; NULL if none is read */
	int argc;
	char **argv;
	bool log_json;
	const char *metrics; /* where to serve them; NULL if nowhere */
	bool has_slots;	     /* a number of them */
	bool is_again;	     /* the command line was parsed before */
};

/*
 * Reads the environment, then the file, then the command line: a later source overrides an earlier
 * one. A mistake ends the program with a sentence and the exit status for mistakes.
 */
void sml_switch_options_read(struct sml_switch_options *options, int argc, char **argv);

/*
 * Read the file again, for a running switch. Returns 0: then `now` has the settings that hold from
 * now on, which differ from `options` only in settings that can change at run time, and `others`
 * names the other settings that have changed ("" if there are none). Or returns a negative errno:
 * then nothing changes, and sml_error_last() says why.
 */
int sml_switch_options_reread(struct sml_switch_options *options, struct sml_switch_config *now,
			      char *others, size_t bytes);

/*
 * Where the file has the setting that an error of sml_switch_open() is about, as text to put behind
 * it: " (FILE, line N: NAME = VALUE)". "" if the error names no option whose value is the file's.
 */
void sml_switch_options_location(struct sml_switch_options *options, const char *error, char *text,
				 size_t bytes);

void sml_switch_options_free(struct sml_switch_options *options);

#endif

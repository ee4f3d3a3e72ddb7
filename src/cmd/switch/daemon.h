/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `switchml switch` share, but for its metrics. */
#ifndef SML_CMD_SWITCH_DAEMON_H
#define SML_CMD_SWITCH_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switch/shared/log.h"
#include "switch/switch.h"

/*
 * ---- the configuration file (file.c) ----
 *
 * Lines of "name = value", with the names of the options. Comments begin with # or ;. An indented
 * line continues the value of the line before. The file is read with libinih.
 */

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

/* ---- what it is told: by its environment, that file, and its options (options.c) ---- */

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
void sml_switch_options_location(const struct sml_switch_options *options, const char *error,
				 char *text, size_t bytes);

void sml_switch_options_free(struct sml_switch_options *options);

/*
 * ---- what it tells the service manager (systemd), through libsystemd (notify.c) ----
 *
 * That it is ready, reloads, stops, or is alive. Without libsystemd or a service manager, it sends
 * nothing.
 */

/* A service manager listens: each message then needs a socket. */
bool sml_notify_is_wanted(void);

/* A line of sd_notify(3): "READY=1". */
void sml_notify(const char *state);

/* How often the service manager wants to hear WATCHDOG=1, in ns. 0 if it does not. */
uint64_t sml_notify_watchdog_ns(void);

/* ---- the forms of the log: JSON, and what systemd's journal takes (log.c) ---- */

/* For sml_switch_log_set_form(): one object on each line, for `switchml switch --log-json`. */
size_t sml_switch_log_json(char *line, size_t bytes, const struct sml_log_entry *entry);

/*
 * From now on, lines are "<4>text", with syslog's priority, where standard output or error is the
 * journal, which keeps the time, the program and the level itself.
 */
void sml_switch_log_find_journal(void);

/*
 * ---- what it gives up once its sockets are open (privileges.c) ----
 *
 * Root, capabilities, new privileges, and system calls that it does not need.
 */

/*
 * The seal() of struct sml_switch_config: called before there are threads, so that all inherit it.
 * Root becomes nobody. keeps_bpf: keep CAP_BPF, for maps. Warns on stderr about failures.
 */
void sml_privileges_drop(bool keeps_bpf);

/* What the daemon goes on doing besides packets and messages. */
struct sml_privileges {
	bool bpf;      /* maps and interfaces, for XDP */
	bool files;    /* it reads its configuration file again */
	bool notifies; /* it talks to the service manager */
	bool connects; /* it is a leaf, and connects to its parent */
};

/*
 * Restrict all threads to these system calls from now on. Does nothing if libseccomp is not built
 * in.
 */
void sml_privileges_filter(const struct sml_privileges *kept);

#endif

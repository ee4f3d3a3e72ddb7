/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the daemon tells the service manager (systemd), through libsystemd: that it is ready,
 * reloads, stops, or is alive. Without libsystemd or a service manager, it sends nothing.
 */
#ifndef SML_CMD_SWITCH_NOTIFY_H
#define SML_CMD_SWITCH_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "switch/shared/log.h"

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

#endif

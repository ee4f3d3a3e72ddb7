/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of the switch's log: JSON, and what systemd's journal takes. */
#ifndef SML_CMD_SWITCH_LOG_H
#define SML_CMD_SWITCH_LOG_H

#include "switch/shared/log.h"

/* For sml_switch_log_set_form(): one object on each line, for `switchml switch --log-json`. */
size_t sml_switch_log_json(char *line, size_t bytes, const struct sml_log_entry *entry);

/*
 * From now on, lines are "<4>text", with syslog's priority, where standard output or error is the
 * journal, which keeps the time, the program and the level itself.
 */
void sml_switch_log_find_journal(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of the switch's log: JSON, and what systemd's journal takes. */
#ifndef SML_CMD_SWITCH_LOG_H
#define SML_CMD_SWITCH_LOG_H

#include <stdbool.h>

#include "switch/shared/log.h"

/* For sml_switch_log_set_form(): one object on each line, for `switchml switch --log-json`. */
size_t sml_switch_log_json(char *line, size_t bytes, const struct sml_log_entry *entry);

/* Is standard error the journal, which keeps the time, the program and the level itself? */
bool sml_switch_log_is_journal(void);
/* "<4>text", with syslog's priority. */
size_t sml_switch_log_journal(char *line, size_t bytes, const struct sml_log_entry *entry);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The switch's log as JSON, one object on each line: `switchml switch --log-json`. */
#ifndef SML_CMD_SWITCH_LOG_H
#define SML_CMD_SWITCH_LOG_H

#include "switch/shared/log.h"

/* For sml_switch_log_set_form(). */
size_t sml_switch_log_json(char *line, size_t bytes, const struct sml_log_entry *entry);

#endif

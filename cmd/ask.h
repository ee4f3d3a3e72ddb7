/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a running switch for its status, for `switchml status` and `switchml doctor`. */
#ifndef SML_CMD_ASK_H
#define SML_CMD_ASK_H

#include <stddef.h>

#include "control/frame.h"

/*
 * Connect to "HOST", "HOST:PORT" or "[V6]:PORT"; of a list to its first. Returns
 * a socket, or a negative errno, and then says why in text.
 */
int sml_ask_connect(const char *address, int timeout_ms, char *text, size_t size);

/*
 * Ask, and wait for the answer. 0: *answer is an envelope with a status, to be
 * freed by sml_control__envelope__free_unpacked(). Otherwise a negative errno.
 */
int sml_ask_status(int control, int timeout_ms, SmlControl__Envelope **answer);

#endif

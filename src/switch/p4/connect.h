/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_SWITCH_P4_CONNECT_H
#define SML_SWITCH_P4_CONNECT_H

#include <stdint.h>

/*
 * A TCP connection whose calls do not wait for longer than some seconds, or a negative errno; then
 * *why has it in words.
 */
int sml_p4_connect(const char *host, uint16_t port, const char **why);

#endif

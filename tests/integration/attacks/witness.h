/* SPDX-License-Identifier: BSD-3-Clause */
/* How soon members are served while strangers attack: see witness.c. One at a time. */
#ifndef SML_TESTS_WITNESS_H
#define SML_TESTS_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/tls.h"

/* Join the switch that is this process, at this port. What goes wrong ends the program. */
void witness_open(const char *pid, uint16_t port, struct sml_tls *tls);

/* One Ping, and its Pong. */
void witness_ping(void);

/* Leave. True: of half of the Pongs, none took longer than this; or that cannot be known. */
bool witness_close(uint64_t most_ns);

#endif

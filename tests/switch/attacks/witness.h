/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures how soon members are served while strangers attack: see witness.c. One at a time. */
#ifndef SML_TESTS_WITNESS_H
#define SML_TESTS_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/tls.h"

/* Join the switch in this process at this port. Any failure ends the program. */
void witness_open(const char *pid, uint16_t port, struct sml_tls *tls);

/* Send one Ping and wait for its Pong. */
void witness_ping(void);

/* Leave. True: half of the Pongs took at most this long, or the time is unknown. */
bool witness_close(uint64_t most_ns);

#endif

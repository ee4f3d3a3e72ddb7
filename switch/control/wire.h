/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that have TLS where the switch has none, the other way round, or none that fits. */
#ifndef SML_SWITCH_WIRE_H
#define SML_SWITCH_WIRE_H

#include "switch/control/server.h"

/* TLS is over: a member is lost, a stranger is told why, by an alert or in plain words. */
void sml_wire_failed(struct sml_connection *connection);

/* A stranger speaks TLS, and this switch was not told to. */
void sml_wire_refuse_tls(struct sml_connection *connection);

#endif

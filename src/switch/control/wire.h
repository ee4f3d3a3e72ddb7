/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers whose TLS does not match: only one end uses it, or the two ends use it differently.
 */
#ifndef SML_SWITCH_WIRE_H
#define SML_SWITCH_WIRE_H

#include "switch/control/server.h"

/* TLS is over: a member is lost; a stranger is told why, by an alert or in plain text. */
void sml_wire_failed(struct sml_connection *connection);

/* A stranger speaks TLS, but this switch has no TLS. */
void sml_wire_refuse_tls(struct sml_connection *connection);

#endif

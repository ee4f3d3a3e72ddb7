/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_SWITCH_DATAPLANE_P4_H
#define SML_SWITCH_DATAPLANE_P4_H

#include "switch/dataplane.h"

/*
 * Slots in a switch that runs our P4 program (p4/); needs config.target, config.hosts and
 * config.address. See docs/p4.md.
 */
extern const struct sml_dataplane_operations sml_dataplane_p4;

#endif

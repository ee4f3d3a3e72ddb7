/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_SWITCH_DATAPLANE_XDP_H
#define SML_SWITCH_DATAPLANE_XDP_H

#include "switch/dataplane.h"

/* Slots in the kernel; needs config.interfaces, CAP_BPF and CAP_NET_ADMIN. See docs/xdp.md. */
extern const struct sml_dataplane_operations sml_dataplane_xdp;

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_SWITCH_P4_BMV2_H
#define SML_SWITCH_P4_BMV2_H

#include <stdbool.h>
#include <stddef.h>

#include "switch/p4/target.h"

/* What a program was compiled for, from the JSON that BMv2 runs. False: it is not our program. */
bool sml_p4_bmv2_limits(const char *json, size_t bytes, struct sml_p4_limits *limits);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_SWITCH_P4_BMV2_H
#define SML_SWITCH_P4_BMV2_H

#include <stdbool.h>
#include <stddef.h>

#include "switch/p4/target.h"

/* What a program was compiled for, from the JSON that BMv2 runs. False if it is not our program. */
bool sml_p4_bmv2_limits(const char *json, size_t bytes, struct sml_p4_limits *limits);

/*
 * What a program keeps: tables first, because without their entries, no packet writes into the
 * rest. Tables are those that take entries: the others' entries are constant.
 */
enum sml_p4_bmv2_kind { SML_P4_BMV2_TABLE, SML_P4_BMV2_REGISTERS, SML_P4_BMV2_COUNTERS };

typedef int sml_p4_bmv2_on_state(void *context, enum sml_p4_bmv2_kind kind, const char *name);

/* Until one of them fails: what that one returned, or else 0. */
int sml_p4_bmv2_each_state(const char *json, size_t bytes, sml_p4_bmv2_on_state *each,
			   void *context);

#endif

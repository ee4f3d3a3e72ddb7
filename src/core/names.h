/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of what calls are made of, for texts and traces. Switches, not tables: the compiler
 * refuses one that lacks a value of its enum.
 */
#ifndef SML_CORE_NAMES_H
#define SML_CORE_NAMES_H

#include "core/tensor.h"

const char *sml_collective_name(enum sml_collective collective);
const char *sml_type_name(enum sml_type type);
const char *sml_op_name(enum sml_op op);
const char *sml_wire_name(enum sml_wire wire);

#endif

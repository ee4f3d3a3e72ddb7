/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_BASE_NUMBER_H
#define SML_BASE_NUMBER_H

#include <stdbool.h>

/* Parse decimal digits, and nothing else, within the bounds. */
bool sml_parse_number(const char *text, long minimum, long maximum, long *number);

#endif

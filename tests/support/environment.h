/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment that sml_config_init() reads. */
#ifndef SML_TESTS_ENVIRONMENT_H
#define SML_TESTS_ENVIRONMENT_H

#include <stddef.h>
#include <stdlib.h>

/* The environment of one case. Further entries are unset. */
#define MAX_VARIABLES 6

struct variable {
	const char *name, *value;
};

/* The environment becomes these, and no others. */
static inline void set_environment(const struct variable variables[MAX_VARIABLES])
{
	clearenv();
	for (size_t i = 0; i < MAX_VARIABLES && variables[i].name; i++)
		setenv(variables[i].name, variables[i].value, 1);
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment that sml_config_init() reads. */
#ifndef SML_TESTS_ENVIRONMENT_H
#define SML_TESTS_ENVIRONMENT_H

#include <stddef.h>
#include <stdlib.h>

#include "support/test.h"
#include "switchml.h"

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

/* And what a program has as its configuration then, which is not refused. NULL: no variables. */
static inline struct sml_config config_of(const struct variable variables[MAX_VARIABLES])
{
	const struct variable none[MAX_VARIABLES] = {{0}};
	struct sml_config config = SML_CONFIG_INIT;

	set_environment(variables ? variables : none);
	assert_int_equal(sml_config_init(&config), 0);
	return config;
}

#endif

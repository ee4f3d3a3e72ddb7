/* SPDX-License-Identifier: BSD-3-Clause */
/* Every variable that sml_config_init() reads. */
#ifndef SML_TESTS_ENVIRONMENT_H
#define SML_TESTS_ENVIRONMENT_H

#define ENVIRONMENT_NAMES 48u

extern const char *const environment_names[];

/* The environment of one case. Further entries are unset. */
#define MAX_VARIABLES 6

struct variable {
	const char *name, *value;
};

/* The library's and the launchers' variables become these, and no others. */
void set_environment(const struct variable variables[MAX_VARIABLES]);

#endif

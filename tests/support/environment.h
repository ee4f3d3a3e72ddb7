/* SPDX-License-Identifier: BSD-3-Clause */
/* Every variable that sml_config_init() reads. */
#ifndef SML_TESTS_ENVIRONMENT_H
#define SML_TESTS_ENVIRONMENT_H

#define ENVIRONMENT_NAMES 47u

extern const char *const environment_names[ENVIRONMENT_NAMES];

#endif

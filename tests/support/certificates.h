/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Certificates for tests, created once by the script `certificates` (SML_CERTIFICATES is its
 * path).
 */
#ifndef SML_TESTS_CERTIFICATES_H
#define SML_TESTS_CERTIFICATES_H

#include <stdbool.h>

#include "control/tls.h"
#include "switch/switch.h"

/* False: this build has no TLS, or this machine has no openssl command. */
bool certificates_of_switch(struct sml_switch_config *config);

/* For a switch; the caller closes it. NULL: as above. */
struct sml_tls *certificates_open_switch(void);

/* The same, but the test is skipped where that is not possible. */
struct sml_tls *certificates_need_switch(void);

/* For a worker; the caller closes it. Call one of the above first. */
struct sml_tls *certificates_of_worker(void);

/* A group's tear-down. */
void certificates_remove(void);

#endif

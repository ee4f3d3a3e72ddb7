/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates for tests, made once by the script `certificates` (SML_CERTIFICATES says where). */
#ifndef SML_TESTS_CERTIFICATES_H
#define SML_TESTS_CERTIFICATES_H

#include <stdbool.h>

#include "control/tls.h"
#include "switch/switch.h"

/* False: this build has no TLS, or this machine no openssl command. */
bool certificates_of_switch(struct sml_switch_config *config);

/* Of a switch, to be closed. NULL: as above. */
struct sml_tls *certificates_open_switch(void);

/* Of a worker, to be closed. After one of the above. */
struct sml_tls *certificates_of_worker(void);

/* A group's tear-down. */
int certificates_remove(void **state);

#endif

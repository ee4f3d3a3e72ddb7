/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host this process runs on. */
#ifndef SML_BASE_HOST_H
#define SML_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>

/*
 * A hash of bytes (FNV-1a). Equal bytes have equal hashes; others differ unless by chance. Begin
 * with hash 0.
 */
uint64_t sml_hash_text(uint64_t hash, const char *text);

/*
 * A number that is equal for processes that reach each other by the loopback device, and different
 * for all others. It is made of the boot id, the network namespace and the host's name.
 */
uint64_t sml_host_hash(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host this process runs on. */
#ifndef SML_BASE_HOST_H
#define SML_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>

#define SML_BOOT_ID_BYTES 40

/* FNV-1a: equal bytes have equal hashes, and others do not by chance. Begin with hash 0. */
uint64_t sml_hash_text(uint64_t hash, const char *text);

/* The kernel's boot id: equal for all processes of a machine. "" if it cannot be read. */
void sml_host_boot_id(char id[SML_BOOT_ID_BYTES]);

/*
 * Equal for processes that reach each other by the loopback device, and different for all others:
 * of the boot id, the network namespace and the host's name.
 */
uint64_t sml_host_hash(void);

#endif

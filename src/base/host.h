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

#define SML_HOST_MACHINE_BYTES 128

/*
 * Whether two ranks could share memory: they can try if they have the same text, which is made of
 * the boot, the user, and the namespaces of network (abstract UNIX sockets) and users.
 * lib/host/meet.h then proves it. "": it cannot be known.
 */
void sml_host_machine(char text[SML_HOST_MACHINE_BYTES]);

/* ---- how many cores this process may use: a container has a quota (cores.c) ---- */

/*
 * The cores that the CPU quota of this process's control groups (v1 and v2) amounts to, rounded up:
 * at least 1; UINT_MAX if there is no quota, or if /proc or /sys cannot be read.
 */
unsigned sml_cores_quota(void);

/* The same for other files than those of the kernel: /proc/self/cgroup and /sys/fs/cgroup. */
unsigned sml_cores_quota_at(const char *groups, const char *root);

/* The cores that the process may be scheduled on, or fewer if its quota amounts to fewer. */
unsigned sml_cores(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* How many cores this process may use: a container has all of its machine's, and a quota. */
#ifndef SML_BASE_CORES_H
#define SML_BASE_CORES_H

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

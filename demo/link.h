/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of this host's link, where bench/on-links has made one. */
#ifndef SML_DEMO_LINK_H
#define SML_DEMO_LINK_H

#include <stdint.h>

/*
 * The bytes that have left the host, and come to it, in frames. Both are zero without
 * $ON_LINKS_COUNTERS, the command that prints them. Returns 0, or -EIO after an error line.
 */
int demo_link_read(int rank, uint64_t *sent, uint64_t *received);

#endif

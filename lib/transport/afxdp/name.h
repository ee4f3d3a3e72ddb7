/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Abstract socket names, by which processes of a network namespace tell each other that
 * they live: the kernel takes a name back with its process. Anybody can hold any name, so
 * one counts only if its holder is root or this process's user.
 */
#ifndef SML_AFXDP_NAME_H
#define SML_AFXDP_NAME_H

#include <stdint.h>

/*
 * Hold "switchml-xdp-" of number: a descriptor, to be closed. -1 with errno:
 * EADDRINUSE (one of ours holds it), EPERM (another user does, whose claim is void),
 * or why there is no socket.
 */
int sml_name_hold(const char *of, uint32_t number);

#endif

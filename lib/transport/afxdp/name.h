/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Abstract socket names, which show other processes of a network namespace that a process is
 * alive: the kernel releases a name when its process ends. Any user can hold any name, so a
 * name counts only if its holder is root or this process's user.
 */
#ifndef SML_AFXDP_NAME_H
#define SML_AFXDP_NAME_H

#include <stdint.h>

/*
 * Hold the name "switchml-xdp-NUMBER". Returns a descriptor, which the caller closes, or -1
 * with errno: EADDRINUSE (one of our processes holds the name), EPERM (another user holds
 * it, so it does not count), or the reason why no socket could be made.
 */
int sml_name_hold(const char *of, uint32_t number);

#endif

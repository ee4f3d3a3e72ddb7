/* SPDX-License-Identifier: BSD-3-Clause */
/* What a network device's driver reports. For the XDP dataplane. */
#ifndef SML_NET_XDP_DEVICE_H
#define SML_NET_XDP_DEVICE_H

#include <stdbool.h>

/*
 * An ioctl about an interface, on any socket. The name has IF_NAMESIZE bytes. Returns 0 or -errno.
 */
int sml_xdp_query_device(const char *name, unsigned long request, void *argument);

/*
 * Does it deliver packets whose checksum was left to hardware that does not exist? That is so for
 * loopback, and for drivers between virtual machines or namespaces.
 */
bool sml_xdp_is_virtual(const char *name);

#endif

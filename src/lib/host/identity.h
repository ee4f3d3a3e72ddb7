/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether two ranks could share memory. They can try if their machines have the same text, which is
 * made of the boot, the user, and the namespaces of network (abstract UNIX sockets) and users.
 * meet.h then proves it.
 */
#ifndef SML_LIB_HOST_IDENTITY_H
#define SML_LIB_HOST_IDENTITY_H

#define SML_HOST_MACHINE_BYTES 128

/* "": it cannot be known. */
void sml_host_machine(char text[SML_HOST_MACHINE_BYTES]);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Between a device (device.c) and the program on its interface (program.c). */
#ifndef SML_LIB_AFXDP_PROGRAM_H
#define SML_LIB_AFXDP_PROGRAM_H

#include "lib/transport/afxdp/device.h"

/*
 * Attach the program, or share the one of another process. 0, or a negative errno: -EBUSY if
 * another program uses the interface and cannot share it.
 */
int sml_program_attach(struct sml_device *device);

/* Close all that the program needs. If no other process holds the program, the kernel removes it.
 */
void sml_program_detach(struct sml_device *device);

/* In a child made by fork(): do not keep the parent's program attached. */
void sml_program_forget(struct sml_device *device);

#endif

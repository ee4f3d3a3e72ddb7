/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures of the interface that begin with their size: the program's version of them may be
 * shorter or longer than the library's. The rule is that of Linux's copy_struct_from_user().
 *
 * The one invariant: no byte of the program's beyond its size is read or written.
 */
#ifndef SML_BASE_SIZED_H
#define SML_BASE_SIZED_H

#include <stddef.h>

struct sml_sized {
	size_t bytes;	    /* as this library knows it */
	const char *name;   /* "struct sml_config" */
	const char *begins; /* how to set the size: "begin with SML_CONFIG_INIT" */
	int error;	    /* if the size is not set, or something unknown is */
};

/*
 * Copy the program's to *own, which has the defaults. Members that the program does not have keep
 * them; those that this library does not have must be 0. Returns 0 or an error, and sets its text.
 */
int sml_sized_read(const struct sml_sized *kind, void *own, const void *given);

/* Copy *own to the program's, all but its size; what this library does not have becomes 0. */
int sml_sized_write(const struct sml_sized *kind, void *given, const void *own);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the environment names. In a shared directory, another user could guess the name and
 * create it first: as a link, to choose the file that is written, or as a FIFO, to block the open.
 */
#ifndef SML_BASE_FILE_H
#define SML_BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Open a regular file for writing, and create it for its owner only. flags: O_APPEND or O_TRUNC. A
 * symbolic link, a FIFO or a device is refused. Returns the descriptor or -errno.
 */
int sml_file_open(const char *path, int flags);

/*
 * Open a regular file for reading. A FIFO would block, and a device may never end, so both are
 * refused. Returns the stream, or NULL: then *why is the reason, as strerror() has it.
 */
FILE *sml_file_read(const char *path, const char **why);

/*
 * Begin a file that everybody may read. It replaces the file of this name when sml_file_finish() is
 * called, so readers see the old bytes or the new ones. A link is replaced, not followed. Until
 * then, the file's name is the path with ".tmp". Returns the descriptor or -errno.
 */
int sml_file_begin(const char *path);

/*
 * Call this when the descriptor is closed. If rc is negative, the file is not complete: it is
 * removed, and rc is returned. Otherwise returns 0 or -errno.
 */
int sml_file_finish(const char *path, int rc);

/*
 * Begin a file, write these bytes, and finish it; or add them to the file, at once, so that those
 * of several processes do not mix. Returns 0 or -errno.
 */
int sml_file_replace(const char *path, const char *bytes, size_t n);
int sml_file_append(const char *path, const char *bytes, size_t n);

/* What fill() writes, in memory that the caller frees. NULL: there is not enough. */
char *sml_file_compose(void (*fill)(FILE *out, void *self), void *self, size_t *n);

#endif

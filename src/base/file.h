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
 * Open a regular file for reading. A FIFO would block, and a device may never end. NULL: *why is
 * the reason, as strerror() has it.
 */
FILE *sml_file_read(const char *path, const char **why);

/*
 * Begin a file that everybody may read, and that takes the place of whatever has this name once
 * sml_file_finish() is called: readers see the old bytes or the new ones. A link is replaced, not
 * followed. Until then its name is the path with ".tmp". Returns the descriptor or -errno.
 */
int sml_file_begin(const char *path);

/* Once the descriptor is closed. rc: negative, if the file is not whole; it vanishes, and this is
 * returned. Otherwise returns 0 or -errno. */
int sml_file_finish(const char *path, int rc);

/* Both, with these bytes. Returns 0 or -errno. */
int sml_file_replace(const char *path, const char *bytes, size_t n);

#endif

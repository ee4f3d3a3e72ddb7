/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts what a process has by a folder of /proc, to find leaks: its files, or its threads. */
#ifndef SML_TESTS_COUNT_ENTRIES_H
#define SML_TESTS_COUNT_ENTRIES_H

#include <dirent.h>

#include "support/test.h"

#define FILES_FOLDER   "/proc/self/fd"
#define THREADS_FOLDER "/proc/self/task"

/* Also counts ".", "..", and the open folder itself if it is that of files. */
static inline unsigned count_entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned n = 0;

	assert_non_null(folder);
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	return n;
}

#endif

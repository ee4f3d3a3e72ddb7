/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int sml_file_open(const char *path, int flags)
{
	/* O_NONBLOCK: a FIFO without a reader must not delay anybody. */
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
	struct stat about;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
		return fd;
	close(fd);
	return -EPERM;
}

/* 0 or -errno; -EINVAL: neither a file nor a folder. */
static int check_regular(int fd)
{
	struct stat about;

	if (fstat(fd, &about) < 0)
		return -errno;
	return S_ISREG(about.st_mode) ? 0 : S_ISDIR(about.st_mode) ? -EISDIR : -EINVAL;
}

FILE *sml_file_read(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int rc = fd < 0 ? -errno : check_regular(fd);
	FILE *file = rc < 0 ? NULL : fdopen(fd, "r");

	if (file != NULL)
		return file;
	if (rc == 0)
		rc = -errno;
	if (fd >= 0)
		close(fd);
	*why = rc == -EINVAL ? "it is not a regular file" : strerrordesc_np(-rc);
	return NULL;
}

/* A file that an ended process has left there is removed. */
static int open_new(const char *path)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	int fd = open(path, flags, 0644);

	if (fd < 0 && errno == EEXIST && unlink(path) == 0)
		fd = open(path, flags, 0644);
	return fd < 0 ? -errno : fd;
}

/* And close it. 0 or -errno. */
static int write_all(int fd, const char *bytes, size_t n)
{
	int rc = 0;

	while (n > 0 && rc == 0) {
		ssize_t written = write(fd, bytes, n);

		if (written < 0 && errno != EINTR)
			rc = -errno;
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		}
	}
	return close(fd) < 0 && rc == 0 ? -errno : rc;
}

static bool name_draft(const char *path, char draft[PATH_MAX])
{
	return snprintf(draft, PATH_MAX, "%s.tmp", path) < PATH_MAX;
}

int sml_file_begin(const char *path)
{
	char draft[PATH_MAX];

	return name_draft(path, draft) ? open_new(draft) : -ENAMETOOLONG;
}

int sml_file_finish(const char *path, int rc)
{
	char draft[PATH_MAX];

	if (!name_draft(path, draft))
		return -ENAMETOOLONG;
	if (rc >= 0)
		rc = rename(draft, path) < 0 ? -errno : 0;
	if (rc < 0)
		(void)unlink(draft);
	return rc;
}

int sml_file_replace(const char *path, const char *bytes, size_t n)
{
	int fd = sml_file_begin(path);

	return fd < 0 ? fd : sml_file_finish(path, write_all(fd, bytes, n));
}

int sml_file_append(const char *path, const char *bytes, size_t n)
{
	int fd = sml_file_open(path, O_APPEND);

	return fd < 0 ? fd : write_all(fd, bytes, n);
}

char *sml_file_compose(void (*fill)(FILE *out, void *self), void *self, size_t *n)
{
	char *bytes = NULL;
	FILE *out = open_memstream(&bytes, n);
	bool failed;

	if (out == NULL)
		return NULL;
	fill(out, self);
	failed = ferror(out) != 0;
	if (fclose(out) == 0 && !failed)
		return bytes;
	free(bytes);
	return NULL;
}

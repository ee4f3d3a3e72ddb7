/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a P4 program that the daemon gives to the switch. p4c writes two: what the switch
 * runs, and the description of its tables that both sides speak by (P4Info).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "switch/p4/internal.h"

#define CODE_SUFFIX ".json"
#define INFO_SUFFIX ".p4info.bin"
#define STANDARD    "switchml-256" CODE_SUFFIX
#define MOST_BYTES  (32u << 20)

/* The file's bytes, which the caller frees; NULL, and errno says why. */
static char *read_file(const char *path, size_t *bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat about;
	char *all = NULL;
	ssize_t n = 0;

	if (fd < 0)
		return NULL;
	*bytes = 0;
	if (fstat(fd, &about) < 0 || !S_ISREG(about.st_mode) || about.st_size > MOST_BYTES ||
	    about.st_size == 0)
		errno = EINVAL;
	else
		all = malloc((size_t)about.st_size);
	while (all != NULL && *bytes < (size_t)about.st_size &&
	       (n = read(fd, all + *bytes, (size_t)about.st_size - *bytes)) > 0)
		*bytes += (size_t)n;
	if (n < 0) {
		free(all);
		all = NULL;
	}
	close(fd);
	return all;
}

static int refuse(const char *path)
{
	return sml_error_set(-errno,
			     "--program: %s cannot be read (%s): Meson compiles our program where "
			     "it finds p4c, see docs/p4.md",
			     path, strerror(errno));
}

/* Where the build puts it, beside this executable; or else where it is installed. */
static void find_standard(char path[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[length < 0 ? 0 : length] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL) {
		snprintf(slash, PATH_MAX - (size_t)(slash - path), "/p4/" STANDARD);
		if (access(path, R_OK) == 0)
			return;
	}
	snprintf(path, PATH_MAX, "%s/" STANDARD, SML_P4_PROGRAM_FOLDER);
}

int sml_p4_program_read(struct sml_p4_program *program, const char *path)
{
	char code[PATH_MAX], info[PATH_MAX + sizeof(INFO_SUFFIX)];
	size_t length;

	if (path == NULL)
		find_standard(code);
	else
		snprintf(code, sizeof(code), "%s", path);
	length = strlen(code);
	if (length <= strlen(CODE_SUFFIX) ||
	    strcmp(code + length - strlen(CODE_SUFFIX), CODE_SUFFIX) != 0)
		return sml_error_set(-EINVAL,
				     "--program %s: give the FILE.json of p4c, with its P4Info "
				     "beside it in FILE.p4info.bin",
				     code);
	snprintf(info, sizeof(info), "%.*s" INFO_SUFFIX, (int)(length - strlen(CODE_SUFFIX)), code);
	*program = (struct sml_p4_program){.path = strdup(code)};
	program->code = read_file(code, &program->code_bytes);
	if (program->code == NULL)
		return refuse(code);
	program->info = read_file(info, &program->info_bytes);
	return program->info == NULL ? refuse(info) : 0;
}

void sml_p4_program_free(struct sml_p4_program *program)
{
	free(program->path);
	free(program->code);
	free(program->info);
	*program = (struct sml_p4_program){.path = NULL};
}

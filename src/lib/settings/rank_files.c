/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a rank writes, as SWITCHML_RECORD asks for. They are named again for each
 * membership, where a rank has another number.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "lib/settings/internal.h"

/* No two ranks share a trace or metrics: without %r, the rank comes before this suffix. */
static const struct {
	const char *what, *suffix;
} records[SML_RECORDS] = {[SML_RECORD_FAILURE] = {"failure", NULL},
			  [SML_RECORD_METRICS] = {"metrics", ".prom"},
			  [SML_RECORD_TRACE] = {"trace", ""}};

static int refuse(const char *record)
{
	return sml_error_set(SML_ERROR_CONFIG,
			     "SWITCHML_RECORD=\"%s\" is not allowed: it must be trace:PATH, "
			     "metrics:PATH or failure:PATH, or several with commas; in a path, %%r "
			     "means the rank and %%%% means a %%",
			     record);
}

/* Its directory must exist now: at a failure it would be too late to report that. */
static int check_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX] = ".";

	if (slash && slash - path < (ptrdiff_t)sizeof(directory))
		snprintf(directory, sizeof(directory), "%.*s",
			 slash == path ? 1 : (int)(slash - path), path);
	if (access(directory, W_OK | X_OK) == 0)
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "SWITCHML_RECORD has %s: the directory %s cannot be written to: %s",
			     path, directory, strerrordesc_np(errno));
}

/* The path with this text before its suffix, or, if it has another, at its end. */
static char *insert(const char *path, const char *text, const char *suffix)
{
	size_t n = strlen(path), end = strlen(suffix);
	char *whole;

	if (n <= end || strcmp(path + n - end, suffix) != 0)
		end = 0;
	return asprintf(&whole, "%.*s%s%s", (int)(n - end), path, text, path + n - end) < 0 ? NULL
											    : whole;
}

char *sml_path_of_nth(const char *path, unsigned n, const char *suffix)
{
	char number[16];

	snprintf(number, sizeof(number), ".%u", n);
	return n == 1 ? strdup(path) : insert(path, number, suffix);
}

/*
 * The path with this rank instead of %r, and % for %%. Without %r, the rank comes before the
 * suffix, if that is given. The caller frees it. NULL: no memory, or (*wrong is set) another
 * character follows a %.
 */
static char *path_of(const char *pattern, size_t bytes, int rank, const char *suffix, bool *wrong)
{
	/* Each %r becomes at most four digits. */
	char *path = malloc(2 * bytes + 1), *to = path, *whole, number[8];

	snprintf(number, sizeof(number), ".%u", (unsigned)rank % SML_MAX_WORLD_SIZE);
	for (size_t i = 0; path && i < bytes; i++) {
		if (pattern[i] != '%') {
			*to++ = pattern[i];
		} else if (pattern[++i] == 'r') {
			to = stpcpy(to, number + 1);
			suffix = NULL;
		} else {
			*wrong |= pattern[i] != '%';
			*to++ = '%';
		}
	}
	if (path)
		*to = '\0';
	if (path && !*wrong && suffix == NULL)
		return path;
	whole = path && !*wrong ? insert(path, number, suffix) : NULL;
	free(path);
	return whole;
}

/* What begins here; *rest moves to its path. */
static unsigned find(const char **rest)
{
	for (unsigned i = 0; i < SML_RECORDS; i++) {
		size_t n = strlen(records[i].what);

		if (strncmp(*rest, records[i].what, n) == 0 && (*rest)[n] == ':') {
			*rest += n + 1;
			return i;
		}
	}
	return SML_RECORDS;
}

void sml_settings_free_files(struct sml_settings *settings)
{
	for (unsigned i = 0; i < SML_RECORDS; i++) {
		free(settings->files[i]);
		settings->files[i] = NULL;
	}
}

int sml_settings_set_files(struct sml_settings *settings, int rank)
{
	const char *rest = settings->config.record, *end;
	bool wrong = false;

	sml_settings_free_files(settings);
	for (; rest; rest = *end ? end + 1 : NULL) {
		unsigned i = find(&rest);

		end = strchrnul(rest, ',');
		if (i == SML_RECORDS || rest == end || settings->files[i])
			return refuse(settings->config.record);
		settings->files[i] =
			path_of(rest, (size_t)(end - rest), rank, records[i].suffix, &wrong);
		if (wrong)
			return refuse(settings->config.record);
		if (settings->files[i] == NULL)
			return sml_error_set(-ENOMEM, "no memory for the configuration");
		if (check_directory(settings->files[i]) != 0)
			return SML_ERROR_CONFIG;
	}
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that a rank writes: the flight recorder, the trace and the metrics. Their names are
 * patterns, because a rank has another number in the next membership.
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

/* Its directory must exist now: at a failure it would be too late to report that. */
static int check_directory(const char *variable, const char *path)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_MAX] = ".";

	if (slash && slash - path < (ptrdiff_t)sizeof(directory))
		snprintf(directory, sizeof(directory), "%.*s",
			 slash == path ? 1 : (int)(slash - path), path);
	if (access(directory, W_OK | X_OK) == 0)
		return 0;
	return sml_error_set(SML_ERROR_CONFIG,
			     "%s=\"%s\": the directory %s cannot be written to: %s", variable, path,
			     directory, strerrordesc_np(errno));
}

/*
 * The path with this rank instead of %r, and % for %%. The caller frees it. NULL: no memory, or
 * (*wrong is set) another character follows a %.
 */
static char *record_path(const char *pattern, int rank, bool *wrong)
{
	/* Each %r becomes at most two digits. */
	char *path = malloc(strlen(pattern) + 1), *to = path;

	*wrong = false;
	for (; path && *pattern; pattern++) {
		if (*pattern != '%') {
			*to++ = *pattern;
			continue;
		}
		pattern++;
		if (*pattern == 'r') {
			to += sprintf(to, "%u", (unsigned)rank % 100);
		} else if (*pattern == '%') {
			*to++ = '%';
		} else {
			*wrong = true;
			free(path);
			return NULL;
		}
	}
	if (path)
		*to = '\0';
	return path;
}

/* A file for this rank: *path stays NULL if no pattern is set. */
static int set_file(char **path, const char *variable, const char *pattern, int rank)
{
	bool wrong;

	free(*path);
	*path = NULL;
	if (!pattern)
		return 0;
	*path = record_path(pattern, rank, &wrong);
	if (*path)
		return check_directory(variable, *path);
	if (wrong)
		return sml_error_set(SML_ERROR_CONFIG,
				     "%s=\"%s\" is not allowed: it must be a path, where %%r means "
				     "the rank and %%%% means a %%",
				     variable, pattern);
	return sml_error_set(-ENOMEM, "no memory for the configuration");
}

int sml_settings_set_files(struct sml_settings *settings, int rank)
{
	const struct sml_config *patterns = &settings->config;
	int error = set_file(&settings->flight_recorder, "SWITCHML_FLIGHT_RECORDER",
			     patterns->flight_recorder, rank);

	if (error == 0)
		error = set_file(&settings->trace, "SWITCHML_TRACE", patterns->trace, rank);
	if (error == 0)
		error = set_file(&settings->metrics_file, "SWITCHML_METRICS_FILE",
				 patterns->metrics_file, rank);
	return error;
}

char *sml_path_insert(const char *path, const char *text, const char *suffix)
{
	size_t n = strlen(path), end = strlen(suffix);
	char *whole;

	if (n <= end || strcmp(path + n - end, suffix) != 0)
		end = 0;
	return asprintf(&whole, "%.*s%s%s", (int)(n - end), path, text, path + n - end) < 0 ? NULL
											    : whole;
}

/* Where it is not in the pattern. False: no memory. */
static bool add_rank(const char **pattern, const char *suffix)
{
	char *old = (char *)(uintptr_t)*pattern;

	if (!old || strstr(old, "%r"))
		return true;
	*pattern = sml_path_insert(old, ".%r", suffix);
	free(old);
	return *pattern != NULL;
}

int sml_settings_add_ranks(struct sml_config *config)
{
	if (config->trace && strlen(config->trace) >= PATH_MAX - sizeof(".%r"))
		return sml_error_set(SML_ERROR_CONFIG,
				     "SWITCHML_TRACE is longer than a path may be");
	if (add_rank(&config->trace, "") && add_rank(&config->metrics_file, ".prom"))
		return 0;
	return sml_error_set(-ENOMEM, "no memory for the configuration");
}

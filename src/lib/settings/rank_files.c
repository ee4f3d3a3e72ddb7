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
	const struct sml_patterns *patterns = &settings->patterns;
	int error = set_file(&settings->flight_recorder, "SWITCHML_FLIGHT_RECORDER",
			     patterns->flight_recorder, rank);

	if (error == 0)
		error = set_file(&settings->trace, "SWITCHML_TRACE", patterns->trace, rank);
	if (error == 0)
		error = set_file(&settings->metrics_file, "SWITCHML_METRICS_FILE",
				 patterns->metrics_file, rank);
	return error;
}

char *sml_path_insert(const char *path, const char *text)
{
	size_t n = strlen(path), suffix = sizeof(".prom") - 1;
	char *whole;

	if (n <= suffix || strcmp(path + n - suffix, ".prom") != 0)
		suffix = 0;
	return asprintf(&whole, "%.*s%s%s", (int)(n - suffix), path, text, path + n - suffix) < 0
		       ? NULL
		       : whole;
}

/* Without %r, the rank comes last: ranks of one machine must not share a trace. */
static char *trace_pattern(const char *pattern)
{
	char *own;

	if (strstr(pattern, "%r"))
		return strdup(pattern);
	return asprintf(&own, "%s.%%r", pattern) < 0 ? NULL : own;
}

static char *metrics_pattern(const char *pattern)
{
	return strstr(pattern, "%r") ? strdup(pattern) : sml_path_insert(pattern, ".%r");
}

/* False: no memory. */
static bool copy_pattern(char **to, const char *pattern, char *(*copy_of)(const char *))
{
	if (!pattern || !*pattern)
		return true;
	*to = copy_of(pattern);
	return *to != NULL;
}

int sml_settings_copy_patterns(struct sml_settings *settings, const struct sml_config *config)
{
	struct sml_patterns *patterns = &settings->patterns;

	if (config->trace && strlen(config->trace) >= PATH_MAX - sizeof(".%r"))
		return sml_error_set(SML_ERROR_CONFIG,
				     "SWITCHML_TRACE is longer than a path may be");
	if (copy_pattern(&patterns->flight_recorder, config->flight_recorder, strdup) &&
	    copy_pattern(&patterns->trace, config->trace, trace_pattern) &&
	    copy_pattern(&patterns->metrics_file, config->metrics_file, metrics_pattern))
		return 0;
	return sml_error_set(-ENOMEM, "no memory for the configuration");
}

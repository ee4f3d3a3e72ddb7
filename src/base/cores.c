/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 512

/* Two numbers, from one file (v2) or from two (v1). No quota: "max" in v2, -1 in v1. */
static unsigned quota_in(const char *directory, const char *first, const char *second)
{
	char path[PATH_BYTES + 32];
	long long quota = 0, period = 0;
	const char *names[] = {first, second};
	long long *values[] = {&quota, &period};
	FILE *file;

	for (unsigned i = 0; i < 2 && names[i]; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
		file = fopen(path, "re");
		if (file == NULL)
			return UINT_MAX;
		if (fscanf(file, "%lld", values[i]) == 1 && second == NULL)
			(void)!fscanf(file, "%lld", &period);
		fclose(file);
	}
	if (quota <= 0 || period <= 0 || quota / period >= INT_MAX)
		return UINT_MAX;
	return (unsigned)((quota + period - 1) / period);
}

/* The least of a group and all groups above it: each limits what is below. */
static unsigned least_above(const char *root, char *group, const char *first, const char *second)
{
	unsigned least = UINT_MAX, quota;
	char directory[PATH_BYTES];
	char *slash;

	for (;;) {
		snprintf(directory, sizeof(directory), "%s%s", root, group);
		quota = quota_in(directory, first, second);
		least = quota < least ? quota : least;
		slash = strrchr(group, '/');
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

unsigned sml_cores_quota_at(const char *groups, const char *root)
{
	FILE *file = fopen(groups, "re");
	char line[PATH_BYTES / 2], of_cpu[PATH_BYTES / 2];
	unsigned least = UINT_MAX, quota;

	if (file == NULL)
		return UINT_MAX;
	snprintf(of_cpu, sizeof(of_cpu), "%s/cpu", root);
	/* "0::/GROUP" in v2, "4:cpu,cpuacct:/GROUP" in v1, where /sys has a link named cpu. */
	while (fgets(line, sizeof(line), file)) {
		char *controllers = strchr(line, ':'), *group;

		line[strcspn(line, "\n")] = '\0';
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (group == NULL)
			continue;
		*group++ = '\0';
		quota = UINT_MAX;
		if (controllers[1] == '\0')
			quota = least_above(root, group, "cpu.max", NULL);
		else if (strncmp(controllers + 1, "cpu", 3) == 0 &&
			 (controllers[4] == '\0' || controllers[4] == ','))
			quota = least_above(of_cpu, group, "cpu.cfs_quota_us", "cpu.cfs_period_us");
		least = quota < least ? quota : least;
	}
	fclose(file);
	return least;
}

unsigned sml_cores_quota(void)
{
	return sml_cores_quota_at("/proc/self/cgroup", "/sys/fs/cgroup");
}

unsigned sml_cores(void)
{
	unsigned n = 1, quota = sml_cores_quota();
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = (unsigned)CPU_COUNT(&set);
	return n < quota ? n : quota;
}

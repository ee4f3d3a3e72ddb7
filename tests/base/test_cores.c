/* SPDX-License-Identifier: BSD-3-Clause */
/* CPU quotas of control groups, in files like the kernel's. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/host.h"
#include "support/test.h"

static char root[] = "/tmp/sml-cores-XXXXXX";

/* Path below the root, with the folders that it needs. */
static void put(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		snprintf(whole, sizeof(whole), "%s/%.*s", root, (int)(slash - path), path);
		mkdir(whole, 0700);
	}
	snprintf(whole, sizeof(whole), "%s/%s", root, path);
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static unsigned quota_of(const char *groups)
{
	char path[64];

	put("groups", groups);
	snprintf(path, sizeof(path), "%s/groups", root);
	return sml_cores_quota_at(path, root);
}

TEST(quotas_are_rounded_up_to_cores)
{
	put("one/cpu.max", "150000 100000\n");
	put("tiny/cpu.max", "1000 100000\n");
	put("free/cpu.max", "max 100000\n");
	assert_int_equal(quota_of("0::/one\n"), 2);
	assert_int_equal(quota_of("0::/tiny\n"), 1);
	assert_int_equal(quota_of("0::/free\n"), UINT_MAX);
	assert_int_equal(quota_of("0::/none\n"), UINT_MAX);
}

TEST(a_group_has_the_quota_of_those_above_it)
{
	put("pod/cpu.max", "300000 100000\n");
	put("pod/inner/cpu.max", "max 100000\n");
	put("pod/inner/less/cpu.max", "200000 100000\n");
	assert_int_equal(quota_of("0::/pod/inner\n"), 3);
	assert_int_equal(quota_of("0::/pod/inner/less\n"), 2);
}

TEST(quotas_of_version_1_are_in_two_files)
{
	put("cpu/box/cpu.cfs_quota_us", "250000\n");
	put("cpu/box/cpu.cfs_period_us", "100000\n");
	put("cpu/open/cpu.cfs_quota_us", "-1\n");
	put("cpu/open/cpu.cfs_period_us", "100000\n");
	assert_int_equal(quota_of("5:memory:/m\n4:cpu,cpuacct:/box\n3:cpuset:/c\n0::/\n"), 3);
	assert_int_equal(quota_of("1:cpu:/open\n"), UINT_MAX);
}

TEST(files_that_make_no_sense_are_no_quota)
{
	put("odd/cpu.max", "100000\n");
	put("zero/cpu.max", "0 0\n");
	assert_int_equal(quota_of("0::/odd\n0::/zero\nnothing\n::\n"), UINT_MAX);
	assert_int_equal(sml_cores_quota_at("/nonexistent", root), UINT_MAX);
	assert_true(sml_cores() >= 1);
}

static void make_root(void)
{
	assert_true(mkdtemp(root));
}

static void remove_root(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(system(command), 0);
}

TESTS_BETWEEN(make_root, remove_root)

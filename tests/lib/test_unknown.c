/* SPDX-License-Identifier: BSD-3-Clause */
/* Variables that begin as ours, and that nobody reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/settings/unknown.h"
#include "support/test.h"

static bool is_unknown(const char *entry)
{
	size_t bytes = 0;
	bool unknown = sml_variable_is_unknown(entry, &bytes);

	if (unknown)
		assert_int_equal(entry[bytes], '=');
	return unknown;
}

TEST(every_name_that_something_reads_is_known)
{
	const char *name;
	char entry[128];

	for (size_t i = 0; (name = sml_variable_name(i)) != NULL; i++) {
		snprintf(entry, sizeof(entry), "%s=1", name);
		assert_false(is_unknown(entry));
		assert_string_equal(sml_variable_nearest(name), name);
		snprintf(entry, sizeof(entry), "%sX=1", name);
		assert_true(is_unknown(entry));
	}
}

TEST(the_nearest_name_is_found)
{
	static const struct {
		const char *wrong, *right;
	} cases[] = {
		{"SWITCHML_SWTICH", "SWITCHML_SWITCH"},
		{"SWITCHML_SWITCHES", "SWITCHML_SWITCH"},
		{"SWITCHML_WIRES", "SWITCHML_WIRE"},
		{"SWITCHML_PORT", "SWITCHML_PORTS"},
		{"SWITCHML_TLS_CERT", "SWITCHML_TLS_CERTIFICATE"},
		{"SWITCHML_MPI_TRESHOLD", "SWITCHML_MPI_THRESHOLD"},
		{"SWITCHML_WORLDSIZE", "SWITCHML_WORLD_SIZE"},
		{"SWITCHML_MASTER_ADDRESS", "SWITCHML_MASTER_ADDR"},
		{"SWITCHML_MASTER", "SWITCHML_MASTER_ADDR"},
		{"SWITCHML_JOB_KEY", "SWITCHML_JOB_KEY_FILE"},
		{"SWITCHML_KEY_FILE", "SWITCHML_JOB_KEY_FILE"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(sml_variable_nearest(cases[i].wrong), cases[i].right);
}

TEST(what_is_not_ours_or_not_set_is_not_unknown)
{
	static const char *const fine[] = {
		"PATH=/bin",
		"SWITCHML=1",
		"SWITCH=1",
		"switchml_switch=a",
		"SWITCHML_SWTICH=",
		"SWITCHML_SWTICH",
		"",
		/* Kubernetes describes services so. */
		"SWITCHML_SWITCH_SERVICE_HOST=10.96.0.7",
		"SWITCHML_SWITCH_SERVICE_PORT=28500",
		"SWITCHML_SWITCH_SERVICE_PORT_CONTROL=28500",
		"SWITCHML_SWITCH_PORT=tcp://10.96.0.7:28500",
		"SWITCHML_SWITCH_PORT_28500_TCP=tcp://10.96.0.7:28500",
		"SWITCHML_SWITCH_PORT_28500_TCP_PROTO=tcp",
		"SWITCHML_SWITCH_PORT_28500_UDP_PORT=28500",
		"SWITCHML_PORT=tcp://10.96.0.7:28500",
	};

	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		assert_false(is_unknown(fine[i]));
	assert_true(is_unknown("SWITCHML_PORT=28500"));
	assert_true(is_unknown("SWITCHML_=1"));
}

TEST(a_long_name_is_unknown_too)
{
	char entry[4096];

	snprintf(entry, sizeof(entry), "SWITCHML_%04000d=1", 7);
	assert_true(is_unknown(entry));
	assert_non_null(sml_variable_nearest(entry));
}

struct told {
	unsigned n;
	char text[512];
};

static void keep(void *self, const char *text)
{
	struct told *told = self;

	told->n++;
	snprintf(told->text, sizeof(told->text), "%s", text);
}

TEST(a_process_is_told_once)
{
	struct told told = {.n = 0};

	setenv("SWITCHML_SWTICH", "10.0.0.9", 1);
	setenv("SWITCHML_SWITCH", "10.0.0.9", 1);
	assert_string_equal(sml_variables_unknown(), "");
	sml_variables_check(keep, &told);
	assert_int_equal(told.n, 1);
	assert_string_equal(told.text, "SWITCHML_SWTICH has no effect, because there is no such "
				       "setting: did you mean SWITCHML_SWITCH?");
	assert_string_equal(sml_variables_unknown(), "SWITCHML_SWTICH");
	setenv("SWITCHML_SWTICHES", "10.0.0.9", 1);
	sml_variables_check(keep, &told);
	assert_int_equal(told.n, 1);
	assert_string_equal(sml_variables_unknown(), "SWITCHML_SWTICH");
}

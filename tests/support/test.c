/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program: see test.h. */
#include "support/test.h"

#include <assert.h>

#define MAX_TESTS 256

static struct CMUnitTest tests[MAX_TESTS];
static size_t n_tests;

void test_register(const char *name, CMUnitTestFunction test)
{
	assert(n_tests < MAX_TESTS);
	tests[n_tests++] = (struct CMUnitTest){.name = name, .test_func = test};
}

int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	/* What cmocka_run_group_tests() calls with an array of a fixed length. */
	return _cmocka_run_group_tests("tests", tests, n_tests, set_up, tear_down);
}

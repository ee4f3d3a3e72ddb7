/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program: see test.h. */
#include "support/test.h"

#include <assert.h>
#include <err.h>
#include <fnmatch.h>

#define MAX_TESTS 256
#define MAX_ENDS  8

static struct CMUnitTest tests[MAX_TESTS];
static size_t n_tests, n_ends;
static void (*ends[MAX_ENDS])(void);

void test_at_end(void (*end)(void))
{
	assert(n_ends < MAX_ENDS);
	ends[n_ends++] = end;
}

static int end_test(void **state)
{
	(void)state;
	while (n_ends > 0)
		ends[--n_ends]();
	return 0;
}

void test_register(const struct CMUnitTest *test)
{
	assert(n_tests < MAX_TESTS);
	tests[n_tests] = *test;
	if (test->teardown_func == NULL)
		tests[n_tests].teardown_func = end_test;
	n_tests++;
}

void test_select(const char *pattern)
{
	size_t n = 0;

	for (size_t i = 0; i < n_tests; i++)
		if (fnmatch(pattern, tests[i].name, 0) == 0)
			tests[n++] = tests[i];
	if (n == 0)
		errx(2, "no test matches %s", pattern);
	n_tests = n;
}

int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	/* What cmocka_run_group_tests() calls with an array of a fixed length. */
	return _cmocka_run_group_tests("tests", tests, n_tests, set_up, tear_down);
}

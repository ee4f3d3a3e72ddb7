/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests of this program: see test.h. */
#include "support/test.h"

#include <assert.h>
#include <err.h>
#include <fnmatch.h>

#define MAX_TESTS 256
#define MAX_ENDS  8

static struct test tests[MAX_TESTS], between;
static size_t n_tests, n_ends;
static void (*ends[MAX_ENDS])(void);

void test_at_end(void (*end)(void))
{
	assert(n_ends < MAX_ENDS);
	ends[n_ends++] = end;
}

void test_register(const struct test *test)
{
	assert(n_tests < MAX_TESTS);
	tests[n_tests++] = *test;
}

void test_register_between(void (*set_up)(void), void (*tear_down)(void))
{
	between = (struct test){.set_up = set_up, .tear_down = tear_down};
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

/* ---- what cmocka calls: a test's state is the test, and that of all is NULL ---- */

static const struct test *of(void **state)
{
	return *state ? *state : &between;
}

static int begin(void **state)
{
	if (of(state)->set_up)
		of(state)->set_up();
	return 0;
}

static void run(void **state)
{
	of(state)->body();
}

static int end(void **state)
{
	while (n_ends > 0)
		ends[--n_ends]();
	if (of(state)->tear_down)
		of(state)->tear_down();
	return 0;
}

int test_run(void)
{
	struct CMUnitTest all[MAX_TESTS];

	for (size_t i = 0; i < n_tests; i++)
		all[i] = (struct CMUnitTest){tests[i].name, run, begin, end, &tests[i]};
	/* What cmocka_run_group_tests() calls with an array of a fixed length. */
	return _cmocka_run_group_tests("tests", all, n_tests, begin, end);
}

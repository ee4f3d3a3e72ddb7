/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test registers itself: TEST(a_sentence_that_holds) { ... } is all. Tests run in the order in
 * which the file defines them. A file with a set-up has a main() that calls test_run(); the
 * others have the main() of test.c.
 */
#ifndef SML_TESTS_SUPPORT_TEST_H
#define SML_TESTS_SUPPORT_TEST_H

/* cmocka needs these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST(sentence) TEST_WITH(sentence, NULL, NULL)

/* A test with a set-up and a tear-down of its own. Each of them may be NULL. */
#define TEST_WITH(sentence, set_up, tear_down)                                                     \
	static void sentence(void **state);                                                        \
	__attribute__((constructor)) static void register_##sentence(void)                         \
	{                                                                                          \
		test_register(&(struct CMUnitTest){#sentence, sentence, set_up, tear_down, NULL}); \
	}                                                                                          \
	static void sentence(void **state __attribute__((unused)))

/* Call this after the test, also if it fails; what comes last is called first. Not with TEST_WITH.
 */
void test_at_end(void (*end)(void));

/* Copies the test. */
void test_register(const struct CMUnitTest *test);

/*
 * Only the tests that match the pattern (with * and ?) stay. Ends the program if none does.
 */
void test_select(const char *pattern);

/* All tests between a set-up and a tear-down, which may be NULL. The number that failed. */
int test_run(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#endif

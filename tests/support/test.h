/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test registers itself: TEST(a_sentence_that_holds) { ... } is all. Tests run in the order in
 * which the file defines them. Most files need no main(): test_main.c has one.
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

/*
 * A test with a set-up and a tear-down of its own. Each of them may be NULL, and fails the test if
 * an assertion in it fails.
 */
#define TEST_WITH(sentence, set_up, tear_down)                                                     \
	static void sentence(void);                                                                \
	__attribute__((constructor)) static void register_##sentence(void)                         \
	{                                                                                          \
		test_register(&(struct test){#sentence, sentence, set_up, tear_down});             \
	}                                                                                          \
	static void sentence(void)

/* All tests of the file are between these. Each of them may be NULL. */
#define TESTS_BETWEEN(set_up, tear_down)                                                           \
	__attribute__((constructor)) static void register_between(void)                            \
	{                                                                                          \
		test_register_between(set_up, tear_down);                                          \
	}

struct test {
	const char *name;
	void (*body)(void), (*set_up)(void), (*tear_down)(void);
};

/* Call this after the test, also if it fails; what comes last is called first. */
void test_at_end(void (*end)(void));

/* Copies the test. */
void test_register(const struct test *test);

void test_register_between(void (*set_up)(void), void (*tear_down)(void));

/*
 * Only the tests that match the pattern (with * and ?) stay. Ends the program if none does.
 */
void test_select(const char *pattern);

/* The number of tests that failed. */
int test_run(void);

#endif

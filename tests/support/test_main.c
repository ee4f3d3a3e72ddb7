/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main() of the test programs that have none.
 *
 *	PROGRAM [NAME]    all tests, or those that match NAME (with * and ?)
 */
#include "support/test.h"

int main(int argc, char **argv)
{
	if (argc > 1)
		test_select(argv[1]);
	return test_run();
}

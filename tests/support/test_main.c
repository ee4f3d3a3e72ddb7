/* SPDX-License-Identifier: BSD-3-Clause */
/* main() of the test programs that have none. */
#include "support/test.h"

int main(void)
{
	return test_run(NULL, NULL);
}

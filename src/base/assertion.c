/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a failed assertion of the core does: print one line and end the process.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base.h"

_Noreturn void sml_assertion_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "switchml: %s:%d: assertion failed: %s (please report this)\n", file, line,
		condition);
	abort();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of a run: the trace, its hash, and what goes wrong. */
#include <stdarg.h>
#include <stdio.h>

#include "sim/control/internal.h"

static void hash_text(struct sim_control_result *result, const char *text)
{
	for (; *text; text++)
		result->hash = (result->hash ^ (uint8_t)*text) * 0x100000001b3ull;
}

void sim_say(struct control *control, const char *format, ...)
{
	char line[2000];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	hash_text(control->result, line);
	control->result->hash ^= control->now_ns;
	if (control->trace)
		printf("%12.6f  %s\n", (double)control->now_ns / 1e9, line);
}

void sim_wrong(struct control *control, const char *format, ...)
{
	struct sim_control_result *result = control->result;
	va_list arguments;

	if (!result->passed)
		return;
	result->passed = false;
	va_start(arguments, format);
	vsnprintf(result->failure, sizeof(result->failure), format, arguments);
	va_end(arguments);
	sim_say(control, "WRONG: %s", result->failure);
}

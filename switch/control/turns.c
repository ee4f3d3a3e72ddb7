/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop's classes and budgets: see turns.h. */
#include "switch/control/turns.h"

struct event_base *sml_turns_base_new(void)
{
	const struct timeval longest = {.tv_usec = SML_TURN_US};
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	/*
	 * The clock's class always has little to do, so it is not interrupted.
	 */
	if (config != NULL && event_config_set_max_dispatch_interval(
				      config, &longest, SML_TURN_CALLS, SML_TURN_MEMBERS) == 0)
		base = event_base_new_with_config(config);
	if (config != NULL)
		event_config_free(config);
	if (base != NULL && event_base_priority_init(base, SML_TURN_CLASSES) < 0) {
		event_base_free(base);
		base = NULL;
	}
	return base;
}

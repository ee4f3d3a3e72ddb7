/* SPDX-License-Identifier: BSD-3-Clause */
/* The event loop's classes and budgets: see turns.h. */
#include "switch/control/turns.h"

_Static_assert((int)SML_TURN_CLASSES <= (int)SML_LOOP_CLASSES, "each class has a queue");

int sml_turns_loop_open(struct sml_loop **opened)
{
	int error = sml_loop_open(opened);

	/* The clock's class always has little to do, so it is not interrupted. */
	if (error == 0)
		sml_loop_limit(*opened, SML_TURN_MEMBERS, SML_TURN_CALLS, SML_TURN_NS);
	return error;
}

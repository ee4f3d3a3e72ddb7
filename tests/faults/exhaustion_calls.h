/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function of the interface, for test_exhaustion.c. A call may fail, but then it says so, and
 * a call that succeeds has the right result.
 */
#ifndef SML_TESTS_EXHAUSTION_CALLS_H
#define SML_TESTS_EXHAUSTION_CALLS_H

#include <stddef.h>

#include "switchml.h"

/* Call a function of the interface, and remember that. */
#define CALL(function, ...) (calls_note(#function), function(__VA_ARGS__))

void calls_note(const char *function);

/* What went wrong, if anything: "" is good. */
struct calls_complaint {
	char text[384];
};

/*
 * As one rank of a job: all but sml_open(), sml_close(), sml_abort() and sml_reconfigure(), also
 * after an error.
 * Returns the first error.
 */
int calls_make_all(struct sml_context *context, struct calls_complaint *complaint);

/* Open a context for a job of one rank, abort the job, go on in another one, and close. */
void calls_abort_own_job(const struct sml_config *config, struct calls_complaint *complaint);

/* The name of a function that the library exports and that was never called, or NULL. */
const char *calls_find_missing(const char *exports);

#endif

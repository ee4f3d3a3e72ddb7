/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A call completes on all members that go on, or on none: core/standing.h.
 *
 *	a job ends    what it leaves stays: the calls that have failed here, and the results that
 *	              this rank can hand over (sml_past_note_end)
 *	the next one  has begun: its members tell each other how far they are, and those that have
 *	              results broadcast them to those that lack them (sml_past_settle)
 *	              ... and what is left is forgotten when the first call of it is complete here:
 *	              then no member has to try again
 *
 * The messages are calls of the next job, before its program's. Its new members make them, too: a
 * job that follows another one always begins like this.
 *
 * The invariant: what a rank has settled, and the results that this took, stay until no other
 * member can need them.
 */
#ifndef SML_LIB_SETTLE_H
#define SML_LIB_SETTLE_H

#include <stdbool.h>
#include <stdint.h>

struct sml_context;

/*
 * Keep what is left of a job that has failed here, while no call is inside, and before its parts
 * are freed. promised: the buffers of failed calls do not change until the next job has begun.
 * Returns 0. If there is no memory, nothing is kept, the other members go on without this rank's
 * results, and this returns -ENOMEM and sets the error text.
 */
int sml_past_note_end(struct sml_context *context, bool promised);

/*
 * The job has begun, and no call has been made. If it follows another one, its members settle the
 * calls of the jobs before. Returns 0, or a negative error and sets the error text.
 */
int sml_past_settle(struct sml_context *context, bool follows, uint64_t deadline_ns);

void sml_past_fini(struct sml_context *context);

#endif

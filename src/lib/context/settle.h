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
 * The job has failed here, and no call is inside: before its parts go. promised: buffers of failed
 * calls stay as they are until the next job has begun. Without memory, nothing is left of it, and
 * the other members go on without this one's results: -ENOMEM, told.
 */
int sml_past_note_end(struct sml_context *context, bool promised);

/*
 * The job has begun, and no call has been made: if it follows another one, its members settle the
 * calls of those before. 0, or an error, told.
 */
int sml_past_settle(struct sml_context *context, bool follows, uint64_t deadline_ns);

void sml_past_fini(struct sml_context *context);

#endif

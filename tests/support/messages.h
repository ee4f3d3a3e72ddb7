/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages: as honest ranks and leaves send them, and messages of any kind, drawn from
 * their schema. Each drawn field is absent, at an edge, or random. Fields that are added to the
 * schema later are drawn, too.
 */
#ifndef SML_TESTS_MESSAGES_H
#define SML_TESTS_MESSAGES_H

#include "control/stream.h"
#include "sim/gen.h"

#define DRAFT_BYTES 4096

/* An honest rank's Join, on host "testhost", with process id 1000 + rank. */
SmlControl__Join honest_join(const char *job, uint32_t rank, uint32_t world_size);

/*
 * Each result is valid until the next call of the same function. job: the job's number in messages
 * from or to a leaf; otherwise 0.
 */
const SmlControl__Envelope *message_without_fields(SmlControl__Envelope__BodyCase body,
						   uint32_t job);
const SmlControl__Envelope *message_ready(uint32_t lanes, bool shares_memory, uint32_t job);
const SmlControl__Envelope *message_abort(int error, const char *text, bool planned);

/* The bytes of a growing message. Fields that do not fit are left out. */
struct draft {
	uint8_t bytes[DRAFT_BYTES];
	size_t n;
};

/* Begin with the bytes of an honest message. False: it does not fit. */
bool draft_from(struct draft *draft, const ProtobufCMessage *honest);

/* Add some fields, which replace existing ones. */
void draft_fields(struct draft *draft, struct gen *gen,
		  const ProtobufCMessageDescriptor *descriptor, unsigned depth);

/* Make a frame: length, envelope, the draft as this body, and the job's number, unless it is 0. */
void draft_frame(const struct draft *draft, SmlControl__Envelope__BodyCase body, uint32_t job,
		 struct draft *frame);

/* Make a frame with any body, whose fields are drawn, and sometimes with a job's number. */
void draft_any(struct draft *frame, struct gen *gen);

#endif

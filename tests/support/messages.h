/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages of any kind, drawn from their schema: each field absent, at an
 * edge, or anything. What the schema gets tomorrow is drawn tomorrow.
 */
#ifndef SML_TESTS_MESSAGES_H
#define SML_TESTS_MESSAGES_H

#include "control/frame.h"
#include "sim/gen.h"

#define DRAFT_BYTES 4096

/* The bytes of one message while it grows. What has no room is left out. */
struct draft {
	uint8_t bytes[DRAFT_BYTES];
	size_t n;
};

/* An honest message's bytes, to begin with. False: it has no room. */
bool draft_from(struct draft *draft, const ProtobufCMessage *honest);

/* Some of the fields, in place of those that are there already. */
void draft_fields(struct draft *draft, struct gen *gen,
		  const ProtobufCMessageDescriptor *descriptor, unsigned depth);

/* As a frame: length, envelope, and the draft as this body. */
void draft_frame(const struct draft *draft, SmlControl__Envelope__BodyCase body,
		 struct draft *frame);

/* A frame with any body, its fields drawn. */
void draft_any(struct draft *frame, struct gen *gen);

#endif

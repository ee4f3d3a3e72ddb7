/* SPDX-License-Identifier: BSD-3-Clause */
/* Put a message into its Envelope. */
#ifndef SML_CONTROL_ENVELOPE_H
#define SML_CONTROL_ENVELOPE_H

#include "control.pb-c.h"

/* Join.protocol. */
#define SML_CONTROL_PROTOCOL 27

/* An Envelope literal: sml_envelope(PONG, pong, &pong). */
#define sml_envelope(BODY, field, message)                                                         \
	sml_envelope_literal(0, SML_CONTROL__ENVELOPE__BODY_##BODY, field, message)

/* Of a leaf, or for one, in the job with this number. */
#define sml_envelope_of(number, BODY, field, message)                                              \
	sml_envelope_literal(number, SML_CONTROL__ENVELOPE__BODY_##BODY, field, message)

#define sml_envelope_literal(number, body, field, message)                                         \
	(&(const SmlControl__Envelope){                                                            \
		.base = PROTOBUF_C_MESSAGE_INIT(&sml_control__envelope__descriptor),               \
		.job = (number),                                                                   \
		.body_case = (body),                                                               \
		{.field = (message)},                                                              \
	})

#endif

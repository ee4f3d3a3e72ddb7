/* SPDX-License-Identifier: BSD-3-Clause */
/* Put a message into its Envelope. */
#ifndef SML_CONTROL_ENVELOPE_H
#define SML_CONTROL_ENVELOPE_H

#include "control.pb-c.h"

/* Join.protocol. */
#define SML_CONTROL_PROTOCOL 23

/* An Envelope literal: sml_envelope(PONG, pong, &pong). */
#define sml_envelope(BODY, field, message)                                                         \
	(&(const SmlControl__Envelope){                                                            \
		.base = PROTOBUF_C_MESSAGE_INIT(&sml_control__envelope__descriptor),               \
		.body_case = SML_CONTROL__ENVELOPE__BODY_##BODY,                                   \
		{.field = (message)},                                                              \
	})

#endif

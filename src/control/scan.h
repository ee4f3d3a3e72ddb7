/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a message's bytes before protobuf-c sees them. protobuf-c merges repeated copies of a
 * submessage, which takes quadratic time if there are many, and it keeps unknown fields. This scan
 * refuses both. It is linear: it reads every byte at most once, and allocates nothing.
 *
 * A text with a NUL in it is refused, too, because C would take only what is before it.
 *
 * The invariant: a message that passes has each singular field and each oneof at most once, at
 * every depth, and unknown fields only where SML_SCAN_UNKNOWN says.
 */
#ifndef SML_CONTROL_SCAN_H
#define SML_CONTROL_SCAN_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/*
 * Peers of different versions refuse each other with Join and Abort, and look at each other with
 * Status and Hello. So each of these messages may have a few fields that this version does not
 * know.
 */
#define SML_SCAN_UNKNOWN 16
/*
 * The most messages directly in one message: a state of each slot, of both streams. A message of
 * two bytes costs an allocation, so the number needs a bound.
 */
#define SML_SCAN_INNER 8192

/* Returns 0, or -EPROTO if it is not such a message, or not one that we unpack. */
int sml_scan_message(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t n);

/*
 * Given the first n bytes of an Envelope, which message is in it? Returns the number of its field
 * in the schema. 0: too few bytes to tell. -EPROTO: it does not begin with a message.
 */
int sml_scan_body(const uint8_t *bytes, size_t n);

/* Does this field of that message begin within these bytes? The rest may be cut off. */
bool sml_scan_begins(const uint8_t *bytes, size_t n, uint32_t field);

#endif

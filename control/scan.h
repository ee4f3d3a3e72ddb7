/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A look at a message's bytes before protobuf-c sees them. protobuf-c merges a
 * submessage that comes twice, in quadratic time if it comes often, and it keeps
 * fields that it does not know. This scan is linear: it reads every byte at most
 * once, allocates nothing, and refuses both.
 *
 * The invariant: a message that passes has each singular field and each oneof at
 * most once, at every depth, and unknown fields only where SML_SCAN_UNKNOWN says.
 */
#ifndef SML_CONTROL_SCAN_H
#define SML_CONTROL_SCAN_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

/*
 * Join and Abort are how peers of different versions refuse each other in words.
 * So each of the two may have a few fields, of its own, that this version does not know.
 */
#define SML_SCAN_UNKNOWN 16

/* 0, or -EPROTO: it is no such message, or not one that we unpack. */
int sml_scan_message(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t n);

/*
 * Which message the Envelope has whose first n bytes these are: the number of its field in
 * the schema. 0: too few bytes to tell. -EPROTO: it begins with no message.
 */
int sml_scan_body(const uint8_t *bytes, size_t n);

/* Does this field of that message begin within these bytes? What follows may be cut off. */
bool sml_scan_begins(const uint8_t *bytes, size_t n, uint32_t field);

#endif

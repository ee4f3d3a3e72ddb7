/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of peers that are shown to people: in logs, terminals and JSON, where a
 * control character or broken UTF-8 would do things of its own.
 */
#ifndef SML_CONTROL_TEXT_H
#define SML_CONTROL_TEXT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Copy at most size - 1 bytes. What is not printable, and what is not whole UTF-8,
 * becomes '?'.
 */
void sml_text_copy(char *to, size_t size, const char *from);

/* Would a copy be the same? */
bool sml_text_is_clean(const char *text);

/* All words of a message that was unpacked, and of those in it, become such copies. */
void sml_text_clean_message(ProtobufCMessage *message);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts from peers that are shown to people in logs, terminals and JSON, where control characters
 * or broken UTF-8 could do harm.
 */
#ifndef SML_CONTROL_TEXT_H
#define SML_CONTROL_TEXT_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Copy at most size - 1 bytes. Unprintable characters and incomplete UTF-8 become '?'. */
void sml_text_copy(char *to, size_t size, const char *from);

/* Whether a copy would be the same text. */
bool sml_text_is_clean(const char *text);

/* NAME="value", as Prometheus has a label: of a clean text, only three characters need a mark. */
void sml_text_write_label(FILE *out, const char *name, const char *value);

/* Sanitize all texts of an unpacked message, and of the messages in it, like that. */
void sml_text_clean_message(ProtobufCMessage *message);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error texts of calls that have no context: each thread remembers its own last
 * one. An open context remembers its own errors (context.h).
 */
#ifndef SML_BASE_ERROR_H
#define SML_BASE_ERROR_H

#define SML_TEXT_BYTES 1024

/*
 * Remember why a call of this thread failed. Returns `error`, so that the
 * caller can return it.
 */
__attribute__((format(printf, 2, 3))) int sml_error_set(int error, const char *format, ...);

/* The text of this thread's last sml_error_set(); "" before the first one. */
const char *sml_error_last(void);

/* This thread's second buffer: the text that sml_error_text() returns. */
char *sml_error_buffer(void);

#endif

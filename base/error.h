/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error texts of calls that have no context: each thread remembers its own
 * last one. What happens to an open context is remembered there (context.h).
 */
#ifndef SML_BASE_ERROR_H
#define SML_BASE_ERROR_H

#define SML_TEXT_BYTES 1024

/* Remember why a call of this thread failed. Returns error, to be returned. */
__attribute__((format(printf, 2, 3))) int sml_error_set(int error, const char *format, ...);

/* What this thread's last sml_error_set() said; "" before the first. */
const char *sml_error_last(void);

/* A second buffer of this thread's: what sml_error_text() hands out. */
char *sml_error_buffer(void);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of the environment that begin as ours and that nobody reads: a typing error would otherwise
 * have no effect, and no message.
 */
#ifndef SML_LIB_UNKNOWN_H
#define SML_LIB_UNKNOWN_H

#include <stdbool.h>
#include <stddef.h>

/* The i-th name that the library, a binding or a command reads; NULL after the last one. */
const char *sml_variable_name(size_t i);

/*
 * Of the names that name_of() knows, up to the first NULL, the one that needs the fewest changes of
 * single characters, where two that are swapped count as one, and so does a missing end. NULL if it
 * needs more than `most`.
 */
const char *sml_nearest(const char *name, const char *(*name_of)(size_t i), unsigned most);

/* Of the variables, however many changes it needs. */
const char *sml_variable_nearest(const char *name);

/*
 * Is this entry of the environment, "NAME=value", ours, set, and unknown? Then *bytes is the
 * name's length. The variables that Kubernetes makes of a service with our name do not count.
 */
bool sml_variable_is_unknown(const char *entry, size_t *bytes);

/*
 * Calls tell with a text about each of them, once in a process. Does nothing in a set-user-ID
 * program, which ignores the environment.
 */
void sml_variables_check(void (*tell)(void *self, const char *text), void *self);

/*
 * What sml_variables_check() has told about: "SWITCHML_SWTICH and 2 other unknown names", or "" if
 * there was nothing, or it has not ended. Unlike the check, any thread may ask at any time.
 */
const char *sml_variables_unknown(void);

#endif

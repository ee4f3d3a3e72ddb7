/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_LIB_REQUESTS_H
#define SML_LIB_REQUESTS_H

#include "lib/context/context.h"

/*
 * Whether this thread has promised to wait for the call that it now makes on this context. Ends the
 * promise.
 */
bool sml_take_promise(const struct sml_context *context);

#endif

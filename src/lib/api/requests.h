/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_LIB_REQUESTS_H
#define SML_LIB_REQUESTS_H

#include "lib/context/context.h"

/*
 * Whether this thread has promised to wait for the call that it now makes on this context. Ends the
 * promise.
 */
bool sml_take_promise(const struct sml_context *context);

/*
 * The name that this thread has given to the call that it now makes on this context, and ends
 * with it: valid until the next one is given. NULL, and no hash: none.
 */
const char *sml_take_name(const struct sml_context *context, uint32_t *hash);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SML_LIB_REQUESTS_H
#define SML_LIB_REQUESTS_H

#include "lib/context/context.h"

/* Has this thread promised to wait for the call of this context that it makes now? Ends the
 * promise.
 */
bool sml_take_promise(const struct sml_context *context);

#endif

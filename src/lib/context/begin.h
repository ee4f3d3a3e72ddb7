/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stripe begins at a dedicated switch, or at the next one if that one dies before the job runs;
 * or at rank 0.
 */
#ifndef SML_LIB_BEGIN_H
#define SML_LIB_BEGIN_H

#include "lib/context/context.h"

/*
 * Connect, and join; at a switch, also open the transports, prove the paths, and start. Afterwards,
 * `lanes` is known. Returns 0, or an error and sets the error text; the error is SML_ERROR_CLOSED
 * if another stripe has failed.
 */
int sml_stripe_begin(struct sml_stripe *stripe);

#endif

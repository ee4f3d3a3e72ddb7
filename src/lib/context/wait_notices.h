/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that waits in a call says for which ranks. Only control threads look, so a call costs
 * nothing.
 *
 * A call waits since its last chunk came, or since it was made: a large tensor on a slow network is
 * no wait. When a notice is due (settings/notice.h), each switch is asked what its slots wait for.
 * What is told is what all of them said, unless the call has gone on meanwhile.
 */
#ifndef SML_LIB_WAIT_NOTICES_H
#define SML_LIB_WAIT_NOTICES_H

struct sml_context;

/* Call this at every tick of a control, in its thread. */
void sml_wait_notices_check(struct sml_context *context);

#endif

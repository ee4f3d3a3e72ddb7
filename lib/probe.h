/* SPDX-License-Identifier: BSD-3-Clause */
/* Is the UDP path open, and how wide? Asked once a shard, before the job starts. */
#ifndef SML_LIB_PROBE_H
#define SML_LIB_PROBE_H

#include "lib/control_client.h"
#include "lib/transport.h"

/*
 * Finds the largest lane count, at most *lanes, whose packets come back on
 * every transport, and stores it in *lanes. 0 or an error, told by
 * sml_error_set(). The control connection is kept alive meanwhile.
 */
int sml_probe(struct sml_control *control, const struct sml_admission *admission, uint8_t rank,
	      struct sml_transport *const *transports, const char *where, uint16_t *lanes,
	      uint64_t deadline_ns);

#endif

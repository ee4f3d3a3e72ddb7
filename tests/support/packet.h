/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of a test's packet. */
#ifndef SML_TESTS_PACKET_H
#define SML_TESTS_PACKET_H

#include "core/wire.h"

/* The sender's key. What is left out is 0. */
static inline struct sml_header packet_header(uint8_t kind, uint32_t job, uint32_t epoch,
					      uint64_t key, uint32_t lanes)
{
	return (struct sml_header){.magic_be = sml_be16(SML_WIRE_MAGIC),
				   .version = SML_WIRE_VERSION,
				   .kind = kind,
				   .job_be = sml_be32(job),
				   .key_be = sml_be64(key),
				   .epoch_be = sml_be32(epoch),
				   .lanes_be = sml_be16((uint16_t)lanes)};
}

#endif

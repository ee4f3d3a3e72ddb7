/* SPDX-License-Identifier: BSD-3-Clause */
/* Results that were handed over when a switch had died. */
#include "lib/context/past.h"

#include <stdlib.h>

#include "core/kept.h"

/* A rank lacks two chunks for each slot at most; a switch that lies gets no more memory. */
#define MOST_HANDED ((size_t)2 * SML_MAX_SLOTS * SML_MAX_PACKET_BYTES)

bool sml_handed_reserve(struct sml_handed *handed, uint16_t n_lanes)
{
	size_t room = 2 * handed->n + sml_kept_size(n_lanes);
	uint8_t *grown;

	if (handed->n + sml_kept_size(n_lanes) > MOST_HANDED)
		return false;
	if (handed->n + sml_kept_size(n_lanes) <= handed->room)
		return true;
	grown = realloc(handed->bytes, room);
	if (grown == NULL)
		return false;
	handed->bytes = grown;
	handed->room = room;
	return true;
}

void sml_handed_add(struct sml_handed *handed, enum sml_stream_id stream, uint32_t chunk,
		    const void *lanes, uint16_t n_lanes)
{
	(void)sml_kept_put(handed->bytes + handed->n, stream, chunk, lanes, n_lanes);
	handed->n += sml_kept_size(n_lanes);
}

void sml_handed_clear(struct sml_handed *handed)
{
	free(handed->bytes);
	*handed = (struct sml_handed){.n = 0};
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* What every dataplane tells in the same way: see dataplane.h. */
#include "switch/dataplane.h"

/* NULL: no rank has used the slot yet. */
static const struct sml_slot *newer_of(const struct sml_slot *even, const struct sml_slot *odd)
{
	if (even->state == SML_SLOT_FRESH || odd->state == SML_SLOT_FRESH)
		return odd->state != SML_SLOT_FRESH    ? odd
		       : even->state != SML_SLOT_FRESH ? even
						       : NULL;
	return sml_serial_before(even->use, odd->use) ? odd : even;
}

bool sml_slot_progress_of(const struct sml_pool_rules *rules, uint32_t slot,
			  const struct sml_slot *even, const struct sml_slot *odd,
			  struct sml_slot_progress *progress)
{
	const struct sml_slot *newest = newer_of(even, odd);

	if (newest == NULL)
		return false;
	*progress = (struct sml_slot_progress){
		.slot = (uint16_t)slot,
		.use = newest->use,
		.missing = sml_pool_all_ranks(rules) & ~newest->seen,
	};
	return true;
}

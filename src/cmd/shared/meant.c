/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/shared/meant.h"

#include <stdio.h>

#include "lib/settings/unknown.h"

/* More make another word. */
#define MOST_CHANGES 2

const char *sml_meant(const char *name, const char *(*name_of)(size_t i),
		      char text[SML_MEANT_BYTES])
{
	const char *nearest = *name != '\0' ? sml_nearest(name, name_of, MOST_CHANGES) : NULL;

	if (nearest == NULL)
		return "";
	snprintf(text, SML_MEANT_BYTES, ": did you mean %s?", nearest);
	return text;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads SWITCHML_FAULTS: the faults that are injected into a rank's packets. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/word.h"
#include "lib/settings/settings.h"

int sml_faults_parse(struct sml_faults *faults, const char *text)
{
	static const char allowed[] = "drop=N,duplicate=N,reorder=N (packets per million), "
				      "seed=N, tickets=0 or 1, fastretransmit=0 or 1";
	const char *rest = text;
	char name[16], digits[24];
	int length;
	long value;

	*faults = (struct sml_faults){.seed = 1};
	while (*rest) {
		if (sscanf(rest, "%15[a-z]=%23[0-9]%n", name, digits, &length) != 2 ||
		    !sml_parse_number(digits, 0, strcmp(name, "seed") ? 1000000 : INT64_MAX,
				      &value))
			goto wrong;
		if (strcmp(name, "drop") == 0)
			faults->drop = (uint32_t)value;
		else if (strcmp(name, "duplicate") == 0)
			faults->duplicate = (uint32_t)value;
		else if (strcmp(name, "reorder") == 0)
			faults->reorder = (uint32_t)value;
		else if (strcmp(name, "seed") == 0)
			faults->seed = (uint64_t)value;
		else if (strcmp(name, "tickets") == 0 && value <= 1)
			faults->no_tickets = value == 0;
		else if (strcmp(name, "fastretransmit") == 0 && value <= 1)
			faults->no_fast_retransmit = value == 0;
		else
			goto wrong;
		rest += length;
		if (*rest == ',' && rest[1])
			rest++;
		else if (*rest)
			goto wrong;
	}
	return 0;

wrong:
	return sml_error_set(SML_ERROR_CONFIG,
			     "SWITCHML_FAULTS=\"%s\" is not allowed: it must be %s", text, allowed);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/number.h"

bool sml_parse_number(const char *text, long minimum, long maximum, long *number)
{
	long value = 0;

	if (*text == '\0')
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > 100000000000000000)
			return false;
		value = 10 * value + (*text - '0');
	}
	*number = value;
	return value >= minimum && value <= maximum;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/switch/metrics.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"

/* How much a range of media types says of one of them: nothing; then the more, the better. */
enum match { OTHER, ANY, ANY_SUBTYPE, EXACT };

struct quality {
	enum match match;
	double q;
};

static enum match match_of(const char *range, size_t n, const char *type)
{
	const size_t major = (size_t)(strchr(type, '/') - type) + 1;

	if (n == strlen(type) && strncasecmp(range, type, n) == 0)
		return EXACT;
	if (n == major + 1 && strncasecmp(range, type, major) == 0 && range[major] == '*')
		return ANY_SUBTYPE;
	return n == 3 && strncmp(range, "*/*", 3) == 0 ? ANY : OTHER;
}

/* Of the parameters up to `end`: 1 where there is no q, and 0 where it is no number from 0 to 1. */
static double q_of(const char *at, const char *end)
{
	while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
		double q;

		at += 1 + strspn(at + 1, BLANKS);
		if (at >= end)
			break;
		if (strncasecmp(at, "q=", 2) != 0)
			continue;
		q = strtod(at + 2, NULL);
		return q >= 0 && q <= 1 ? q : 0;
	}
	return 1;
}

/* What the most specific range says of the type; of equal ones, the best. */
static struct quality quality_of(const char *accept, const char *type)
{
	struct quality best = {.match = OTHER};

	while (*accept != '\0') {
		const char *range = accept + strspn(accept, BLANKS);
		const char *end = range + strcspn(range, ",");
		const enum match match = match_of(range, strcspn(range, BLANKS ";,"), type);
		const double q = match != OTHER ? q_of(range, end) : 0;

		if (match > best.match || (match == best.match && q > best.q))
			best = (struct quality){match, q};
		accept = *end == ',' ? end + 1 : end;
	}
	return best;
}

bool sml_accept_open_metrics(const char *accept)
{
	struct quality open, text;

	if (accept == NULL)
		return false;
	open = quality_of(accept, SML_ACCEPT_OPEN_METRICS);
	text = quality_of(accept, SML_ACCEPT_TEXT);
	return open.q > text.q || (open.match == EXACT && open.q > 0 && open.q == text.q);
}

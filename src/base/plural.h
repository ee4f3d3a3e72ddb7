/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a noun in a sentence for people: "%u rank%s", n, sml_plural(n). */
#ifndef SML_BASE_PLURAL_H
#define SML_BASE_PLURAL_H

static inline const char *sml_plural(unsigned long long n)
{
	return n == 1 ? "" : "s";
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/settings/unknown.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/plural.h"

#define PREFIX "SWITCHML_"
/* Longer names are compared up to here; the longest known one has 24 bytes. */
#define NAME_BYTES 64

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many insertions, deletions, replacements and swaps of neighbors make one of the other. */
static unsigned distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	unsigned rows[3][NAME_BYTES + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	for (size_t j = 0; j <= b_bytes; j++)
		last[j] = (unsigned)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned *oldest = before;

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			row[j] = least(least(last[j], row[j - 1]) + 1,
				       last[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = last;
		last = row;
		row = oldest;
	}
	return last[b_bytes];
}

const char *sml_nearest(const char *name, const char *(*name_of)(size_t i), unsigned most)
{
	size_t bytes = strnlen(name, NAME_BYTES);
	const char *nearest = NULL, *known;
	unsigned fewest = UINT_MAX, changes;

	for (size_t i = 0; (known = name_of(i)) != NULL; i++) {
		/* A name that stops early is an abbreviation, and counts as one change. */
		changes = strncmp(known, name, bytes) == 0 && known[bytes] != '\0'
				  ? 1
				  : distance(name, bytes, known, strnlen(known, NAME_BYTES));
		if (changes < fewest) {
			fewest = changes;
			nearest = known;
		}
	}
	return fewest <= most ? nearest : NULL;
}

const char *sml_variable_nearest(const char *name)
{
	return sml_nearest(name, sml_variable_name, UINT_MAX);
}

static bool is_known(const char *name, size_t bytes)
{
	const char *known;

	for (size_t i = 0; (known = sml_variable_name(i)) != NULL; i++)
		if (strlen(known) == bytes && memcmp(known, name, bytes) == 0)
			return true;
	return false;
}

/*
 * In a pod beside a service "switchml-switch", there are SWITCHML_SWITCH_SERVICE_HOST,
 * SWITCHML_SWITCH_PORT=tcp://..., SWITCHML_SWITCH_PORT_28500_TCP_ADDR and the like.
 */
static bool is_of_service(const char *name, const char *value)
{
	const char *port = strstr(name, "_PORT_");

	return strstr(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") ||
	       (port && isdigit((unsigned char)port[strlen("_PORT_")])) ||
	       strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0;
}

static void copy_name(char name[NAME_BYTES + 1], const char *entry, size_t bytes)
{
	snprintf(name, NAME_BYTES + 1, "%.*s", bytes < NAME_BYTES ? (int)bytes : NAME_BYTES, entry);
}

/* What sml_variables_check() has found, for the end of a job. It is complete once it is `found`. */
static char unknown_names[NAME_BYTES + 48];
static unsigned n_unknown;
static bool found;

static void keep_name(const char *name)
{
	if (n_unknown++ == 0)
		snprintf(unknown_names, sizeof(unknown_names), "%s", name);
}

static void end_keeping(void)
{
	size_t length = strlen(unknown_names);

	if (n_unknown > 1)
		snprintf(unknown_names + length, sizeof(unknown_names) - length,
			 " and %u other unknown name%s", n_unknown - 1, sml_plural(n_unknown - 1));
	__atomic_store_n(&found, true, __ATOMIC_RELEASE);
}

const char *sml_variables_unknown(void)
{
	return __atomic_load_n(&found, __ATOMIC_ACQUIRE) ? unknown_names : "";
}

bool sml_variable_is_unknown(const char *entry, size_t *bytes)
{
	const char *value = strchr(entry, '=');
	char name[NAME_BYTES + 1];

	if (value == NULL || value[1] == '\0' || strncmp(entry, PREFIX, strlen(PREFIX)) != 0)
		return false;
	*bytes = (size_t)(value - entry);
	copy_name(name, entry, *bytes);
	return !is_known(entry, *bytes) && !is_of_service(name, value + 1);
}

/*
 * Reads the environment as getenv() does: no other thread may change it meanwhile. The first call
 * of a process tells.
 */
void sml_variables_check(void (*tell)(void *self, const char *text), void *self)
{
	static bool told;
	char text[2 * NAME_BYTES + 128];
	size_t bytes;

	if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED) || getauxval(AT_SECURE))
		return;
	for (char **entry = environ; entry && *entry; entry++) {
		char name[NAME_BYTES + 1];

		if (!sml_variable_is_unknown(*entry, &bytes))
			continue;
		copy_name(name, *entry, bytes);
		snprintf(text, sizeof(text),
			 "%s has no effect, because there is no such setting: did you mean %s?",
			 name, sml_variable_nearest(name));
		tell(self, text);
		keep_name(name);
	}
	end_keeping();
}

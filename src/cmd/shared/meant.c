/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/shared/meant.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- options ---- */

/* While argp_parse() runs, which ends the program at a mistake. */
static const struct parsed {
	const struct argp *argp;
	char **argv;
} * parsed;

/* argp has some more. */
static const char *option_name(size_t i)
{
	static const char *const more[] = {"help", "usage", "version", NULL};

	for (const struct argp_option *one = parsed->argp->options; one->name || one->doc; one++)
		if (one->name && i-- == 0)
			return one->name;
	return more[i];
}

static bool is_option(const char *name, size_t bytes)
{
	const char *known;

	for (size_t i = 0; (known = option_name(i)) != NULL; i++)
		if (strncmp(known, name, bytes) == 0)
			return true;
	return false;
}

static void propose(int status, void *unused)
{
	char name[SML_MEANT_BYTES];
	const char *nearest;

	(void)unused;
	if (parsed == NULL || status == 0)
		return;
	for (char **word = parsed->argv + 1; *word && strcmp(*word, "--") != 0; word++) {
		size_t bytes = strcspn(*word, "=");

		if (strncmp(*word, "--", 2) != 0 || is_option(*word + 2, bytes - 2))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)bytes - 2, *word + 2);
		nearest = sml_nearest(name, option_name, MOST_CHANGES);
		if (nearest)
			fprintf(stderr, "%s: --%s: did you mean --%s?\n", parsed->argv[0], name,
				nearest);
	}
}

void sml_options_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	struct parsed now = {argp, argv};

	parsed = &now;
	on_exit(propose, NULL);
	argp_parse(argp, argc, argv, 0, NULL, input);
	parsed = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/shared/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* As argp sees it. */
static bool is_end(const struct argp_option *one)
{
	return !one->name && !one->key && !one->doc && !one->group;
}

/* argp has some more. NULL: there is none left. Those with these flags are left out. */
static const char *name_without(size_t i, int flags)
{
	static const char *const more[] = {"help", "usage", "version", NULL};
	const struct argp_option *one = parsed->argp->options;

	for (; !is_end(one); one++)
		if (one->name && !(one->flags & flags) && i-- == 0)
			return one->name;
	return more[i];
}

static const char *proposed_name(size_t i)
{
	return name_without(i, OPTION_DOC | OPTION_HIDDEN);
}

static bool is_option(const char *name, size_t bytes)
{
	const char *known;

	for (size_t i = 0; (known = name_without(i, OPTION_DOC)) != NULL; i++)
		if (strncmp(known, name, bytes) == 0)
			return true;
	return false;
}

static bool wants_value(const struct argp_option *one)
{
	return one->arg != NULL && !(one->flags & (OPTION_ARG_OPTIONAL | OPTION_DOC));
}

/* Is the next word the value of this one, whatever it looks like? */
static bool takes_next(const char *word)
{
	const struct argp_option *one = parsed->argp->options;

	if (strncmp(word, "--", 2) == 0) {
		for (; !is_end(one); one++)
			if (one->name && strncmp(one->name, word + 2, strlen(word + 2)) == 0)
				return wants_value(one);
		return false;
	}
	for (const char *letter = word + 1; *word == '-' && *letter != '\0'; letter++)
		for (one = parsed->argp->options; !is_end(one); one++)
			if (one->key == *letter && wants_value(one))
				return letter[1] == '\0';
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

		if (takes_next(*word) && word[1]) {
			word++;
			continue;
		}
		if (strncmp(*word, "--", 2) != 0 || is_option(*word + 2, bytes - 2))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)bytes - 2, *word + 2);
		nearest = sml_nearest(name, proposed_name, MOST_CHANGES);
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

/* ---- standard descriptors ---- */

void sml_standard_hold(void)
{
	/* Opened in the wrong direction, /dev/null fails like a closed descriptor. */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int sml_standard_finish(const char *command, int status)
{
	if (status != 0 || (fflush(stdout) == 0 && !ferror(stdout)))
		return status;
	fprintf(stderr, "switchml %s: standard output cannot be written: %s\n", command,
		strerror(errno));
	return 1;
}

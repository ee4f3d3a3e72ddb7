/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target without a fuzzer, built with any compiler: all cases of a packed file
 * (tools/corpus), or the case with the given name.
 *
 *	replay-TARGET FILE [NAME]
 *
 * The program prints the name of each case before it runs the case, so the last name is the
 * case that failed.
 */
#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static int nibble(char digit)
{
	const char *digits = "0123456789abcdef";
	const char *at = digit != '\0' ? strchr(digits, digit) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

/*
 * Decode hex into a buffer of exactly that size, so that a sanitizer detects reads beyond
 * the end.
 */
static uint8_t *decode(const char *hex, size_t *n_bytes)
{
	size_t n_digits = strcspn(hex, "\n");
	uint8_t *bytes = malloc(n_digits / 2);

	if (n_digits == 0 || n_digits % 2 != 0)
		errx(2, "no bytes, or half a byte: %.40s", hex);
	if (bytes == NULL)
		err(2, "malloc");
	*n_bytes = n_digits / 2;
	for (size_t i = 0; i < *n_bytes; i++) {
		int high = nibble(hex[2 * i]);
		int low = nibble(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			errx(2, "not hex: %.40s", hex + 2 * i);
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return bytes;
}

static void run_case(const char *name, const char *hex)
{
	size_t n_bytes;
	uint8_t *bytes = decode(hex, &n_bytes);

	printf("%s\n", name);
	fflush(stdout);
	LLVMFuzzerTestOneInput(bytes, n_bytes);
	free(bytes);
}

/* Returns whether the line was a case that ran. */
static bool run_line(char *line, const char *only)
{
	char *hex = strchr(line, ' ');

	if (line[0] == '#' || line[0] == '\n')
		return false;
	if (hex == NULL)
		errx(2, "no bytes: %.40s", line);
	*hex++ = '\0';
	if (only != NULL && strcmp(only, line) != 0)
		return false;
	run_case(line, hex);
	return true;
}

int main(int argc, char **argv)
{
	FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
	const char *only = argc > 2 ? argv[2] : NULL;
	unsigned n_run = 0;
	char *line = NULL;
	size_t size = 0;

	if (file == NULL)
		err(2, "%s", argc > 1 ? argv[1] : "usage: replay FILE [NAME]");
	while (getline(&line, &size, file) > 0)
		n_run += run_line(line, only);
	free(line);
	fclose(file);
	printf("%u cases\n", n_run);
	return n_run == 0;
}

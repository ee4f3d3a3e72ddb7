/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fuzz target without a fuzzer, for any compiler: runs the files named on the
 * command line, and all that lie in the directories named there.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_BYTES (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static unsigned n_run;

static void run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = malloc(MAX_BYTES);
	size_t n;

	if (file == NULL || bytes == NULL) {
		perror(path);
		exit(2);
	}
	n = fread(bytes, 1, MAX_BYTES, file);
	fclose(file);
	/* What is read beyond the end is found only where the end is. */
	bytes = realloc(bytes, n + (n == 0));
	LLVMFuzzerTestOneInput(bytes, n);
	free(bytes);
	n_run++;
}

static void run_directory(const char *path, DIR *directory)
{
	const struct dirent *entry;
	char name[4096];

	while ((entry = readdir(directory)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		run_file(name);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		DIR *directory = opendir(argv[i]);

		if (directory == NULL) {
			run_file(argv[i]);
			continue;
		}
		run_directory(argv[i], directory);
		closedir(directory);
	}
	printf("%u inputs\n", n_run);
	return n_run == 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of a job, set up by the environment, that can have all of the job's slots busy at once.
 * It makes CALLS sums at once, of int32s that fill PACKETS packets of LANES lanes, so that each
 *call takes a slot of the head stream and PACKETS of the data stream; and again, when its window
 *has grown by the first results. Before the second time, it says so and waits for the end of its
 *input. It prints a hash of all sums.
 *
 *	rank-of-slots CALLS PACKETS LANES
 */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <switchml.h>

#define TIMES 2u

static void sum_all(struct sml_context *job, int32_t *data, size_t calls, size_t elements)
{
	struct sml_request **requests = calloc(calls, sizeof(struct sml_request *));

	if (requests == NULL)
		err(1, "no memory");
	for (size_t i = 0; i < calls; i++)
		if (sml_allreduce(job, data + i * elements, data + i * elements, elements,
				  SML_INT32, SML_SUM, NULL, &requests[i]) < 0)
			errx(1, "%s", sml_error_text(job));
	if (sml_wait(requests, calls, -1, NULL) < 0)
		errx(1, "%s", sml_error_text(job));
	free(requests);
}

static uint64_t hash_of(const int32_t *data, size_t n)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ (uint32_t)data[i]) * 0x100000001b3;
	return hash;
}

int main(int argc, char **argv)
{
	size_t calls = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	size_t elements = argc == 4 ? strtoul(argv[2], NULL, 10) * strtoul(argv[3], NULL, 10) : 0;
	int32_t *data = calloc(calls * elements + 1, sizeof(*data));
	struct sml_info info = SML_INFO_INIT;
	struct sml_context *job;

	if (data == NULL || calls == 0 || elements == 0)
		errx(1, "usage: rank-of-slots CALLS PACKETS LANES");
	if (sml_open(&job, NULL) < 0)
		errx(1, "%s", sml_error_text(NULL));
	sml_get_info(job, &info);
	for (unsigned time = 0; time < TIMES; time++) {
		for (size_t i = 0; i < calls * elements; i++)
			data[i] = (int32_t)((uint32_t)(i + time + 1) * 2654435761u >> info.rank);
		if (time == TIMES - 1) {
			fputs("waits\n", stderr);
			while (getchar() != EOF)
				;
		}
		sum_all(job, data, calls, elements);
		printf("time %u: %016llx\n", time,
		       (unsigned long long)hash_of(data, calls * elements));
	}
	if (sml_close(job) < 0)
		errx(1, "the job could not be left in order");
	return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A SwitchML rank for bench/compare. SWITCHML_* variables set everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peer.h"
#include "core/names.h"
#include "switchml.h"

#define MOST_PIECES 256

static int fail(struct sml_context *job, const char **why)
{
	*why = sml_error_text(job);
	return -1;
}

static int allreduce(void *state, enum sml_type type, const void *input, void *output, size_t count,
		     const char **why)
{
	struct sml_context *job = state;

	return sml_allreduce(job, input, output, count, type, SML_SUM, NULL, NULL) ? fail(job, why)
										   : 0;
}

static int in_pieces(void *state, enum sml_type type, const void *input, void *output, size_t count,
		     unsigned pieces, const char **why)
{
	struct sml_context *job = state;
	struct sml_request *requests[MOST_PIECES];
	unsigned begun = 0;
	size_t bytes = sml_type_size(type);
	int error = 0, first;

	*why = "that many pieces are not foreseen";
	if (pieces > MOST_PIECES)
		return -1;
	for (; begun < pieces && !error; begun += !error) {
		size_t from = count * begun / pieces, to = count * (begun + 1) / pieces;

		error = sml_allreduce(job, (const char *)input + from * bytes,
				      (char *)output + from * bytes, to - from, type, SML_SUM, NULL,
				      &requests[begun]);
	}
	first = sml_wait(requests, begun, -1, NULL);
	return error || first ? fail(job, why) : 0;
}

int main(void)
{
	const char *wire = getenv("SWITCHML_WIRE");
	struct bench_library library = {.allreduce = allreduce, .in_pieces = in_pieces};
	struct sml_info info = SML_INFO_INIT;
	struct sml_context *job;
	int status;

	for (enum sml_wire i = SML_WIRE_DEFAULT; wire && i < SML_WIRE_GRADIENT; i++)
		if (strcmp(wire, sml_wire_name(i)) == 0)
			library.wire = i;
	if (sml_open(&job, NULL) < 0) {
		fprintf(stderr, "%s\n", sml_error_text(NULL));
		return 1;
	}
	library.state = job;
	sml_get_info(job, &info);
	library.rank = info.rank;
	library.n_ranks = info.world_size;
	library.n_stripes = info.stripes;
	status = bench_serve(&library);
	return sml_close(job) < 0 ? 1 : status;
}

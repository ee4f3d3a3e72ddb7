/* SPDX-License-Identifier: BSD-3-Clause */
/* The commands of bench/compare, executed with any library (peer.h). */
#include "bench/peer.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/bench/bench.h"
#include "core/names.h"

#define MOST_RUNS 4096

struct peer {
	const struct bench_library *library;
	FILE *in, *out;
	struct bench_case what;
	size_t n_outputs;
	size_t stride; /* bytes from one output to the next */
	void *input;
	uint8_t *outputs;
	unsigned runs; /* of the last run; each has an output to check */
};

static uint8_t *output_of(const struct peer *peer, unsigned run)
{
	return peer->outputs + run % peer->n_outputs * peer->stride;
}

/* An output that a call does not write must not look correct. */
static void scrub(struct peer *peer)
{
	memset(peer->outputs, 0xa5, peer->n_outputs * peer->stride);
}

static bool type_of(const char *name, enum sml_type *type)
{
	for (*type = SML_FLOAT32; *type <= SML_BFLOAT16; (*type)++)
		if (strcmp(name, sml_type_name(*type)) == 0)
			return true;
	return false;
}

static void prepare(struct peer *peer, const char *arguments)
{
	const struct bench_library *library = peer->library;
	size_t count, n_outputs;
	enum sml_type type;
	char name[16];
	uint32_t seed;

	if (sscanf(arguments, "%zu %zu %" SCNu32 " %15s", &count, &n_outputs, &seed, name) != 4 ||
	    count == 0 || n_outputs == 0 || !type_of(name, &type)) {
		fprintf(peer->out, "error prepare wants COUNT OUTPUTS SEED TYPE\n");
		return;
	}
	free(peer->input);
	free(peer->outputs);
	peer->n_outputs = n_outputs;
	peer->stride = (count * sml_type_size(type) + 63) / 64 * 64;
	peer->input = aligned_alloc(64, peer->stride);
	peer->outputs = aligned_alloc(64, n_outputs * peer->stride);
	peer->what = (struct bench_case){
		.type = type,
		.op = SML_SUM,
		.wire = library->wire,
		.float_sums = library->float_sums,
		.count = count,
		.n_ranks = (unsigned)library->n_ranks,
		.seed = seed,
	};
	if (!peer->input || !peer->outputs)
		errx(1, "no memory for %zu tensors of %zu elements", n_outputs + 1, count);
	bench_fill(&peer->what, (unsigned)library->rank, peer->input);
	scrub(peer);
	fprintf(peer->out, "ok\n");
}

/*
 * Answer with the end time of each run, preceded by that of the last warm-up, by the
 * machine's clock.
 */
static void run_calls(struct peer *peer, const char *arguments)
{
	static uint64_t ends[MOST_RUNS + 1];
	const struct bench_library *library = peer->library;
	unsigned warmups, runs, pieces;
	const char *why = "no reason given";

	if (sscanf(arguments, "%u %u %u", &warmups, &runs, &pieces) != 3 || runs > MOST_RUNS ||
	    runs > peer->n_outputs || pieces == 0 || peer->input == NULL) {
		fprintf(peer->out, "error run wants WARMUPS RUNS PIECES, after prepare\n");
		return;
	}
	if (pieces > 1 && library->in_pieces == NULL) {
		fprintf(peer->out, "error this library is measured with one call at a time only\n");
		return;
	}
	peer->runs = runs;
	ends[0] = sml_now_ns();
	for (unsigned i = 0; i < warmups + runs; i++) {
		unsigned measured = i < warmups ? 0 : i - warmups + 1;
		uint8_t *output = output_of(peer, measured ? measured - 1 : i);

		if (pieces > 1 ? library->in_pieces(library->state, peer->what.type, peer->input,
						    output, peer->what.count, pieces, &why)
			       : library->allreduce(library->state, peer->what.type, peer->input,
						    output, peer->what.count, &why)) {
			fprintf(peer->out, "error %s\n", why);
			return;
		}
		ends[measured] = sml_now_ns();
	}
	fprintf(peer->out, "ok");
	for (unsigned i = 0; i <= runs; i++)
		fprintf(peer->out, " %" PRIu64, ends[i]);
	fprintf(peer->out, "\n");
}

/*
 * Answer with the number of wrong elements and a hash of all results. A result that equals
 * the previous one bit for bit is as correct as that one: comparing is much cheaper.
 */
static void check(struct peer *peer)
{
	uint64_t wrong = 0, hash = 0, wrong_here = 0, hash_here = 0;
	size_t bytes = peer->what.count * sml_type_size(peer->what.type);

	for (unsigned i = 0; i < peer->runs; i++) {
		const uint8_t *output = output_of(peer, i);

		if (i == 0 || memcmp(output, output_of(peer, i - 1), bytes) != 0) {
			wrong_here = bench_count_wrong(&peer->what, output);
			hash_here = bench_hash(&peer->what, output);
		}
		wrong += wrong_here;
		hash = 31 * hash + hash_here;
	}
	if (peer->outputs)
		scrub(peer);
	fprintf(peer->out, "ok %" PRIu64 " %" PRIu64 "\n", wrong, hash);
}

static void serve(struct peer *peer)
{
	char line[256];

	while (fgets(line, sizeof(line), peer->in)) {
		if (strncmp(line, "prepare ", 8) == 0)
			prepare(peer, line + 8);
		else if (strncmp(line, "run ", 4) == 0)
			run_calls(peer, line + 4);
		else if (strncmp(line, "check", 5) == 0)
			check(peer);
		else
			fprintf(peer->out, "error no such command: %s", line);
		fflush(peer->out);
	}
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!path || strlen(path) >= sizeof(address.sun_path))
		errx(1, "BENCH_SOCKET is not set: bench/compare starts this program");
	memcpy(address.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "%s", path);
	return fd;
}

int bench_serve(const struct bench_library *library)
{
	struct peer peer = {.library = library};
	int fd = connect_to(getenv("BENCH_SOCKET"));

	peer.in = fdopen(fd, "r");
	peer.out = fdopen(dup(fd), "w");
	if (!peer.in || !peer.out)
		err(1, "the connection to bench/compare");
	fprintf(peer.out, "hello %d %d %d\n", library->rank, (int)getpid(), library->n_stripes);
	fflush(peer.out);
	serve(&peer);
	fclose(peer.in);
	fclose(peer.out);
	free(peer.input);
	free(peer.outputs);
	return 0;
}

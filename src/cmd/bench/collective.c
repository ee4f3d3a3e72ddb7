/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of `switchml bench`: how each is called, out of place and in place, what its
 * result must be, and how its bandwidth is computed. The sizes and factors are those of nccl-tests:
 *
 *	                input      result     size column     bus bandwidth
 *	all_reduce      count      count      count           2 (n - 1) / n
 *	all_gather      count      n x count  n x count       (n - 1) / n
 *	reduce_scatter  n x count  count      n x count       (n - 1) / n
 *	broadcast       count      count      count           1
 *	reduce          count      root:      count           1
 *	                           count
 *	barrier         -          -          0               -
 */
#include <string.h>

#include "cmd/bench/bench.h"

static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter",
				    "broadcast",  "reduce",	"barrier"};
_Static_assert(sizeof(names) / sizeof(names[0]) == BENCH_COLLECTIVES, "each has a name");

const char *bench_collective_name(enum bench_collective collective)
{
	return names[collective];
}

bool bench_collective_reduces(enum bench_collective collective)
{
	return collective == BENCH_ALL_REDUCE || collective == BENCH_REDUCE_SCATTER ||
	       collective == BENCH_REDUCE;
}

unsigned bench_parts(enum bench_collective collective, unsigned n_ranks)
{
	return collective == BENCH_ALL_GATHER || collective == BENCH_REDUCE_SCATTER ? n_ranks : 1;
}

double bench_bus_factor(enum bench_collective collective, unsigned n_ranks)
{
	double n = n_ranks;

	switch (collective) {
	case BENCH_ALL_REDUCE:
		return 2 * (n - 1) / n;
	case BENCH_ALL_GATHER:
	case BENCH_REDUCE_SCATTER:
		return (n - 1) / n;
	case BENCH_BROADCAST:
	case BENCH_REDUCE:
	case BENCH_BARRIER:
		break;
	}
	return 1;
}

/* The same case with the elements of one rank's input. */
static struct bench_case input_of(const struct bench_case *this)
{
	struct bench_case input = *this;

	if (this->collective == BENCH_REDUCE_SCATTER)
		input.count *= this->n_ranks;
	return input;
}

void bench_collective_fill(const struct bench_case *this, unsigned rank, void *input)
{
	const struct bench_case whole = input_of(this);

	bench_fill(&whole, rank, input);
}

static size_t part_bytes(const struct bench_case *this)
{
	return this->count * sml_type_size(this->type);
}

/* What is copied for a call in place is not timed. */
static void prepare(const struct bench_case *this, unsigned rank, struct bench_buffers *buffers)
{
	size_t part = part_bytes(this);
	char *output = buffers->output;

	buffers->send = buffers->input;
	buffers->recv = output;
	if (this->collective == BENCH_BROADCAST) {
		if (rank == this->root && buffers->place == BENCH_OUT_OF_PLACE)
			buffers->recv = buffers->input;
		else if (rank == this->root)
			memcpy(output, buffers->input, part);
		return;
	}
	if (buffers->place == BENCH_OUT_OF_PLACE)
		return;
	buffers->send = output;
	if (this->collective == BENCH_ALL_GATHER)
		buffers->send = output + part * rank;
	if (this->collective == BENCH_REDUCE_SCATTER)
		buffers->recv = output + part * rank;
	memcpy((void *)(uintptr_t)buffers->send, buffers->input,
	       input_of(this).count * sml_type_size(this->type));
}

static int make(struct sml_context *job, const struct bench_case *this,
		const struct bench_buffers *buffers)
{
	struct sml_options how = SML_OPTIONS_INIT;

	how.wire = this->wire;
	switch (this->collective) {
	case BENCH_ALL_REDUCE:
		return sml_allreduce(job, buffers->send, buffers->recv, this->count, this->type,
				     this->op, &how, NULL);
	case BENCH_ALL_GATHER:
		return sml_allgather(job, buffers->send, buffers->recv, this->count, this->type,
				     NULL, NULL);
	case BENCH_REDUCE_SCATTER:
		return sml_reduce_scatter(job, buffers->send, buffers->recv, this->count,
					  this->type, this->op, &how, NULL);
	case BENCH_BROADCAST:
		return sml_broadcast(job, buffers->recv, this->count, this->type, (int)this->root,
				     NULL, NULL);
	case BENCH_REDUCE:
		return sml_reduce(job, buffers->send, buffers->recv, this->count, this->type,
				  this->op, (int)this->root, &how, NULL);
	case BENCH_BARRIER:
		break;
	}
	return sml_barrier(job, NULL, NULL);
}

int bench_collective_call(struct sml_context *job, const struct bench_case *this,
			  struct bench_buffers *buffers, uint64_t *time_ns)
{
	struct sml_info info = SML_INFO_INIT;
	uint64_t began;
	int error;

	sml_get_info(job, &info);
	prepare(this, (unsigned)info.rank, buffers);
	began = sml_now_ns();
	error = make(job, this, buffers);
	*time_ns = sml_now_ns() - began;
	return error;
}

uint64_t bench_collective_wrong(const struct bench_case *this, unsigned rank, const void *result)
{
	struct bench_case mine = *this;
	uint64_t wrong = 0;

	switch (this->collective) {
	case BENCH_ALL_REDUCE:
		return bench_count_wrong(this, result);
	case BENCH_REDUCE_SCATTER:
		mine.first = this->count * rank;
		return bench_count_wrong(&mine, result);
	case BENCH_ALL_GATHER:
		for (unsigned r = 0; r < this->n_ranks; r++)
			wrong += bench_count_unlike(this, r,
						    (const char *)result + part_bytes(this) * r);
		return wrong;
	case BENCH_BROADCAST:
		return bench_count_unlike(this, this->root, result);
	case BENCH_REDUCE:
		return rank == this->root ? bench_count_wrong(this, result) : 0;
	case BENCH_BARRIER:
		break;
	}
	return 0;
}

uint64_t bench_collective_hash(const struct bench_case *this, const void *result)
{
	struct bench_case whole = *this;

	/* Each rank has another part, or only root has a result. */
	if (this->collective == BENCH_REDUCE_SCATTER || this->collective == BENCH_REDUCE)
		return 0;
	whole.count *= bench_parts(this->collective, this->n_ranks);
	return bench_hash(&whole, result);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of a rank of build/tests/chaos --chaos-ranks: random calls, which are the same on all
 * members, and whose results all of them check (sums.h).
 */
#include "chaos/sums.h"

#include <stdio.h>
#include <string.h>

#include "sim/gen.h"

/* The first of a membership are small, so that one that lives shortly has some. */
#define SMALL_SUMS  4
#define SMALL_BYTES 4096

/* The n-th set bit, counted from 0. */
static unsigned nth_bit(unsigned bits, unsigned n)
{
	for (; n > 0; n--)
		bits &= bits - 1;
	return (unsigned)__builtin_ctz(bits);
}

/* The same on all members. */
static struct bench_case choose_case(const struct chaos_sums *sums, const struct chaos_order *order,
				     uint32_t number)
{
	const struct bench_options *options = &sums->options->bench;
	uint64_t most = options->max_bytes;
	struct bench_case this = {.collective = BENCH_ALL_REDUCE, .members = order->members};
	static struct gen gen; /* large */

	gen_from_seed(&gen,
		      options->seed ^ (uint64_t)order->membership << 32 ^ (uint64_t)number << 8);
	this.seed = (uint32_t)gen_u64(&gen);
	this.type = (enum sml_type)nth_bit(
		options->types, gen_below(&gen, (unsigned)__builtin_popcount(options->types)));
	this.op = (enum sml_op)nth_bit(options->ops,
				       gen_below(&gen, (unsigned)__builtin_popcount(options->ops)));
	if (!bench_type_has_op(this.type, this.op))
		this.op = SML_SUM;
	this.wire = options->wire;
	this.n_ranks = (unsigned)order->world_size;
	if (number < SMALL_SUMS && most > SMALL_BYTES)
		most = SMALL_BYTES > options->min_bytes ? SMALL_BYTES : options->min_bytes;
	/* All sizes are about as frequent on a scale of powers of two. */
	while (most > 2 * options->min_bytes && gen_chance(&gen, 3, 4))
		most /= 2;
	most -= gen_below(&gen, (uint32_t)(most / 2 + 1));
	this.count = most / sml_type_size(this.type);
	this.count += this.count == 0;
	return this;
}

/* Do all members have the same bits? The first one that comes here leaves its hash. */
static bool has_same_bits(const struct chaos_sums *sums, uint32_t membership, uint32_t number,
			  uint64_t hash)
{
	uint64_t *place = &sums->memory->results[number % CHAOS_SUMS];
	uint64_t which = (uint64_t)(membership * 65536 + number) << 32;
	uint64_t mine = which | (uint32_t)(hash ^ hash >> 32);
	uint64_t found = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	while (found >> 32 != which >> 32)
		if (__atomic_compare_exchange_n(place, &found, mine, false, __ATOMIC_ACQ_REL,
						__ATOMIC_ACQUIRE))
			return true;
	return found == mine;
}

int chaos_make_sum(struct chaos_sums *sums, struct sml_context *context,
		   const struct chaos_order *order, uint32_t number)
{
	const struct bench_case this = choose_case(sums, order, number);
	uint64_t unused, wrong;
	int error;

	sums->buffers.place = number % 3 == 2 ? BENCH_IN_PLACE : BENCH_OUT_OF_PLACE;
	bench_collective_fill(&this, (unsigned)order->rank, sums->buffers.input);
	/* Elements that a call does not write must look wrong. */
	memset(sums->buffers.output, 0xa5, bench_bytes(&this));
	error = bench_collective_call(context, &this, &sums->buffers, &unused);
	if (error)
		return error;
	wrong = bench_count_wrong(&this, sums->buffers.recv);
	wrong += !has_same_bits(sums, order->membership, number,
				bench_hash(&this, sums->buffers.recv));
	if (wrong > 0)
		fprintf(stderr,
			"chaos: rank %d (process %u) of membership %u: sum %u of %zu %s "
			"has %llu wrong elements\n",
			order->rank, order->members[order->rank], order->membership, number,
			this.count, bench_type_name(this.type), (unsigned long long)wrong);
	__atomic_fetch_add(&sums->memory->sums, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->memory->wrong, wrong > 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&sums->memory->progress[sums->place], 1, __ATOMIC_RELAXED);
	return 0;
}

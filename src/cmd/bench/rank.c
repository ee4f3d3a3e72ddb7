/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank of `switchml bench`: for each type, operation and size, it times some calls, checks
 * others, and shares the results with all ranks, so that rank 0 can report the slowest rank's time
 * and the sum of all wrong elements.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench/bench.h"

/* A rank's results of a case, for the others: all its rounds so far. Sent as bytes. */
struct share {
	uint64_t time_ns;	    /* of all measured calls */
	uint64_t measured, checked; /* calls */
	uint64_t is_last;	    /* from rank 0: no round follows */
	uint64_t wrong;
	uint64_t hash; /* of all checked results */
	uint64_t wire_tx_bytes;
	uint64_t retransmits, retransmits_fast;
	struct bench_times times;
};

struct rank {
	const struct bench_options *options;
	struct sml_context *job;
	unsigned number, n_ranks;
	struct bench_buffers buffers; /* max_bytes each */
	struct share *all;	      /* of n_ranks */
	struct bench_report *report;  /* rank 0's */
	uint64_t wrong, calls;
};

static struct sml_counters counters_of(struct sml_context *job)
{
	struct sml_counters counters = SML_COUNTERS_INIT;

	sml_get_counters(job, -1, &counters, NULL);
	return counters;
}

/* One call. */
static int time_call(struct rank *rank, const struct bench_case *this, enum bench_placement place,
		     uint64_t *time_ns)
{
	int error;

	rank->buffers.place = place;
	error = bench_collective_call(rank->job, this, &rank->buffers, time_ns);
	rank->calls++;
	if (rank->report)
		bench_report_progress(rank->report, this, place, rank->calls);
	return error;
}

static int warm_up(struct rank *rank, const struct bench_case *this, enum bench_placement place)
{
	uint64_t unused = 0;
	int error = 0;

	bench_collective_fill(this, rank->number, rank->buffers.input);
	for (unsigned i = 0; i < rank->options->warmups && !error; i++)
		error = time_call(rank, this, place, &unused);
	return error;
}

static int measure(struct rank *rank, const struct bench_case *this, enum bench_placement place,
		   struct share *mine)
{
	struct sml_counters before, after;
	uint64_t time_ns;
	int error;

	bench_collective_fill(this, rank->number, rank->buffers.input);
	error = sml_barrier(rank->job, NULL, NULL);
	rank->calls++;
	before = counters_of(rank->job);
	for (unsigned i = 0; i < rank->options->iterations && !error; i++) {
		error = time_call(rank, this, place, &time_ns);
		mine->time_ns += time_ns;
		bench_times_add(&mine->times, time_ns);
	}
	after = counters_of(rank->job);
	mine->measured += rank->options->iterations;
	mine->wire_tx_bytes += after.bytes_sent - before.bytes_sent;
	mine->retransmits += after.retransmits_timeout - before.retransmits_timeout +
			     after.retransmits_fast - before.retransmits_fast;
	mine->retransmits_fast += after.retransmits_fast - before.retransmits_fast;
	return error;
}

/* Calls with fresh inputs, every element of every result compared. */
static int check(struct rank *rank, const struct bench_case *this, enum bench_placement place,
		 struct share *mine)
{
	struct bench_case fresh = *this;
	uint64_t unused = 0;
	int error;

	for (unsigned i = 0; i < rank->options->checks; i++) {
		fresh.seed = this->seed + 1 + 2 * (uint32_t)mine->checked++ + (unsigned)place;
		bench_collective_fill(&fresh, rank->number, rank->buffers.input);
		/* Elements that a call does not write must look wrong. */
		memset(rank->buffers.output, 0xa5, bench_bytes(&fresh));
		error = time_call(rank, &fresh, place, &unused);
		if (error)
			return error;
		mine->wrong += bench_collective_wrong(&fresh, rank->number, rank->buffers.recv);
		mine->hash = 31 * mine->hash + bench_collective_hash(&fresh, rank->buffers.recv);
	}
	return 0;
}

/*
 * Adds up all ranks' results. Results that are correct but differ between ranks are wrong, too.
 * *is_last is the same on all ranks.
 */
static int exchange(struct rank *rank, const struct share *mine, struct bench_result *result,
		    bool *is_last)
{
	static struct bench_times times;
	const struct share *all = rank->all;
	uint64_t slowest_ns = 0;
	int error = sml_allgather(rank->job, mine, rank->all, sizeof(*mine), SML_BYTE, NULL, NULL);

	rank->calls++;
	if (error)
		return error;
	*result = (struct bench_result){0};
	times = (struct bench_times){0};
	for (unsigned i = 0; i < rank->n_ranks; i++) {
		if (all[i].time_ns > slowest_ns)
			slowest_ns = all[i].time_ns;
		if (all[i].wire_tx_bytes > result->wire_tx_bytes)
			result->wire_tx_bytes = all[i].wire_tx_bytes;
		bench_times_merge(&times, &all[i].times);
		result->retransmits += all[i].retransmits;
		result->retransmits_fast += all[i].retransmits_fast;
		result->wrong += all[i].wrong + (all[i].hash != all[0].hash);
	}
	result->time_us = (double)slowest_ns / (double)mine->measured / 1e3; /* 1 at least */
	result->wire_tx_bytes /= mine->measured;
	result->p50_us = bench_times_percentile(&times, 50);
	result->p90_us = bench_times_percentile(&times, 90);
	result->p99_us = bench_times_percentile(&times, 99);
	result->longest_us = bench_times_percentile(&times, 100);
	*is_last = all[0].is_last;
	if (*is_last)
		rank->wrong += result->wrong;
	return 0;
}

/* Rounds of measured and checked calls: one, or with --seconds as many as fit in rank 0's time. */
static int run_rounds(struct rank *rank, const struct bench_case *this, enum bench_placement place,
		      struct bench_result *result)
{
	uint64_t until_ns = sml_now_ns() + rank->options->seconds * 1000000000ull;
	struct share mine = {0};
	int error = warm_up(rank, this, place);
	bool is_last = false;

	while (!error && !is_last) {
		error = measure(rank, this, place, &mine);
		if (!error)
			error = check(rank, this, place, &mine);
		mine.is_last = sml_now_ns() >= until_ns || bench_must_end();
		if (!error)
			error = exchange(rank, &mine, result, &is_last);
		if (!error && !is_last)
			usleep(1000 * rank->options->pause_ms);
	}
	return error;
}

static int run_case(struct rank *rank, const struct bench_case *this)
{
	struct bench_result results[BENCH_PLACES];
	int error = 0;

	for (enum bench_placement place = 0; place < BENCH_PLACES && !error; place++)
		error = run_rounds(rank, this, place, &results[place]);
	if (!error && rank->report)
		bench_report_row(rank->report, this, results);
	return error;
}

static int run_sizes(struct rank *rank, enum sml_type type, enum sml_op op)
{
	const struct bench_options *options = rank->options;
	struct bench_case this = {
		.collective = options->collective,
		.root = options->root,
		.type = type,
		.op = op,
		.wire = options->wire,
		.n_ranks = rank->n_ranks,
		.seed = options->seed,
	};
	uint64_t bytes = options->min_bytes ? options->min_bytes : sml_type_size(type);
	uint64_t least = sml_type_size(type) * bench_parts(options->collective, rank->n_ranks);
	int error = 0;

	if (options->collective == BENCH_BARRIER)
		return run_case(rank, &this);

	while (bytes <= options->max_bytes && !error) {
		this.count = bytes / least;
		if (this.count > 0)
			error = run_case(rank, &this);
		bytes = options->step_bytes ? bytes + options->step_bytes : bytes * options->factor;
	}
	return error;
}

static int run_all(struct rank *rank)
{
	const struct bench_options *options = rank->options;
	/* Without an operation, once is enough. */
	unsigned ops = bench_collective_reduces(options->collective) ? options->ops : 1u << SML_SUM;
	int error = 0;

	for (enum sml_type type = SML_FLOAT32; type < SML_TYPES; type++) {
		for (enum sml_op op = SML_SUM; op <= SML_MIN && !error; op++) {
			if (options->types >> type & 1 && ops >> op & 1 &&
			    bench_type_has_op(type, op))
				error = run_sizes(rank, type, op);
		}
	}
	return error;
}

static void complain(const struct sml_config *config, const struct sml_context *job)
{
	fprintf(stderr, "switchml bench: rank %d: %s\n", config->rank, sml_error_text(job));
}

/* The counters include every call, a moment after it has returned, even if its switch has died. */
static bool are_all_counted(const struct rank *rank)
{
	uint64_t until_ns = sml_now_ns() + 20000000000, counted;

	while ((counted = counters_of(rank->job).tensors) != rank->calls && sml_now_ns() < until_ns)
		usleep(1000);
	if (counted != rank->calls)
		fprintf(stderr,
			"switchml bench: rank %u made %llu calls, but its counters say %llu\n",
			rank->number, (unsigned long long)rank->calls, (unsigned long long)counted);
	return counted == rank->calls;
}

/* Called with an open job and allocated memory. */
static int report_all(struct rank *rank, const struct sml_config *config)
{
	int error;

	if (rank->number == 0) {
		rank->report = bench_report_open(rank->options, rank->n_ranks);
		if (!rank->report)
			return -1;
	}
	error = run_all(rank);
	if (error)
		complain(config, rank->job);
	else if (!are_all_counted(rank))
		error = -1;
	if (rank->report && bench_report_close(rank->report, error == 0) < 0)
		error = -1;
	return error;
}

/* Tell whoever wants to know how far the ranks are. */
static void give_news(int news, const struct sml_config *config, const char *what)
{
	if (news >= 0 && write(news, "", 1) != 1)
		fprintf(stderr, "switchml bench: rank %d: cannot tell the parent that %s: %s\n",
			config->rank, what, strerror(errno));
}

int bench_rank(const struct bench_options *options, const struct sml_config *config)
{
	struct rank rank = {.options = options};
	struct sml_info info = SML_INFO_INIT;
	int error, closed;

	rank.buffers.input = malloc(options->max_bytes + 1);
	rank.buffers.output = malloc(options->max_bytes + 1);
	if (!rank.buffers.input || !rank.buffers.output) {
		fprintf(stderr,
			"switchml bench: rank %d: no memory for two tensors of %llu bytes: lower "
			"--maxbytes\n",
			config->rank, (unsigned long long)options->max_bytes);
		error = -1;
		goto free_memory;
	}
	error = sml_open(&rank.job, config);
	if (error) {
		complain(config, NULL);
		goto free_memory;
	}
	give_news(options->news, config, "the job has begun");
	sml_get_info(rank.job, &info);
	rank.number = (unsigned)info.rank;
	rank.n_ranks = (unsigned)info.world_size;
	rank.all = calloc(rank.n_ranks, sizeof(*rank.all));
	if (rank.all == NULL)
		fprintf(stderr, "switchml bench: rank %d: no memory\n", config->rank);
	error = rank.all ? report_all(&rank, config) : -1;
	give_news(options->news, config, "all calls are made");
	closed = sml_close(rank.job);
	if (closed && !error) {
		fprintf(stderr, "switchml bench: rank %d could not leave the job: %s\n",
			config->rank, sml_strerror(closed));
		error = closed;
	}
free_memory:
	free(rank.all);
	free(rank.buffers.output);
	free(rank.buffers.input);
	return error || rank.wrong ? 1 : 0;
}

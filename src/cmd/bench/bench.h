/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `switchml bench` share. */
#ifndef SML_CMD_BENCH_BENCH_H
#define SML_CMD_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "switchml.h"

/* ---- collective.c: what is measured ---- */

enum bench_collective {
	BENCH_ALL_REDUCE,
	BENCH_ALL_GATHER,
	BENCH_REDUCE_SCATTER,
	BENCH_BROADCAST,
	BENCH_REDUCE,
	BENCH_BARRIER
};
#define BENCH_COLLECTIVES (BENCH_BARRIER + 1)

/* ---- options.c: the command line ---- */

/* All local workers use the same switch, which takes at most this many. */
#define BENCH_MAX_LOCAL 64

struct bench_options {
	uint64_t min_bytes, max_bytes;
	uint64_t step_bytes; /* 0 if multiplied by a factor */
	unsigned factor;
	unsigned types; /* bit t: enum sml_type t */
	unsigned ops;	/* bit o: enum sml_op o */
	unsigned iterations, warmups, checks;
	unsigned seconds;  /* for which iterations and checks are repeated; 0 for no repetition */
	unsigned pause_ms; /* after each repetition */
	unsigned local_workers; /* 0: this process is one rank */
	enum bench_collective collective;
	unsigned root;	  /* of broadcasts and reduces */
	bool nccl_tests;  /* the table is nccl-tests' */
	bool percentiles; /* the table has them, too */
	uint32_t seed;
	enum sml_wire wire;
	const char *switch_address;
	const char *job;
	const char *json;
	unsigned drop, duplicate, reorder; /* packets per million */
	/* If not given. */
	uint64_t default_max;
	unsigned default_types;
	/* A worker writes a byte there when its job has begun, and when its calls are made; -1. */
	int news;
};

/* ---- options.c ---- */

/* With a struct bench_options as input. */
struct argp;
extern const struct argp bench_argp;
struct bench_options bench_defaults(void);

/* ---- numbers.c: inputs, and their expected results ---- */

/* One call: everything that determines its result. */
struct bench_case {
	enum bench_collective collective;
	unsigned root;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	bool float_sums; /* of another library: added in their type, in any order */
	size_t count;	 /* the call's argument */
	size_t first;	 /* the place of a result's first element in the reduced vector */
	unsigned n_ranks;
	/* The process whose input each rank has; NULL if each rank has its own. */
	const uint32_t *members;
	uint32_t seed;
};

/* Number types. */
const char *bench_type_name(enum sml_type type);
bool bench_type_has_op(enum sml_type type, enum sml_op op);

/* A rank's input. */
void bench_fill(const struct bench_case *this, unsigned rank, void *elements);

/* The number of wrong elements in a result. */
uint64_t bench_count_wrong(const struct bench_case *this, const void *result);

/* The number of elements that are not those of this rank's input. */
uint64_t bench_count_unlike(const struct bench_case *this, unsigned rank, const void *elements);

/* Equal on two ranks if their results have the same bits. */
uint64_t bench_hash(const struct bench_case *this, const void *result);

/* ---- bench.c ---- */

/* Complete the options, and make the configuration. 0, or the exit status after a message. */
int bench_prepare(struct bench_options *options, struct sml_config *config);

/* ---- rank.c: one rank's work ---- */

/* Measure everything as one rank of a job. Returns the exit status. */
int bench_rank(const struct bench_options *options, const struct sml_config *config);

/* From now on, SIGINT and SIGTERM tell this process to end. flags: for sigaction(). */
void bench_end_by_signals(int flags);

/* Has a signal told us to end before the time is over? */
bool bench_must_end(void);

/* For the parent of local workers: from now on, such a signal also ends rank 0; and no longer. */
void bench_pass_on_the_end(pid_t rank_0);
void bench_keep_the_end(void);

/* ---- local.c: workers as processes of this machine ---- */

/* Start them, and a switch unless one is named. Returns the exit status. */
int bench_local(const struct bench_options *options, const struct sml_config *config);

enum bench_placement { BENCH_OUT_OF_PLACE = 0, BENCH_IN_PLACE = 1, BENCH_PLACES = 2 };

/* ---- collective.c ---- */

const char *bench_collective_name(enum bench_collective collective);
bool bench_collective_reduces(enum bench_collective collective);

/* The larger of input and result is that many times count. */
unsigned bench_parts(enum bench_collective collective, unsigned n_ranks);

/* Bus bandwidth divided by size/time. */
double bench_bus_factor(enum bench_collective collective, unsigned n_ranks);

/* Of the larger one of input and result. */
static inline uint64_t bench_bytes(const struct bench_case *this)
{
	return (uint64_t)this->count * bench_parts(this->collective, this->n_ranks) *
	       sml_type_size(this->type);
}

/* This rank's input and output, and what the last call made of them. */
struct bench_buffers {
	enum bench_placement place;
	void *input, *output;
	const void *send;
	void *recv;
};

void bench_collective_fill(const struct bench_case *this, unsigned rank, void *input);

/* Sets *time_ns, and the buffers' send and recv. */
int bench_collective_call(struct sml_context *job, const struct bench_case *this,
			  struct bench_buffers *buffers, uint64_t *time_ns);

/* The number of wrong elements that this rank has received. */
uint64_t bench_collective_wrong(const struct bench_case *this, unsigned rank, const void *result);
uint64_t bench_collective_hash(const struct bench_case *this, const void *result);

/* ---- times.c: how the times of calls are distributed ---- */

#define BENCH_BUCKETS 1280

struct bench_times {
	uint64_t n, longest_ns;
	uint32_t n_in[BENCH_BUCKETS];
};

void bench_times_add(struct bench_times *times, uint64_t ns);
void bench_times_merge(struct bench_times *to, const struct bench_times *from);

/* In microseconds. */
double bench_times_percentile(const struct bench_times *times, double percent);

/* ---- report.c: the table and the JSON file ---- */

/* The result of one case in one place, over all ranks. */
struct bench_result {
	double time_us;	       /* one call, the slowest rank's average */
	double p50_us, p90_us; /* of the calls of all ranks */
	double p99_us, longest_us;
	uint64_t wrong;		   /* elements, the sum over all ranks */
	uint64_t wire_tx_bytes;	   /* UDP payload that the busiest rank sent for one call */
	uint64_t retransmits;	   /* in all measured calls, the sum over all ranks */
	uint64_t retransmits_fast; /* those of them without a timeout */
};

struct bench_report;

struct bench_report *bench_report_open(const struct bench_options *options, unsigned n_ranks);
void bench_report_row(struct bench_report *report, const struct bench_case *this,
		      const struct bench_result results[BENCH_PLACES]);
/*
 * Print the last lines, write the JSON file. finished: no call failed, so all
 * rows are there. 0, or a negative errno of the file's.
 */
int bench_report_close(struct bench_report *report, bool finished);

/* A line about a long run on standard error, if that is a terminal. */
void bench_report_progress(struct bench_report *report, const struct bench_case *this,
			   enum bench_placement place, uint64_t n_calls);

/* ---- nccl.c ---- */

void bench_nccl_header(const struct bench_options *options);
/* bandwidths: algbw and busbw in GB/s. */
void bench_nccl_row(const struct bench_options *options, const struct bench_case *this,
		    const struct bench_result results[BENCH_PLACES],
		    const double bandwidths[BENCH_PLACES][2]);
void bench_nccl_footer(const struct bench_options *options, uint64_t wrong, double busbw);

#endif

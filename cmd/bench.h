/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `switchml bench` share. */
#ifndef SML_CMD_BENCH_H
#define SML_CMD_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "switchml.h"

/* ---- bench_options.c: the command line ---- */

struct bench_options {
	uint64_t min_bytes, max_bytes;
	uint64_t step_bytes; /* 0: multiply by factor */
	uint64_t factor;
	unsigned types; /* bit t: enum sml_type t */
	unsigned ops;	/* bit o: enum sml_op o */
	unsigned iterations, warmups, checks;
	unsigned seconds;	/* for which iterations and checks are repeated; 0: no repetition */
	unsigned local_workers; /* 0: this process is one rank */
	uint32_t seed;
	enum sml_wire wire; /* DEFAULT: int32; for double, its own wire */
	const char *switch_address;
	const char *job;
	const char *json;
	unsigned drop, duplicate, reorder; /* packets per million */
	bool chaos;			   /* the switch is killed repeatedly */
};

/* ---- bench_chaos.c: a switch that is killed and started again ---- */

/* Returns when the first switch can be used. Returns a process, or -1 after a message. */
pid_t bench_chaos_start(const struct bench_options *options, uint16_t *port);
void bench_chaos_stop(pid_t pid);

/* ---- bench_options.c ---- */

void bench_parse(int argc, char **argv, struct bench_options *options);

/* ---- bench_numbers.c: inputs, and their expected all-reduce ---- */

/* One all-reduce: everything that determines its result. */
struct bench_case {
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	bool float_sums; /* of another library: added as float32, in any order */
	size_t count;
	unsigned n_ranks;
	uint32_t seed;
};

/* Number types. */
#define BENCH_TYPES (SML_BOOL + 1)

const char *bench_type_name(enum sml_type type);
const char *bench_op_name(enum sml_op op);
bool bench_type_has_op(enum sml_type type, enum sml_op op);

/* A rank's input. */
void bench_fill(const struct bench_case *this, unsigned rank, void *elements);

/* The number of wrong elements in a result. */
uint64_t bench_count_wrong(const struct bench_case *this, const void *result);

/* Equal on two ranks if their results have the same bits. */
uint64_t bench_hash(const struct bench_case *this, const void *result);

/* ---- bench_rank.c: one rank's work ---- */

/* Measure everything as one rank of a job. Returns the exit status. */
int bench_rank(const struct bench_options *options, const struct sml_config *config);

/* ---- bench.c ---- */

/* Has a signal told us to end before the seconds of --seconds are over? */
bool bench_is_told_to_end(void);

/* For the parent of local workers: from now on, such a signal also ends rank 0; and no longer. */
void bench_pass_on_the_end(pid_t rank_0);
void bench_keep_the_end(void);

/* ---- bench_local.c: workers as processes of this machine ---- */

/* Start them, and a switch unless one is named. Returns the exit status. */
int bench_local(const struct bench_options *options, const struct sml_config *config);

/* ---- bench_report.c: the table and the JSON file ---- */

enum bench_place { BENCH_OUT_OF_PLACE = 0, BENCH_IN_PLACE = 1, BENCH_PLACES = 2 };

/* The result of one case in one place, over all ranks. */
struct bench_result {
	double time_us;		   /* one call, the slowest rank's average */
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

#endif

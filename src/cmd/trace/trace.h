/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `switchml trace` share. */
#ifndef SML_CMD_TRACE_TRACE_H
#define SML_CMD_TRACE_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "switchml.h"

/* One use of a slot, or a call: what all ranks did together. Times are this rank's, in us. */
struct trace_use {
	uint64_t what;	/* epoch and use; of a call: 0 */
	uint64_t where; /* stripe and slot; of a call: TRACE_CALL */
	uint32_t call;
	bool was_last; /* of a slot's use: this rank's contribution completed it */
	double begin, end;
	/* Once all ranks' uses are together: its rank, and the one that was last. */
	struct trace_rank *rank, *last; /* last: NULL if no trace says it */
};

#define TRACE_CALL UINT64_MAX

/* A rank's file, and what it was found to be. */
struct trace_rank {
	const char *path;
	unsigned rank;
	char *job;
	struct trace_use *uses; /* sorted by trace_compare() */
	size_t n_uses;
	double offset, error; /* its clock + offset is the first file's; off by at most error */
	bool drifts;	      /* no single offset fits */
	unsigned n_last;      /* calls in which the others waited for it */
	double waited;	      /* how long, in us */
};

struct trace_options {
	const char *output;
	struct trace_rank *ranks;
	unsigned n;
	/* Of all ranks, on one clock, sorted by trace_compare(): trace_find_waits() finds them. */
	struct trace_use *uses;
	size_t n_uses;
};

/* A rank's file. NULL after a message. */
json_t *trace_load(const char *path);

bool trace_has_phase(const json_t *event, const char *phase);
double trace_time_of(const json_t *event);

/*
 * Write the merged trace. The ranks' files are read once more. Returns 0, or -1 after a message;
 * then no file is left.
 */
int trace_write(const struct trace_options *options);

/*
 * Reads an event that other ranks have, too. Returns false if it is not such an event. The end of a
 * call is set later.
 */
bool trace_read_use(const json_t *event, struct trace_use *use);

/* By where and what: the same use on two ranks is equal. */
int trace_compare(const void *a, const void *b);

/*
 * Sets offset and error of `rank`, whose uses are compared with those of `first`. False if they
 * have nothing in common.
 */
bool trace_set_clock(struct trace_rank *rank, const struct trace_rank *first);

/*
 * Sets uses, and the ranks' n_last and waited, the clocks being set. Returns the number of calls
 * that all ranks have, or -1 after a message.
 */
int trace_find_waits(struct trace_options *options);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared test vectors (tests/vectors/slot.txt says how they are written):
 * a reader that any dataplane's test can use.
 */
#ifndef SML_TESTS_VECTORS_H
#define SML_TESTS_VECTORS_H

#include <stdio.h>

#include "core/pool.h"

#define VECTOR_JOB 7
/* Of a leaf: its job's number and rank at the parent. */
#define VECTOR_PARENT_JOB  0x5a000007
#define VECTOR_PARENT_RANK 5
#define VECTOR_EPOCH	   1
#define VECTOR_LANES	   64

enum vector_kind { VECTOR_WORLD, VECTOR_AGE, VECTOR_SEND, VECTOR_END };

struct vector {
	enum vector_kind kind;
	unsigned line;
	struct sml_pool_rules rules; /* WORLD */
	uint32_t age;		     /* AGE */
	/* SEND: a contribution, or a result of the parent */
	bool is_result;
	uint8_t packet[SML_HEADER_BYTES + 4 * VECTOR_LANES] __attribute__((aligned(8)));
	uint32_t length;
	enum sml_verdict verdict;
	bool has_ticket; /* a result is sent */
	bool goes_up;	 /* a contribution is sent to the parent */
	uint32_t ticket, chunk;
	uint8_t last_rank;
	uint32_t n_lanes;
	uint32_t lanes[VECTOR_LANES]; /* host order */
};

/* The header's fields that an answer must have: of a result, or of a contribution to the parent. */
bool vector_header_is_right(const struct vector *vector, const struct sml_pool_rules *rules,
			    const struct sml_header *header);

/*
 * The next vector of a file. rules: of the last WORLD, for the packets' cookies
 * and tag. A line that cannot be read ends the test with its number.
 */
void vector_next(FILE *file, const struct sml_pool_rules *rules, unsigned *line,
		 struct vector *vector);

#endif

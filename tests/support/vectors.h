/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared test vectors (tests/vectors/slot.txt says how they are written):
 * any dataplane's test runs them with its own steps.
 */
#ifndef SML_TESTS_VECTORS_H
#define SML_TESTS_VECTORS_H

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

/* A pool of a world. Returns its memory, for free(). */
void *vector_pool_open(struct sml_pool *pool, const struct sml_pool_rules *rules);

/* Every slot of a pool has served the uses before this one. */
void vector_pool_age(struct sml_pool *pool, uint32_t use);

/* What a dataplane's test does with a vector of each kind. */
struct vector_steps {
	void (*begin_world)(void *self, struct vector *vector);
	void (*age)(void *self, const struct vector *vector);
	void (*send)(void *self, struct vector *vector);
	bool floats; /* the switch adds floats; otherwise, worlds with them are left out */
};

/*
 * Do all vectors of the file that SML_VECTORS names, in their order. A line that cannot be read
 * ends the test with its number.
 */
void vectors_run(const struct vector_steps *steps, void *self);

#endif

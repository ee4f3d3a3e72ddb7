/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared test vectors against the user-space pool. */
#include <stdlib.h>

#include "core/element.h"
#include "support/test.h"
#include "support/vectors.h"

struct run {
	struct sml_pool pool;
	void *memory; /* the pool's */
	bool seen[SML_VERDICTS];
	unsigned n;
};

static void check_result(const struct vector *vector, const struct sml_pool *pool,
			 const struct sml_pool_answer *answer)
{
	const struct sml_header *header = answer->packet;
	const sml_any_u32 *lanes = (const sml_any_u32 *)(header + 1);

	assert_int_equal(answer->length, SML_HEADER_BYTES + 4 * vector->n_lanes);
	if (!vector_header_is_right(vector, &pool->rules, header))
		fail_msg("line %u: the answer's header is wrong", vector->line);
	for (uint32_t i = 0; i < vector->n_lanes; i++)
		assert_int_equal((int32_t)sml_be32(lanes[i]), (int32_t)vector->lanes[i]);
}

static void check_send(struct sml_pool *pool, const struct vector *vector)
{
	struct sml_pool_answer answer;
	enum sml_verdict verdict = sml_pool_receive(pool, vector->packet, vector->length, &answer);

	if (verdict != vector->verdict)
		fail_msg("line %u: %s, not %s", vector->line, sml_verdict_name(verdict),
			 sml_verdict_name(vector->verdict));
	if (vector->has_ticket || vector->goes_up) {
		assert_non_null(answer.packet);
		check_result(vector, pool, &answer);
	} else {
		assert_null(answer.packet);
	}
}

static void begin_world(void *self, struct vector *vector)
{
	struct run *run = self;

	free(run->memory);
	run->memory = vector_pool_open(&run->pool, &vector->rules);
}

static void age(void *self, const struct vector *vector)
{
	struct run *run = self;

	vector_pool_age(&run->pool, vector->age);
}

static void receive(void *self, struct vector *vector)
{
	struct run *run = self;

	check_send(&run->pool, vector);
	run->seen[vector->verdict] = true;
	run->n++;
}

TEST(every_vector_gets_its_verdict_and_result)
{
	const struct vector_steps steps = {begin_world, age, receive, true};
	struct run run = {.memory = NULL};

	vectors_run(&steps, &run);
	free(run.memory);
	assert_true(run.n > 50);
	for (unsigned i = 0; i < SML_VERDICTS; i++)
		if (!run.seen[i])
			fail_msg("no vector for %s", sml_verdict_name((enum sml_verdict)i));
}

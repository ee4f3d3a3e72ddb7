/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared test vectors against the user-space pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/vectors.h"

static void *make_pool(struct sml_pool *pool, const struct sml_pool_rules *rules)
{
	void *memory = malloc(sml_pool_memory_bytes(rules));

	assert_non_null(memory);
	sml_pool_init(pool, rules, memory);
	return memory;
}

static void age(struct sml_pool *pool, uint32_t use)
{
	for (uint32_t i = 0; i < 2u * (pool->rules.head_slots + pool->rules.data_slots); i++) {
		pool->slots[i].state = SML_SLOT_COMPLETE;
		pool->slots[i].seen = sml_pool_all_ranks(&pool->rules);
		pool->slots[i].use = use + (i & 1) - 2;
	}
}

static void check_result(const struct vector *vector, const struct sml_pool *pool,
			 const struct sml_pool_answer *answer)
{
	const struct sml_header *header = answer->packet;
	const uint32_t *lanes = (const uint32_t *)(header + 1);

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

static void every_vector_gets_its_verdict_and_result(void **state)
{
	FILE *file = fopen(getenv("SML_VECTORS"), "r");
	struct sml_pool pool = {.packets = NULL};
	bool seen[SML_VERDICTS] = {false};
	unsigned line = 0, n = 0;
	void *memory = NULL;
	struct vector vector;

	(void)state;
	assert_non_null(file);
	for (;;) {
		vector_next(file, &pool.rules, &line, &vector);
		if (vector.kind == VECTOR_END)
			break;
		if (vector.kind == VECTOR_WORLD) {
			free(memory);
			memory = make_pool(&pool, &vector.rules);
		} else if (vector.kind == VECTOR_AGE) {
			age(&pool, vector.age);
		} else {
			check_send(&pool, &vector);
			seen[vector.verdict] = true;
			n++;
		}
	}
	free(memory);
	fclose(file);
	assert_true(n > 50);
	for (unsigned i = 0; i < SML_VERDICTS; i++)
		if (!seen[i])
			fail_msg("no vector for %s", sml_verdict_name((enum sml_verdict)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_vector_gets_its_verdict_and_result),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

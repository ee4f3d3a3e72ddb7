/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists in which a worker keeps its slots, compared with sorting. */
#include <stdlib.h>
#include <string.h>

#include "core/queue.h"
#include "sim/gen.h"
#include "support/test.h"

#define N 40

static uint32_t chunks[N];
static struct sml_link links[N];

static int by_chunk(const void *a, const void *b)
{
	const uint16_t *x = a, *y = b;

	return (int)(int32_t)(chunks[*x] - chunks[*y]);
}

/* Distinct chunks around `first`, in random order. */
static void draw_chunks(struct gen *gen, uint32_t first)
{
	for (uint16_t i = 0; i < N; i++)
		chunks[i] = first + i;
	for (uint16_t i = N - 1; i > 0; i--) {
		uint32_t j = gen_below(gen, i + 1u), chunk = chunks[i];

		chunks[i] = chunks[j];
		chunks[j] = chunk;
	}
}

/* Read forwards, read backwards and counted, the list is this one. */
static void assert_list(const struct sml_list *list, const uint16_t *expected, uint16_t n)
{
	uint16_t slot = list->first;

	assert_int_equal(list->n, n);
	for (uint16_t i = 0; i < n; i++, slot = links[slot].next)
		assert_int_equal(slot, expected[i]);
	assert_int_equal(slot, SML_NO_SLOT);
	slot = list->last;
	for (uint16_t i = n; i > 0; i--, slot = links[slot].previous)
		assert_int_equal(slot, expected[i - 1]);
	assert_int_equal(slot, SML_NO_SLOT);
}

TEST(a_list_keeps_the_order_of_coming)
{
	struct sml_list list;

	sml_list_init(&list, links);
	assert_list(&list, NULL, 0);
	for (uint16_t i = 0; i < 4; i++)
		sml_list_append(&list, i);
	assert_list(&list, (uint16_t[]){0, 1, 2, 3}, 4);
	sml_list_remove(&list, 0);
	assert_list(&list, (uint16_t[]){1, 2, 3}, 3);
	sml_list_remove(&list, 2);
	assert_list(&list, (uint16_t[]){1, 3}, 2);
	sml_list_remove(&list, 3);
	assert_list(&list, (uint16_t[]){1}, 1);
	sml_list_append(&list, 0);
	assert_list(&list, (uint16_t[]){1, 0}, 2);
	sml_list_remove(&list, 1);
	sml_list_remove(&list, 0);
	assert_list(&list, NULL, 0);
}

TEST(a_sorted_list_is_by_chunk_whatever_the_order)
{
	struct gen gen;

	gen_from_seed(&gen, 2);
	for (int round = 0; round < 500; round++) {
		uint16_t expected[N], n = 0, gone;
		struct sml_list list;

		draw_chunks(&gen, round % 2 ? 7 : (uint32_t) - (N / 2));
		sml_list_init(&list, links);
		for (uint16_t i = 0; i < N; i++) {
			sml_list_insert_sorted(&list, i, chunks);
			expected[n++] = i;
			qsort(expected, n, sizeof(expected[0]), by_chunk);
			if (gen_chance(&gen, 1, 3)) {
				gone = (uint16_t)gen_below(&gen, n);
				sml_list_remove(&list, expected[gone]);
				n--;
				memmove(expected + gone, expected + gone + 1,
					(size_t)(n - gone) * sizeof(expected[0]));
			}
			assert_list(&list, expected, n);
		}
	}
}

TEST(equal_chunks_stay_in_the_order_of_coming)
{
	struct sml_list list;

	memset(chunks, 0, sizeof(chunks));
	sml_list_init(&list, links);
	for (uint16_t i = 0; i < 3; i++)
		sml_list_insert_sorted(&list, i, chunks);
	assert_list(&list, (uint16_t[]){0, 1, 2}, 3);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The properties of fuzz/, over many seeds, and over all choices in small worlds.
 *
 *	test_properties [NAME]    all of them, or those that match NAME (with * and ?)
 */
#include <stdbool.h>

#include "fuzz/properties.h"
#include "support/test.h"

typedef const char *property(struct gen *gen, bool tiny);

static void holds_for_seeds(property *check, uint64_t n_seeds)
{
	static struct gen gen;

	for (uint64_t seed = 1; seed <= n_seeds; seed++) {
		const char *wrong;

		gen_from_seed(&gen, seed);
		wrong = check(&gen, false);
		if (wrong != NULL)
			fail_msg("seed %u: %s", (unsigned)seed, wrong);
	}
}

/* at_least: with fewer cases, the small world would be too small to show anything. */
static void holds_for_all(property *check, uint64_t at_least)
{
	static struct gen gen;
	uint64_t n = 0;

	gen_from_all(&gen);
	do {
		const char *wrong = check(&gen, true);

		n++;
		if (wrong != NULL)
			fail_msg("path %u: %s", (unsigned)n, wrong);
	} while (gen_next_path(&gen));
	print_message("%lu paths\n", (unsigned long)n);
	assert_true(n >= at_least);
}

/* The property holds for so many seeds, or for all of a small world with at least so many paths. */
#define PROPERTY_TEST(sentence, holds_for, check, n)                                               \
	TEST(sentence)                                                                             \
	{                                                                                          \
		holds_for(check, n);                                                               \
	}

PROPERTY_TEST(strangers_never_change_a_sum, holds_for_seeds, property_pool, 10000)
PROPERTY_TEST(strangers_never_change_a_sum_in_any_short_history, holds_for_all, property_pool,
	      10000)
PROPERTY_TEST(a_slot_does_what_sets_say, holds_for_seeds, property_slot, 20000)
PROPERTY_TEST(a_slot_does_what_sets_say_in_any_short_history, holds_for_all, property_slot, 1000000)
PROPERTY_TEST(a_lying_switch_does_no_harm, holds_for_seeds, property_worker, 20000)
PROPERTY_TEST(a_lying_switch_does_no_harm_in_any_short_history, holds_for_all, property_worker,
	      100000)
PROPERTY_TEST(a_resume_has_the_plan_that_sets_say, holds_for_seeds, property_merge, 50000)
PROPERTY_TEST(a_resume_has_the_plan_that_sets_say_in_every_small_world, holds_for_all,
	      property_merge, 3000)
PROPERTY_TEST(control_bytes_mean_the_same_in_any_pieces, holds_for_seeds, property_frame, 10000)
PROPERTY_TEST(a_switch_that_says_anything_does_no_harm, holds_for_seeds, property_client, 3000)
PROPERTY_TEST(workers_that_say_anything_leave_nothing_behind, holds_for_seeds, property_server,
	      2000)
PROPERTY_TEST(packets_that_are_too_long_stay_at_the_socket, holds_for_seeds, property_receive, 2000)
PROPERTY_TEST(hostile_ranks_do_no_harm, holds_for_seeds, property_rank, 300)
PROPERTY_TEST(a_hostile_switch_does_no_harm, holds_for_seeds, property_switch, 200)
PROPERTY_TEST(any_environment_is_understood_or_refused, holds_for_seeds, property_config, 10000)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated worlds: many seeds, the same trace each time, and the seeds that were kept. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/control/control.h"
#include "sim/run.h"
#include "sim/tree.h"
#include "support/test.h"

static struct sim_world world;
static struct sim_result result;

/* Small ones, and trees, are the simulator's own runs (tests/meson.build). */
TEST(large_worlds_pass)
{
	for (uint64_t seed = 1000000; seed < 1000000 + 24; seed++) {
		sim_world_draw(&world, seed, false);
		sim_run(&world, &result);
		if (!result.passed)
			fail_msg("build/tests/sim --large --seed %lu: %s", (unsigned long)seed,
				 result.failure);
	}
}

TEST(a_world_of_4096_ranks_passes)
{
	/* A switch dies in it. */
	sim_world_draw_tree(&world, 52, false);
	assert_int_equal(world.n_ranks, 4096);
	assert_true(world.n_leaves >= 64);
	sim_run(&world, &result);
	if (!result.passed)
		fail_msg("build/tests/sim --trees --large --seed 52: %s", result.failure);
	assert_int_equal(result.resumes, 1);
	/* Each chunk went through all switches. */
	assert_true(result.verdicts[SML_VERDICT_FULL] >= 64);
	assert_true(result.verdicts[SML_VERDICT_COMPLETED] > result.verdicts[SML_VERDICT_FULL]);
}

/* With this many ranks, limbs are smaller than with up to 1,024: core/wide.h. */
TEST(sums_of_64_bits_over_4096_ranks_are_right)
{
	static const enum sml_type types[] = {SML_FLOAT64, SML_INT64};

	for (unsigned i = 0; i < 2; i++) {
		sim_world_draw_tree(&world, 52, false);
		assert_int_equal(world.n_ranks, 4096);
		world.n_calls = 1;
		world.calls[0] = (struct sim_call){.collective = SML_ALLREDUCE,
						   .type = types[i],
						   .op = SML_SUM,
						   .wire = i == 0 ? SML_WIRE_INT64 : SML_WIRE_INT32,
						   .count = 40,
						   .waits = true};
		sim_world_repair(&world);
		assert_int_equal(world.calls[0].type, types[i]);
		sim_run(&world, &result);
		if (!result.passed)
			fail_msg("type %d over 4,096 ranks: %s", types[i], result.failure);
	}
}

/* How many ranks are how many switches away from the root? */
static void count_depths(const struct sim_tree *tree, uint32_t n_ranks, uint32_t *depths)
{
	for (uint32_t rank = 0; rank < n_ranks; rank++) {
		uint32_t depth = 0;

		for (uint16_t node = tree->node_of_rank[rank]; node > 0;
		     node = tree->parent[node]) {
			assert_in_range(tree->n_children[node], 1, SML_MAX_CHILDREN);
			depth++;
		}
		assert_in_range(depth, 0, world.levels - 1);
		depths[depth]++;
	}
}

TEST(trees_have_every_shape_and_die_at_every_level)
{
	uint32_t depths[3] = {0}, dying = 0, changing = 0, bare = 0, striped = 0;
	uint64_t resent = 0, resumed = 0, full = 0;
	struct sim_tree tree, later;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		sim_world_draw_tree(&world, seed, true);
		sim_tree_draw(&world, 0, 1, &tree);
		sim_tree_draw(&world, 0, 2, &later);
		count_depths(&tree, world.n_ranks, depths);
		changing += memcmp(&tree, &later, sizeof(tree)) != 0 && world.n_deaths > 0;
		bare += tree.node_of_rank[0] == 0 && tree.n_children[0] > 1;
		dying += world.n_deaths > 0;
		striped += world.n_stripes > 1;
		sim_run(&world, &result);
		resent += result.verdicts[SML_VERDICT_RESEND_UP] > 0;
		full += result.verdicts[SML_VERDICT_FULL] > 0;
		resumed += result.resumes > 0;
	}
	assert_in_range(depths[0], 100, 900);
	assert_in_range(depths[1], 200, 1500);
	assert_in_range(depths[2], 40, 900);
	assert_in_range(changing, 40, 300);
	assert_in_range(bare, 20, 300);
	assert_in_range(dying, 100, 380);
	assert_in_range(striped, 50, 250);
	assert_in_range(resent, 40, 390);
	assert_in_range(full, 300, 400);
	assert_in_range(resumed, 40, 390);
}

TEST(the_same_seed_has_the_same_trace)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		uint64_t hash, other;

		sim_world_draw(&world, seed, true);
		sim_run(&world, &result);
		hash = result.hash;
		sim_world_draw(&world, seed, true);
		sim_run(&world, &result);
		assert_int_equal(result.hash, hash);
		sim_world_draw(&world, seed + 1000, true);
		sim_run(&world, &result);
		other = result.hash;
		assert_int_not_equal(other, hash);
	}
}

TEST(worlds_have_every_fault_and_many_have_none)
{
	uint32_t lossy = 0, lossless = 0, dying = 0, wrapping = 0, striped = 0, calm = 0;
	uint32_t exact = 0, resumed = 0, split = 0, rounded = 0, int8 = 0;
	uint32_t embedded = 0, deadly = 0, slow = 0, pausing = 0, late = 0, narrow = 0;
	uint64_t ranks = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		sim_world_draw(&world, seed, true);
		lossy += world.loss_ppm > 0;
		lossless += world.loss_ppm == 0;
		dying += world.n_deaths > 0;
		wrapping += world.first_use != 0 && world.first_chunk != 0;
		striped += world.n_stripes == 3;
		deadly += world.worker_dies_us > 0;
		slow += world.n_slow > 0;
		embedded += world.embedded;
		pausing += world.pause_ppm > 0;
		late += world.skew_us > 0;
		narrow += world.queue_us > 0;
		calm += !world.loss_ppm && !world.duplicate_ppm && !world.reorder_ppm &&
			!world.corrupt_ppm && !world.jitter_us && !world.pause_ppm &&
			!world.queue_us;
		for (uint32_t i = 0; i < world.n_calls; i++) {
			const struct sim_call *call = &world.calls[i];
			bool is_exact = call->wire == SML_WIRE_EXACT;

			exact += is_exact;
			rounded +=
				world.rounds && call->wire == SML_WIRE_INT16 && call->count > 700;
			int8 += call->wire == SML_WIRE_INT8 && call->count > 700;
			/* In more than one packet, over a switch that dies. */
			split += is_exact && call->count > world.lanes;
			resumed += is_exact && call->count > world.lanes && world.n_deaths > 0;
		}
		sim_world_draw(&world, seed, false);
		ranks |= (uint64_t)1 << (world.n_ranks - 1);
	}
	assert_in_range(deadly, 8, 60);
	assert_in_range(slow, 50, 150);
	assert_in_range(embedded, 40, 100);
	assert_in_range(pausing, 100, 300);
	assert_in_range(late, 100, 300);
	assert_in_range(narrow, 100, 300);
	assert_in_range(calm, 20, 120);
	assert_in_range(exact, 30, 150);
	assert_in_range(split, 20, 100);
	assert_in_range(resumed, 5, 50);
	assert_in_range(rounded, 4, 200);
	assert_in_range(int8, 4, 200);
	/* Two ranks, sixty-four, and most numbers between them. */
	assert_true(ranks >> 1 & 1 && ranks >> 63);
	assert_in_range(__builtin_popcountll(ranks), 40, 64);
	assert_in_range(lossy, 100, 300);
	assert_in_range(lossless, 100, 300);
	assert_in_range(dying, 60, 250);
	assert_in_range(wrapping, 40, 250);
	assert_in_range(striped, 20, 200);
}

/* ---- sim/seeds.txt ---- */

static void apply(char *word)
{
	char *equals = strchr(word, '=');

	assert_non_null(equals);
	*equals = '\0';
	assert_true(sim_world_set(&world, word, (uint32_t)strtoul(equals + 1, NULL, 0)));
}

static void replay_control(const char *command, uint64_t seed)
{
	struct sim_control_result control;

	sim_control_run(seed,
			strstr(command, "--elastic") ? SIM_CONTROL_ELASTIC : SIM_CONTROL_SMALL,
			false, &control);
	if (!control.passed)
		fail_msg("build/tests/sim --seed %s: %s", command, control.failure);
}

/* "SEED [--control] [--elastic] [--trees] [--large] [--set NAME=N ...]", as the simulator prints
 * it. */
static void replay(const char *command)
{
	char line[512], *word, *rest = NULL;
	bool large, trees, any = false;
	uint64_t seed;

	snprintf(line, sizeof(line), "%s", command);
	large = strstr(line, "--large") != NULL;
	trees = strstr(line, "--trees") != NULL;
	word = strtok_r(line, " \t", &rest);
	seed = strtoull(word, NULL, 0);
	if (strstr(command, "--control") != NULL || strstr(command, "--elastic") != NULL) {
		replay_control(command, seed);
		return;
	}
	(trees ? sim_world_draw_tree : sim_world_draw)(&world, seed, !large);
	while ((word = strtok_r(NULL, " \t", &rest)) != NULL) {
		if (strcmp(word, "--large") == 0 || strcmp(word, "--set") == 0 ||
		    strcmp(word, "--trees") == 0)
			continue;
		apply(word);
		any = true;
	}
	if (any)
		sim_world_repair(&world);
	sim_run(&world, &result);
	if (!result.passed)
		fail_msg("build/tests/sim --seed %s: %s", command, result.failure);
}

TEST(kept_seeds_pass)
{
	const char *path = getenv("SML_SEEDS");
	FILE *file = fopen(path ? path : "tests/sim/seeds.txt", "r");
	char line[512];
	unsigned n = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "#\n")] = '\0';
		if (strspn(line, " \t") == strlen(line))
			continue;
		replay(line);
		n++;
	}
	fclose(file);
	assert_true(n > 0);
}

/* 1,000 packets of each rank. */
#define FLOATS 358000

/* The virtual time of all-reduces in a plain world with these settings: "NAME=N NAME=N …". */
static uint64_t plain_ns(uint64_t seed, uint32_t count, const char *settings)
{
	char line[128], *rest = line, *word;

	sim_world_plain(&world, seed, count, SML_WIRE_INT32);
	snprintf(line, sizeof(line), "%s", settings);
	while ((word = strtok_r(rest, " ", &rest)) != NULL)
		apply(word);
	sim_world_repair(&world);
	sim_run(&world, &result);
	if (!result.passed)
		fail_msg("a plain world of %u floats with seed %" PRIu64 " and %s: %s", count, seed,
			 settings, result.failure);
	return result.virtual_ns;
}

static void assert_about(uint64_t ns, uint64_t expected_ns)
{
	assert_in_range(ns, expected_ns, expected_ns * 105 / 100);
}

TEST(a_plain_world_is_as_fast_as_its_slowest_part)
{
	/* 1,472 bytes and 66 around them, at 100 Mbit/s. */
	assert_about(plain_ns(1, FLOATS, "n_ranks=2"), 123040000);
	assert_about(plain_ns(1, FLOATS, "n_ranks=64"), 123040000);
	/* Both directions at once. */
	assert_about(plain_ns(1, FLOATS, "host_ns=200000"), 200000000);
	/* The switch takes the packets of all 8 ranks. */
	assert_about(plain_ns(1, FLOATS, "switch_ns=50000"), 400000000);
}

static uint64_t lossy_ns(uint64_t seed)
{
	return plain_ns(seed, FLOATS, "loss_ppm=10000");
}

TEST(the_seed_decides_what_a_plain_world_loses)
{
	assert_int_equal(lossy_ns(1), lossy_ns(1));
	assert_int_not_equal(lossy_ns(1), lossy_ns(2));
}

/* Segmentation offloads make such gaps between results. */
TEST(groups_of_results_do_not_look_like_loss)
{
	static const char *const groups[] = {"super_us=2000", "super_us=4000", "super_us=8000"};

	for (unsigned i = 0; i < 3; i++) {
		plain_ns(1, 1000000, groups[i]);
		/* Only before the first gaps are known. */
		if (result.verdicts[SML_VERDICT_RESEND] >
		    result.verdicts[SML_VERDICT_ABSORBED] / 50)
			fail_msg("%s: %" PRIu64 " results were sent again", groups[i],
				 result.verdicts[SML_VERDICT_RESEND]);
	}
}

/* 24 calls of 10 ms, one after the other; a loss at the end of one is not seen by later packets. */
TEST(the_tail_of_a_call_does_not_wait_for_the_timeout)
{
	uint64_t sum_ns = 0;

	for (uint64_t seed = 1; seed <= 4; seed++)
		sum_ns += plain_ns(seed, 30000, "n_calls=24 loss_ppm=1000");
	/* 254 ms without loss; 510 ms if each tail waits for the timeout. */
	assert_in_range(sum_ns / 4, 254000000, 430000000);
}

/* A rank's contributions and its stripe's results make a queue that is longer than the timeout. */
TEST(packets_are_measured_although_all_were_sent_twice)
{
	plain_ns(1, 500000, "embedded=1 one_link=1 n_ranks=4 data_slots=88");
	/* Only until the timeout has grown; without that, as many as there are packets. */
	if (result.verdicts[SML_VERDICT_RESEND] > result.verdicts[SML_VERDICT_ABSORBED] / 3)
		fail_msg("%" PRIu64 " of %" PRIu64 " packets were sent again",
			 result.verdicts[SML_VERDICT_RESEND],
			 result.verdicts[SML_VERDICT_ABSORBED]);
}

/*
 * The ranks send faster than the switch can take the packets, again and again if they do not learn
 * how long its queue is. Without that, only the first of these worlds ends within two minutes. It
 * takes 13.7 s.
 */
TEST(resends_do_not_drown_a_slow_switch)
{
	static const struct {
		const char *settings;
		uint64_t least_ms; /* if nothing is sent again: for 158 packets of each rank */
		unsigned most;	   /* this many times longer */
	} worlds[] = {
		{"n_ranks=2 data_slots=8 switch_ns=12000000 switch_queue=32", 3792, 2},
		{"n_ranks=2 data_slots=8 switch_ns=12000000", 3792, 2},
		/* More packets than the queue holds: some are lost. */
		{"n_ranks=8 data_slots=8 switch_ns=12000000 switch_queue=32", 15168, 3},
		{"n_ranks=16 data_slots=32 switch_ns=4000000 switch_queue=200", 10112, 3},
		/* The leaves are as slow as their root. */
		{"n_ranks=4 n_leaves=2 data_slots=8 switch_ns=12000000 switch_queue=32", 3792, 5},
	};

	for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		char settings[128];
		uint64_t ms;

		snprintf(settings, sizeof(settings), "lanes=32 head_slots=2 %s",
			 worlds[i].settings);
		ms = plain_ns(1, 5000, settings) / 1000000;
		if (ms < worlds[i].least_ms || ms > worlds[i].least_ms * worlds[i].most)
			fail_msg("%s: %" PRIu64 " ms", settings, ms);
	}
}

/* Where nothing but loss makes results late, the timeout does not grow. */
TEST(loss_is_repaired_as_soon_as_timeouts_allow)
{
	static const struct {
		const char *settings;
		uint32_t count;
		uint64_t most_ms; /* for six seeds; more if timeouts may double beyond 64 ms */
	} worlds[] = {
		{"n_calls=8 loss_ppm=10000", 30000, 1430},
		{"n_calls=12 loss_ppm=100000 n_ranks=4", 2000, 1640},
	};

	for (unsigned i = 0; i < sizeof(worlds) / sizeof(worlds[0]); i++) {
		uint64_t sum_ns = 0;

		for (uint64_t seed = 1; seed <= 6; seed++)
			sum_ns += plain_ns(seed, worlds[i].count, worlds[i].settings);
		if (sum_ns / 1000000 > worlds[i].most_ms)
			fail_msg("%s: %" PRIu64 " ms", worlds[i].settings, sum_ns / 1000000);
	}
}

/* A shard has its part of a stripe's chunks, and a window of its own. */
TEST(threads_do_not_make_ranks_that_embed_their_stripes_slower)
{
	const char *settings[] = {
		"embedded=1 n_ranks=4 n_stripes=4 link_mbps=10000 delay_us=100 n_shards=1",
		"embedded=1 n_ranks=4 n_stripes=4 link_mbps=10000 delay_us=100 n_shards=2",
		"embedded=1 n_ranks=4 n_stripes=4 link_mbps=10000 delay_us=100 n_shards=4",
	};
	uint64_t one_ns = plain_ns(1, 1000000, settings[0]);

	for (unsigned i = 1; i < sizeof(settings) / sizeof(settings[0]); i++)
		assert_in_range(plain_ns(1, 1000000, settings[i]), one_ns / 2, one_ns);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The resources of an XDP job that has ended, and when another job gets them: only after the
 * kernel has said that no program uses them any more. The control thread does not wait for
 * that. Skipped if BPF is not permitted.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/test.h"
#include "support/xdp_run.h"

#define SLOTS	 64u
#define MAX_JOBS 2u
#define LOOPBACK 1u

static const struct sml_xdp_config config = {
	.port = FRAME_PORT, .max_jobs = MAX_JOBS, .max_slots = SLOTS};

static struct sml_xdp_maps *maps;

static void open_maps(void)
{
	maps = xdp_open_maps(&config);
}

static void close_maps(void)
{
	sml_xdp_maps_close(maps);
}

static struct sml_pool_rules rules_of(uint32_t job, uint16_t slots)
{
	return (struct sml_pool_rules){.tag = 7,
				       .job = job,
				       .epoch = 1,
				       .head_slots = (uint16_t)(slots / 4),
				       .data_slots = (uint16_t)(slots - slots / 4),
				       .lanes = 8,
				       .n_ranks = 1,
				       .n_shards = 1,
				       .cookies = {11}};
}

static int add(uint32_t job, uint16_t slots)
{
	struct sml_pool_rules rules = rules_of(job, slots);

	return sml_xdp_maps_add_job(maps, &rules);
}

static void add_in_time(uint32_t job, uint16_t slots)
{
	struct sml_pool_rules rules = rules_of(job, slots);

	xdp_add_job(maps, &rules);
}

/* The slot has served, and its rank's address is known. */
static void use(uint32_t job)
{
	static const struct sml_xdp_slot used = {.slot = {.use = 5, .state = SML_SLOT_COMPLETE}};
	static const struct sml_xdp_peer peer = {.ifindex = LOOPBACK};
	int slots = xdp_map_of(sml_xdp_maps_entry_fd(maps), "sml_slots");
	struct sml_xdp_job value;

	assert_int_equal(sml_xdp_maps_get_job(maps, job, &value), 0);
	assert_int_equal(bpf_map_update_elem(slots, &value.first_buffer, &used, 0), 0);
	close(slots);
	assert_int_equal(sml_xdp_maps_set_peer(maps, job, 0, 0, &peer), 0);
	assert_int_equal(sml_xdp_maps_start_job(maps, job, 0), 0);
}

static uint32_t use_of_row(uint32_t row)
{
	int slots = xdp_map_of(sml_xdp_maps_entry_fd(maps), "sml_slots");
	struct sml_xdp_slot slot;

	assert_int_equal(bpf_map_lookup_elem(slots, &row, &slot), 0);
	close(slots);
	return slot.slot.use;
}

static void expect_fresh(uint32_t job)
{
	struct sml_slot buffers[2];
	struct sml_xdp_peer peer;

	assert_int_equal(sml_xdp_maps_get_slot(maps, job, 0, buffers), 0);
	assert_int_equal(buffers[0].use, 0);
	assert_int_equal(buffers[0].state, 0);
	assert_int_equal(sml_xdp_maps_get_peer(maps, job, 0, 0, &peer), 0);
	assert_int_equal(peer.ifindex, 0);
}

/* Without the cleaner's thread, nothing has asked the kernel, so no job may get it. */
TEST_WITH(what_a_job_held_is_nobodys_before_the_kernel_says_so, open_maps, close_maps)
{
	assert_int_equal(add(0, SLOTS), 0);
	use(0);
	sml_xdp_maps_remove_job(maps, 0);
	for (unsigned i = 0; i < 3; i++) {
		/* The same place; the same slots; more slots than there are. */
		assert_int_equal(add(SML_XDP_JOB_PLACES, SLOTS), -EAGAIN);
		assert_int_equal(add(1, SLOTS), -EAGAIN);
		assert_int_equal(add(1, SLOTS + 1), -ENOSPC);
	}
	/* A program that admitted a packet earlier finds what it expects. */
	assert_int_equal(use_of_row(0), 5);
	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	add_in_time(1, SLOTS);
	expect_fresh(1);
}

TEST_WITH(what_is_free_is_given_at_once, open_maps, close_maps)
{
	assert_int_equal(add(0, SLOTS / 2), 0);
	sml_xdp_maps_remove_job(maps, 0);
	/* Another place, another row, other slots. */
	assert_int_equal(add(1, SLOTS / 2), 0);
	expect_fresh(1);
	/* A third job has to wait, even if only for a row. */
	assert_int_equal(add(2, 4), -EAGAIN);
	assert_int_equal(add(2, SLOTS), -ENOSPC);
	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	add_in_time(2, 4);
	expect_fresh(2);
}

/* The next job in its row would send its sums there. */
TEST_WITH(a_leafs_parent_is_no_other_jobs, open_maps, close_maps)
{
	static const struct sml_xdp_peer there = {.ifindex = LOOPBACK};
	struct sml_pool_rules rules = rules_of(0, SLOTS);
	struct sml_xdp_peer peer;
	uint32_t index;
	int ways;

	rules.is_leaf = true;
	rules.n_shards = 2;
	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	assert_int_equal(sml_xdp_maps_add_job(maps, &rules), 0);
	for (uint8_t shard = 0; shard < 2; shard++) {
		assert_int_equal(sml_xdp_maps_set_peer(maps, 0, 0, shard, &there), 0);
		assert_int_equal(sml_xdp_maps_set_peer(maps, 0, SML_XDP_PARENT, shard, &there), 0);
	}
	assert_int_equal(sml_xdp_maps_start_job(maps, 0, 0), 0);
	sml_xdp_maps_remove_job(maps, 0);
	xdp_add_job(maps, &rules);
	for (uint8_t shard = 0; shard < 2; shard++) {
		assert_int_equal(sml_xdp_maps_get_peer(maps, 0, SML_XDP_PARENT, shard, &peer), 0);
		assert_int_equal(peer.ifindex, 0);
	}
	ways = xdp_map_of(sml_xdp_maps_entry_fd(maps), "sml_parents");
	for (index = 0; index < MAX_JOBS; index++) {
		struct bpf_devmap_val way;

		assert_int_equal(bpf_map_lookup_elem(ways, &index, &way), -ENOENT);
	}
	close(ways);
}

static long waits_of_this_thread(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_nvcsw;
}

/* A thread that waits for the kernel yields its processor at least once per wait. */
TEST_WITH(strangers_who_come_and_go_do_not_make_the_control_thread_wait, open_maps, close_maps)
{
	enum { TIMES = 100 };
	long waits = 0;

	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	for (uint32_t i = 0; i < TIMES; i++) {
		long before;

		add_in_time(i % 2, SLOTS);
		use(i % 2);
		before = waits_of_this_thread();
		sml_xdp_maps_remove_job(maps, i % 2);
		(void)add((i + 1) % 2, SLOTS);
		waits += waits_of_this_thread() - before;
		sml_xdp_maps_remove_job(maps, (i + 1) % 2);
	}
	printf("%d times left and joined, waited %ld times\n", TIMES, waits);
	assert_true(waits < TIMES / 4);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resuming after a switch has died: what ranks report, adopt and begin with, and how long a plan
 * takes. tests/fuzz/merge.c compares plans with those that sets say.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "core/resume.h"
#include "support/rig.h"
#include "support/test.h"

/* ---- a switch dies ---- */

static struct rig rig;
static struct sml_worker next;
static struct guarded next_memory;

static void end(void)
{
	bool whole = rig_fini(&rig);

	whole &= guard_give(&next_memory);
	assert_true(whole);
}

static void take(uint32_t rank, uint32_t ticket)
{
	struct rig_packet packet, result;

	assert_true(rig_send(&rig, rank, &packet));
	rig_answer(&rig, &packet, ticket, &result);
	assert_int_not_equal(rig_to_rank(&rig, rank, result.bytes, result.length),
			     SML_WORKER_IGNORED);
}

/* One rank, whose head chunk is done. */
static void begin(uint16_t data_slots, uint32_t n_chunks)
{
	rig_init(&rig, 1, 1, data_slots);
	rig_submit(&rig, n_chunks * RIG_LANES);
	take(0, 1);
}

/* Another epoch of rank 0, with other slots. */
static void begin_again(struct sml_worker *frozen, const uint32_t *chunks, uint32_t n,
			uint32_t after, uint16_t data_slots)
{
	struct sml_worker_config config = rig_worker_config(&rig, 0);
	const struct sml_ticket_map maps[SML_STREAMS] = {{NULL, 0, 2}, {chunks, n, after}};

	config.epoch++;
	config.data_slots = data_slots;
	next_memory = guard_take(sml_worker_memory_bytes(&config));
	sml_worker_init(&next, &config, next_memory.bytes);
	sml_resume_begin(&next, frozen, maps);
}

static uint32_t next_chunk(void)
{
	struct rig_packet packet;

	packet.length = (uint32_t)sml_worker_send(&next, packet.bytes, rig.now_ns);
	if (packet.length == 0)
		return UINT32_MAX;
	return sml_be32(((struct sml_header *)packet.bytes)->chunk_be);
}

TEST_WITH(a_rank_reports_what_it_lacks_and_keeps, NULL, end)
{
	struct sml_worker *workers[] = {&rig.ranks[0].worker};
	uint32_t chunks[8];
	uint16_t n_lanes;

	begin(2, 10);
	take(0, 2); /* data chunk 0, then 2 in its slot */
	take(0, 5); /* 1 by the other slot, then 5 */
	sml_worker_freeze(workers[0]);
	assert_int_equal(sml_resume_beyond(workers, 1, SML_DATA), 6);
	assert_int_equal(sml_resume_lacking(workers, 1, SML_DATA, chunks, 8), 4);
	assert_memory_equal(chunks, ((uint32_t[]){2, 3, 4, 5}), 16);
	assert_int_equal(sml_resume_kept_chunks(workers, 1, SML_DATA, chunks, 8), 2);
	assert_memory_equal(chunks, ((uint32_t[]){0, 1}), 8);
	assert_non_null(sml_resume_kept(workers, 1, SML_DATA, 1, &n_lanes));
	assert_int_equal(n_lanes, RIG_LANES);
	assert_null(sml_resume_kept(workers, 1, SML_DATA, 2, &n_lanes));
	assert_null(sml_resume_kept(workers, 1, SML_HEAD, 1, &n_lanes));
}

TEST_WITH(a_report_ends_at_its_capacity, NULL, end)
{
	struct sml_worker *workers[] = {&rig.ranks[0].worker};
	struct guarded chunks;

	begin(1, 10);
	take(0, 0x70000000); /* a switch that lies */
	sml_worker_freeze(workers[0]);
	chunks = guard_take(3 * sizeof(uint32_t));
	assert_true(sml_resume_lacking(workers, 1, SML_DATA, (uint32_t *)(void *)chunks.bytes, 3) >
		    3);
	assert_true(guard_give(&chunks));
}

TEST_WITH(a_hand_over_is_adopted_where_it_fits_and_once, NULL, end)
{
	struct sml_worker *workers[] = {&rig.ranks[0].worker};
	uint32_t lanes[RIG_LANES] = {0};

	begin(2, 2);
	sml_worker_freeze(workers[0]);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_DATA, 2, lanes, RIG_LANES), -1);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_DATA, 0, lanes, RIG_LANES - 1), -1);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_HEAD, 0, lanes, RIG_LANES), -1);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_DATA, 0, lanes, RIG_LANES), 0);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_DATA, 0, lanes, RIG_LANES), 0);
	assert_int_equal(sml_resume_adopt(workers, 1, SML_DATA, 1, lanes, RIG_LANES), 1);
	assert_true(sml_tensor_is_done(&rig.ranks[0].calls[0].tensor));
}

TEST_WITH(the_new_epoch_does_the_table_and_then_what_follows, NULL, end)
{
	static const uint32_t lacked[] = {1, 4};
	struct sml_worker *frozen = &rig.ranks[0].worker;

	begin(2, 10);
	take(0, 2);
	sml_worker_freeze(frozen);
	begin_again(frozen, lacked, 2, 5, 4);
	assert_int_equal(next_chunk(), 1);
	assert_int_equal(next_chunk(), 4);
	assert_int_equal(next_chunk(), 5);
	assert_int_equal(next_chunk(), 6);
	assert_int_equal(next_chunk(), UINT32_MAX);
	assert_false(sml_worker_is_broken(&next));
}

/* A farther switch's queue does not count as standing because the previous switch was near. */
TEST_WITH(what_was_measured_of_a_dead_switch_says_nothing_of_the_next, NULL, end)
{
	static const uint32_t lacked[] = {1, 4};
	struct sml_worker *frozen = &rig.ranks[0].worker;

	begin(2, 10);
	take(0, 2);
	sml_rtt_sample(&frozen->rtt, 50000, true, rig.now_ns);
	sml_worker_freeze(frozen);
	begin_again(frozen, lacked, 2, 5, 4);
	assert_int_equal(next.rtt.min_ns, UINT64_MAX);
	assert_int_equal(next.rtt.smoothed_ns, 0);
	assert_int_equal(next.rtt.rto_ns, SML_RTT_INITIAL_RTO_NS);
}

TEST_WITH(a_second_death_forgets_nothing_of_the_first, NULL, end)
{
	static const uint32_t lacked[] = {1, 4};
	struct sml_worker *frozen = &rig.ranks[0].worker, *workers[] = {&next};
	uint32_t chunks[8];

	begin(2, 10);
	take(0, 2); /* 0 is here, 1 in flight, 2 assigned */
	take(0, 7); /* 1 is here; after a hand-over, it would be the same */
	take(0, 8); /* 2 */
	sml_worker_freeze(frozen);
	/* All lack 3 to 8, but the second epoch has only one slot and dies at once. */
	begin_again(frozen, lacked, 2, 9, 1);
	sml_worker_freeze(&next);
	assert_int_equal(sml_resume_beyond(workers, 1, SML_DATA), 9);
	assert_int_equal(sml_resume_lacking(workers, 1, SML_DATA, chunks, 8), 6);
	assert_memory_equal(chunks, ((uint32_t[]){3, 4, 5, 6, 7, 8}), 24);
	/* The previous worker still has the results that others may lack. */
	assert_int_equal(sml_resume_kept_chunks(workers, 1, SML_DATA, chunks, 8), 0);
	workers[0] = frozen;
	assert_int_equal(sml_resume_kept_chunks(workers, 1, SML_DATA, chunks, 8), 2);
}

/* ---- where kept results are ---- */

static enum sml_kept kept_at(uint16_t slot)
{
	return (enum sml_kept)rig.ranks[0].worker.slots[slot].kept;
}

/* Is it this chunk's part of the first call's sum? One rank's sum is its own elements. */
static void assert_kept(uint32_t chunk)
{
	struct sml_worker *workers[] = {&rig.ranks[0].worker};
	const uint32_t *lanes, *sent = (uint32_t *)(void *)rig.ranks[0].calls[0].send.bytes;
	uint16_t n_lanes = 0;

	lanes = sml_resume_kept(workers, 1, SML_DATA, chunk, &n_lanes);
	assert_non_null(lanes);
	assert_int_equal(n_lanes, RIG_LANES);
	for (uint32_t i = 0; i < RIG_LANES; i++)
		assert_int_equal(sml_be32(lanes[i]), sent[chunk * RIG_LANES + i]);
}

TEST_WITH(a_result_is_copied_only_when_its_slot_leaves_the_tensor, NULL, end)
{
	begin(2, 4);
	assert_int_equal(kept_at(0), SML_KEPT_COPY); /* the head has no buffer */
	take(0, 2);
	take(0, 3);
	assert_int_equal(kept_at(1), SML_KEPT_IN_BUFFER);
	assert_int_equal(kept_at(2), SML_KEPT_IN_BUFFER);
	take(0, 4);
	assert_int_equal(kept_at(1), SML_KEPT_COPY);
	take(0, 5);
	assert_true(sml_tensor_is_done(&rig.ranks[0].calls[0].tensor));
	assert_ptr_equal(sml_worker_retire(&rig.ranks[0].worker), &rig.ranks[0].calls[0].tensor);
	/* The application has its buffer again. */
	memset(rig.ranks[0].calls[0].recv.bytes, 0xa5, 16 * RIG_LANES);
	sml_worker_freeze(&rig.ranks[0].worker);
	assert_kept(2);
	assert_kept(3);
}

TEST_WITH(a_frozen_worker_has_copied_what_was_in_the_buffer, NULL, end)
{
	struct sml_tensor *tensor = &rig.ranks[0].calls[0].tensor;
	struct rig_packet packet;

	begin(2, 10);
	take(0, 2);
	take(0, 3);
	assert_true(rig_send(&rig, 0, &packet)); /* one slot waits, the other is in flight */
	sml_worker_freeze(&rig.ranks[0].worker);
	assert_int_equal(kept_at(1), SML_KEPT_COPY);
	assert_int_equal(kept_at(2), SML_KEPT_COPY);
	memset(rig.ranks[0].calls[0].recv.bytes, 0xa5, 40 * RIG_LANES);
	assert_kept(0);
	assert_kept(1);
	/* Any slot of the next epoch may send the chunks that were next. */
	assert_true(sml_tensor_claim(tensor, SML_DATA, 2));
	assert_true(sml_tensor_claim(tensor, SML_DATA, 3));
}

/*
 * The switch names a chunk of the tensor twice. The second slot would wait for it when the tensor
 * is done, and the buffer no longer ours.
 */
TEST_WITH(nothing_is_read_from_a_buffer_that_a_lie_has_given_back, NULL, end)
{
	struct sml_worker *workers[] = {&rig.ranks[0].worker};
	uint32_t chunks[8];
	uint16_t n_lanes;

	begin(2, 2);
	take(0, 1); /* chunk 0, and then chunk 1, which is the other slot's */
	assert_int_equal(kept_at(1), SML_KEPT_IN_BUFFER);
	take(0, 3);
	assert_true(sml_tensor_is_done(&rig.ranks[0].calls[0].tensor));
	assert_true(guard_give(&rig.ranks[0].calls[0].recv));
	rig.ranks[0].calls[0].recv = guard_take(8 * RIG_LANES);
	rig.ranks[0].calls[0].tensor.spec.recv = NULL;
	sml_worker_freeze(workers[0]);
	assert_int_equal(kept_at(1), SML_KEPT_NONE);
	assert_null(sml_resume_kept(workers, 1, SML_DATA, 0, &n_lanes));
	assert_int_equal(sml_resume_kept_chunks(workers, 1, SML_DATA, chunks, 8), 1);
	assert_int_equal(chunks[0], 1);
}

/* ---- shards ---- */

static void init_shard(struct sml_worker *worker, struct guarded *memory, uint8_t shard)
{
	struct sml_worker_config config = rig_worker_config(&rig, 0);

	config.shard = shard;
	config.n_shards = 2;
	config.head_slots = config.data_slots = 2;
	*memory = guard_take(sml_worker_memory_bytes(&config));
	sml_worker_init(worker, &config, memory->bytes);
}

/*
 * Progress threads take calls off their queues at different times. Whatever the second shard
 * did for a call, the first shard need not know of the call.
 */
TEST_WITH(a_shard_that_comes_late_does_not_make_a_rank_lack_what_it_has, NULL, end)
{
	struct sml_tensor *tensor = &rig.ranks[0].calls[0].tensor;
	uint32_t lanes[RIG_LANES] = {0}, chunks[8];
	struct sml_worker *workers[2] = {&rig.ranks[0].worker, &next};
	struct guarded memory;

	rig_init(&rig, 1, 2, 2);
	rig_submit(&rig, 2 * RIG_LANES); /* makes the tensor; its worker is replaced */
	init_shard(workers[0], &memory, 0);
	init_shard(workers[1], &next_memory, 1);
	assert_true(sml_worker_submit(workers[1], tensor));
	sml_tensor_take(tensor, SML_DATA, 1, lanes);
	assert_int_equal(sml_resume_lacking(workers, 2, SML_DATA, chunks, 8), 1);
	assert_int_equal(chunks[0], 0);
	assert_int_equal(sml_resume_adopt(workers, 2, SML_DATA, 0, lanes, RIG_LANES), 0);
	assert_int_equal(sml_resume_lacking(workers, 2, SML_DATA, chunks, 8), 0);
	sml_tensor_take(tensor, SML_HEAD, 0, lanes);
	assert_ptr_equal(sml_worker_retire(workers[1]), tensor);
	/* Retired by one shard, and never seen by the other. */
	assert_int_equal(sml_resume_lacking(workers, 2, SML_DATA, chunks, 8), 0);
	assert_true(guard_give(&memory));
}

TEST_WITH(what_was_in_flight_may_be_sent_by_another_shard_of_the_next_epoch, NULL, end)
{
	static const uint32_t lacked[] = {1, 0};
	struct sml_worker *frozen = &rig.ranks[0].worker;
	struct rig_packet packet;

	begin(2, 4);
	assert_true(rig_send(&rig, 0, &packet));
	assert_true(rig_send(&rig, 0, &packet));
	sml_worker_freeze(frozen);
	sml_worker_freeze(frozen);
	begin_again(frozen, lacked, 2, 2, 2);
	assert_int_equal(next_chunk(), 0);
	assert_int_equal(next_chunk(), 1);
	assert_false(sml_worker_is_broken(&next));
}

/* ---- plans ---- */

/* The most that strangers can report, in the worst order: this once took seven seconds. */
TEST(merging_the_longest_reports_takes_no_time)
{
	enum { MOST = 2 * 4096, RANKS = 64 };
	static uint32_t lacking[MOST], kept[RANKS][MOST];
	static struct sml_resume_handover many[MOST];
	static uint32_t long_table[MOST];
	struct sml_resume_plan longest = {.handovers = many, .table = long_table};
	struct sml_resume_report reports[RANKS];
	clock_t began;

	for (uint32_t i = 0; i < MOST; i++) {
		lacking[i] = i;
		for (uint32_t r = 0; r < RANKS; r++)
			/* Only the last rank keeps what rank 0 lacks. */
			kept[r][i] = MOST - 1 - i + (r < RANKS - 1 ? MOST : 0);
	}
	began = clock();
	for (uint32_t r = 0; r < RANKS; r++) {
		sml_resume_sort(kept[r], MOST);
		reports[r] = (struct sml_resume_report){.beyond = MOST,
							.lacking = lacking,
							.n_lacking = r == 0 ? MOST : 0,
							.kept = kept[r],
							.n_kept = MOST};
	}
	assert_int_equal(sml_resume_merge(reports, RANKS, &longest, MOST), 0);
	assert_int_equal(longest.n_handovers, MOST);
	assert_int_equal(many[MOST - 1].from, RANKS - 1);
	/* CPU time, also with sanitizers. */
	assert_in_range(clock() - began, 0, 2 * CLOCKS_PER_SEC);
}

TEST(chunks_are_sorted_as_numbers)
{
	uint32_t chunks[1000], seed = 1;

	for (uint32_t n = 0; n <= 1000; n += n < 8 ? 1 : 124) {
		for (uint32_t i = 0; i < n; i++)
			chunks[i] = (seed = seed * 1664525u + 1013904223u) >> (i % 3 ? 0 : 24);
		sml_resume_sort(chunks, n);
		for (uint32_t i = 1; i < n; i++)
			assert_true(chunks[i - 1] <= chunks[i]);
	}
}

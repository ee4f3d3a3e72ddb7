/* SPDX-License-Identifier: BSD-3-Clause */
/* Rates from two answers of a switch: cmd/shared/view.h. */
#include <string.h>

#include "cmd/shared/view.h"
#include "support/test.h"

#define RANKS 3

/* An answer with one job, as protobuf-c would have unpacked it, but in this memory. */
struct answer {
	SmlControl__Status status;
	SmlControl__JobStatus job, *jobs[1];
	SmlControl__WorkerStatus workers[RANKS], *worker_list[RANKS];
	SmlControl__Traffic traffic[RANKS];
	SmlControl__StripeStatus served, *served_list[1];
	SmlControl__Counter counter, *counters[1];
	SmlControl__BranchStatus branch, *branches[1];
};

static void fill(struct answer *answer, uint64_t uptime_ms)
{
	sml_control__status__init(&answer->status);
	sml_control__job_status__init(&answer->job);
	sml_control__stripe_status__init(&answer->served);
	sml_control__counter__init(&answer->counter);
	answer->status.uptime_ms = uptime_ms;
	answer->job.job = (char *)(uintptr_t) "train";
	answer->job.job_number = 77;
	answer->job.epoch = 1;
	answer->counter.name = (char *)(uintptr_t) "bytes-received";
	answer->counters[0] = &answer->counter;
	answer->status.counters = answer->counters;
	answer->status.n_counters = 1;
	answer->jobs[0] = &answer->job;
	answer->status.jobs = answer->jobs;
	answer->status.n_jobs = 1;
	for (unsigned i = 0; i < RANKS; i++) {
		sml_control__worker_status__init(&answer->workers[i]);
		sml_control__traffic__init(&answer->traffic[i]);
		answer->workers[i].rank = i;
		answer->workers[i].traffic = &answer->traffic[i];
		answer->worker_list[i] = &answer->workers[i];
	}
	answer->job.workers = answer->worker_list;
	answer->job.n_workers = RANKS;
	answer->served_list[0] = &answer->served;
	answer->job.served = answer->served_list;
	answer->job.n_served = 1;
}

/* A copy that a view may free. */
static SmlControl__Envelope *sent(const struct answer *answer)
{
	SmlControl__Envelope envelope = SML_CONTROL__ENVELOPE__INIT, *copy;
	uint8_t bytes[4096];
	size_t n;

	envelope.body_case = SML_CONTROL__ENVELOPE__BODY_STATUS;
	envelope.status = (SmlControl__Status *)(uintptr_t)&answer->status;
	n = sml_control__envelope__pack(&envelope, bytes);
	assert_true(n <= sizeof(bytes));
	copy = sml_control__envelope__unpack(NULL, n, bytes);
	assert_non_null(copy);
	return copy;
}

static struct {
	struct answer before, now;
	struct sml_view view;
	struct sml_job_rates job;
	struct sml_rank_rates ranks[SML_MAX_CHILDREN];
} world;

static void end(void)
{
	sml_view_free(&world.view);
}

/* Two answers, two seconds apart. */
static void begin(void)
{
	end();
	memset(&world, 0, sizeof(world));
	fill(&world.before, 10000);
	fill(&world.now, 12000);
}

/* Others waited so long for it before, and then in the interval, in which it contributes. */
static void add_leaf(uint64_t waited_ms, uint64_t more_ms, uint64_t contributes)
{
	for (unsigned i = 0; i < 2; i++) {
		struct answer *answer = i ? &world.now : &world.before;

		sml_control__branch_status__init(&answer->branch);
		answer->branch.leaf = (char *)(uintptr_t) "rack:28500";
		answer->branch.ranks = 2;
		answer->branch.waited_ms = waited_ms + i * more_ms;
		answer->branch.contributions = i * contributes;
		answer->branches[0] = &answer->branch;
		answer->job.branches = answer->branches;
		answer->job.n_branches = 1;
	}
}

static void look(void)
{
	sml_view_take(&world.view, sent(&world.before));
	sml_view_take(&world.view, sent(&world.now));
	sml_view_job_rates(&world.view, world.view.now->status->jobs[0], &world.job, world.ranks);
}

TEST_WITH(rates_are_differences_by_the_switchs_clock, begin, end)
{
	struct sml_switch_rates rates;

	world.before.counter.value = 1000;
	world.now.counter.value = 5000;
	world.before.served.resends = 10;
	world.now.served.resends = 16;
	world.now.served.duplicates = 4;
	world.now.workers[1].resends = 8;
	look();
	sml_view_switch_rates(&world.view, &rates);
	assert_true(rates.known && rates.bytes_received == 2000);
	assert_true(world.job.known && world.job.resends == 3 && world.job.duplicates == 2);
	assert_true(world.ranks[1].resends == 4 && world.ranks[0].resends == 0);
}

TEST_WITH(one_answer_has_no_rates, begin, end)
{
	struct sml_switch_rates rates;

	sml_view_take(&world.view, sent(&world.now));
	sml_view_switch_rates(&world.view, &rates);
	sml_view_job_rates(&world.view, world.view.now->status->jobs[0], &world.job, world.ranks);
	assert_true(sml_view_seconds(&world.view) == 0);
	assert_false(rates.known || world.job.known || world.ranks[0].known);
	/* Neither has one after a question without an answer: another switch may be there now. */
	sml_view_take(&world.view, NULL);
	sml_view_take(&world.view, sent(&world.now));
	assert_true(sml_view_seconds(&world.view) == 0);
}

TEST_WITH(a_switch_that_has_started_again_has_no_rates, begin, end)
{
	world.now.status.uptime_ms = 500;
	look();
	assert_true(sml_view_seconds(&world.view) == 0);
	assert_false(world.job.known);
}

TEST_WITH(another_job_or_epoch_has_no_rates, begin, end)
{
	world.now.job.epoch = 2;
	look();
	assert_false(world.job.known);
	begin();
	world.now.job.job_number = 78;
	look();
	assert_false(world.job.known);
}

TEST_WITH(a_ranks_interval_is_from_one_report_to_the_next, begin, end)
{
	/* The switch heard rank 0 at 9.0 s and at 12.0 s: three seconds apart. */
	world.before.workers[0].traffic_age_ms = 1000;
	world.before.traffic[0].bytes_sent = 1000;
	world.now.traffic[0].bytes_sent = 31000;
	world.now.traffic[0].retransmits_timeout = 6;
	world.now.traffic[0].retransmits_fast = 9;
	/* Rank 1 has not told anything new. */
	world.now.workers[1].traffic_age_ms = 2000;
	/* Rank 2 has never told. */
	world.before.workers[2].traffic = NULL;
	look();
	assert_true(world.ranks[0].traffic.known && world.ranks[0].traffic.bytes_sent == 10000);
	assert_true(world.ranks[0].traffic.timeouts == 2 && world.ranks[0].traffic.fast == 3);
	assert_false(world.ranks[1].traffic.known || world.ranks[2].traffic.known);
	assert_true(world.job.traffic.bytes_sent == 10000 && world.job.traffic.timeouts == 2);
}

TEST_WITH(the_link_is_shared_by_frames, begin, end)
{
	assert_true(world.now.traffic[0].link_mbits == 0);
	world.now.traffic[0].link_mbits = 10;
	world.now.traffic[0].bytes_received = 2 * 934000;
	world.now.traffic[0].packets_received = 2 * 1000;
	look();
	/* 8 x (934,000 + 66 x 1000) bits of 10,000,000. */
	assert_true(world.ranks[0].link_share > 0.7999 && world.ranks[0].link_share < 0.8001);
	assert_true(world.job.link_share == world.ranks[0].link_share);
	assert_true(world.ranks[1].link_share < 0);
}

TEST_WITH(the_others_wait_longest_for_the_slowest_rank, begin, end)
{
	/* Before, rank 0 was the slowest. */
	world.before.workers[0].waited_ms = 1000;
	world.now.workers[0].waited_ms = 1200;
	world.now.workers[1].waited_ms = 100;
	world.now.workers[2].waited_ms = 1500;
	world.now.served.completed = 80;
	look();
	assert_true(world.job.uses == 40);
	assert_int_equal(world.job.slowest, 2);
	assert_true(world.job.slowest_share == 0.75 && world.ranks[2].waited_share == 0.75);
	begin();
	look();
	assert_int_equal(world.job.slowest, -1);
}

/* The switch knows only how long it waited for the host of ranks 0 and 1, which know more. */
TEST_WITH(of_ranks_that_share_memory_the_late_one_is_the_slowest, begin, end)
{
	for (unsigned late = 0; late < 3; late++) {
		begin();
		for (unsigned i = 0; i < RANKS; i++)
			world.before.workers[i].sender = world.now.workers[i].sender =
				1 + i / 2 * 2;
		world.now.workers[0].waited_ms = 1000;
		/* With 2: their link is slow. */
		if (late < 2)
			world.now.traffic[late].waited_ms = 1000;
		look();
		assert_int_equal(world.job.slowest, late % 2);
		assert_true(world.job.slowest_share == 0.5);
		assert_true(world.ranks[1].waited_share == (late == 1 ? 0.5 : 0));
	}
}

/* Their leaf is counted instead, as one rank would be. */
TEST_WITH(ranks_at_leaves_are_not_waited_for_here_but_their_leaf_is, begin, end)
{
	struct sml_branch_rates branch;

	add_leaf(40, 1500, 200);
	for (unsigned i = 0; i < 2; i++)
		world.before.workers[i].leaf = world.now.workers[i].leaf =
			(char *)(uintptr_t) "rack:28500";
	world.now.workers[2].waited_ms = 500;
	world.now.traffic[0].bytes_sent = 2000;
	look();
	assert_int_equal(world.job.slowest, -1);
	assert_string_equal(world.job.slowest_leaf, "rack:28500");
	assert_true(world.job.slowest_share == 0.75);
	assert_true(world.ranks[2].known && world.ranks[2].waited_share == 0.25);
	assert_false(world.ranks[0].known || world.ranks[1].known);
	assert_true(world.ranks[0].traffic.known && world.ranks[0].traffic.bytes_sent == 1000);
	assert_true(sml_view_branch_rates(&world.view, world.view.now->status->jobs[0],
					  world.view.now->status->jobs[0]->branches[0], &branch));
	assert_true(branch.contributions == 100 && branch.waited_share == 0.75);
	/* A rank may be slower than the leaf. */
	begin();
	add_leaf(0, 60, 240);
	world.now.workers[2].waited_ms = 180;
	look();
	assert_int_equal(world.job.slowest, 2);
	assert_null(world.job.slowest_leaf);
}

TEST_WITH(a_leaf_that_has_just_come_has_no_rates, begin, end)
{
	struct sml_branch_rates branch;

	add_leaf(0, 100, 300);
	world.before.job.n_branches = 0;
	look();
	assert_false(sml_view_branch_rates(&world.view, world.view.now->status->jobs[0],
					   world.view.now->status->jobs[0]->branches[0], &branch));
	assert_true(world.job.known && world.job.uses == 0 && world.job.slowest_leaf == NULL);
}

/* A leaf is not told them: its sums would be 0, and wrong. */
TEST_WITH(without_the_ranks_reports_there_is_no_throughput, begin, end)
{
	look();
	assert_true(world.job.traffic.known);
	begin();
	for (unsigned i = 0; i < RANKS; i++)
		world.now.workers[i].traffic = NULL;
	look();
	assert_true(world.job.known && !world.job.traffic.known);
}

TEST_WITH(ranks_that_one_rank_sends_for_are_a_group, begin, end)
{
	const SmlControl__JobStatus *job = &world.now.job;

	assert_int_equal(sml_view_host_group(job, job->workers[0]), 0);
	for (unsigned i = 0; i < RANKS; i++)
		world.now.workers[i].sender = i == 1 ? 2 : 1;
	assert_int_equal(sml_view_host_group(job, job->workers[0]), 2);
	assert_int_equal(sml_view_host_group(job, job->workers[1]), 0);
	assert_int_equal(sml_view_host_group(job, job->workers[2]), 2);
}

TEST_WITH(a_counter_never_runs_backwards, begin, end)
{
	world.before.workers[0].contributions = UINT64_MAX;
	world.before.traffic[0].bytes_sent = 5;
	world.before.workers[1].traffic_age_ms = UINT64_MAX; /* a lie */
	look();
	assert_true(world.ranks[0].contributions == 0 && world.ranks[0].traffic.bytes_sent == 0);
}

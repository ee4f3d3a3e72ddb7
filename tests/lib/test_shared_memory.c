/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one host that share memory: which of them send packets, and who may call. */
#include <pthread.h>
#include <stdlib.h>

#include "support/calls.h"
#include "support/test.h"

static void expect_packets(struct rank *rank)
{
	struct sml_counters counters;
	bool some = rank->job->argument != NULL;

	calls_of_some_kinds(rank);
	counters_after(rank, 24, &counters);
	CHECK(rank, (counters.packets_sent > 0) == some);
	CHECK(rank, (counters.bytes_received > 0) == some);
	CHECK(rank, counters.retransmits_timeout + counters.stalls == 0 || some);
}

TEST(ranks_that_share_memory_send_no_packets)
{
	for (int n_ranks = 2; n_ranks <= 8; n_ranks += 3)
		run_job(&(struct job){
			.n_ranks = n_ranks, .host_group = true, .body = expect_packets});
	run_job(&(struct job){.n_ranks = 2, .argument = "some", .body = expect_packets});
	/* Injected faults are of packets. */
	run_job(&(struct job){.n_ranks = 2,
			      .host_group = true,
			      .faults = "drop=1",
			      .argument = "some",
			      .body = expect_packets});
}

/* The lowest of the ranks that share memory sends for them. */
static void expect_packets_of_leaders(struct rank *rank)
{
	const struct job *job = rank->job;
	struct sml_counters counters;
	bool leads = job->alone >> rank->rank & 1;
	int first = 0;

	while (job->alone >> first & 1)
		first++;
	leads |= rank->rank == first;
	calls_of_some_kinds(rank);
	counters_after(rank, 24, &counters);
	CHECK(rank, (counters.packets_sent > 0) == leads);
	CHECK(rank, (counters.bytes_received > 0) == leads);
}

TEST(behind_switches_one_rank_of_a_host_sends)
{
	char addresses[2][64], both[130];
	struct job job = {.host_group = true, .body = expect_packets_of_leaders};

	serve_two(addresses, both);
	for (job.n_ranks = 2; job.n_ranks <= 5; job.n_ranks++)
		for (job.alone = 0; job.alone < UINT64_C(1) << (job.n_ranks - 2); job.alone++) {
			job.by_default = !job.by_default;
			job.switch_address = job.alone & 1 ? addresses[0] : both;
			run_job(&job);
		}
}

/* Without a switch, too; and a rank that is told not to share is as one on another host. */
TEST(without_a_switch_one_rank_of_a_host_sends)
{
	struct job job = {.host_group = true, .body = expect_packets_of_leaders};

	for (job.n_ranks = 3; job.n_ranks <= 5; job.n_ranks++)
		for (job.alone = 1; job.alone < UINT64_C(1) << (job.n_ranks - 2); job.alone++)
			run_job(&job);
	/* There is nobody to share with. */
	job.n_ranks = 3;
	job.alone = 5;
	run_job(&job);
}

static void *call_from_a_thread(void *self)
{
	struct rank *rank = self;
	struct sml_request *requests[20];
	float data[20][300];

	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 300; k++)
			data[i][k] = (float)k;
		if (sml_allreduce(rank->context, data[i], data[i], 300, SML_FLOAT32, SML_SUM, NULL,
				  &requests[i]) < 0)
			return self;
	}
	for (int i = 0; i < 20; i++)
		if (sml_wait(&requests[i], 1, -1, NULL) < 0 ||
		    data[i][299] != 299.0f * (float)rank->n)
			return self;
	return NULL;
}

/* All threads make equal calls, so that their order does not matter. */
static void call_from_threads(struct rank *rank)
{
	pthread_t threads[4];
	void *wrong;

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 4; i++)
			pthread_create(&threads[i], NULL, call_from_a_thread, rank);
		for (int i = 0; i < 4; i++) {
			pthread_join(threads[i], &wrong);
			CHECK(rank, wrong == NULL);
		}
	}
}

TEST(threads_of_ranks_that_share_memory_may_call_at_once)
{
	run_job(&(struct job){.n_ranks = 3, .host_group = true, .body = call_from_threads});
}

int main(void)
{
	/* The default is tested, too. */
	unsetenv("SWITCHML_SHARED_MEMORY");
	return test_run();
}

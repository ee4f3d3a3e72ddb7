/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one machine: who is told of whom, and when they are admitted as one. */

#include "control/envelope.h"
#include "support/jobs.h"
#include "support/test.h"

WORLD_TEST(ranks_of_one_machine_are_told_of_each_other)
{
	const SmlControl__HostGroup *group;

	jobs_join_from("aba-c", true);
	group = jobs_admitted(2)->host_group;
	assert_non_null(group);
	assert_int_equal(group->n_ranks, 2);
	assert_int_equal(group->ranks[0], 0);
	assert_int_equal(group->ranks[1], 2);
	assert_int_equal(group->tokens[1].len, SML_HOST_TOKEN);
	assert_int_equal(group->tokens[1].data[0], 3);
	assert_null(jobs_admitted(1)->host_group);
	assert_null(jobs_admitted(3)->host_group);
	assert_null(jobs_admitted(4)->host_group);
	for (uint32_t rank = 0; rank < 5; rank++)
		assert_int_equal(jobs_admitted(1)->peers[rank]->first_of_host,
				 rank == 2 ? 0 : rank);
	/* Hosts contribute, if all say so: also those that share memory with nobody. */
	assert_true(jobs_start_host(5, 5));
	jobs_close();
	for (uint32_t rank = 0; rank < 5; rank++) {
		jobs_join_from("aba-c", true);
		assert_false(jobs_start_host(5, rank));
		jobs_close();
	}
	/* No two of them are on one. */
	jobs_join_from("a-bc", true);
	assert_false(jobs_start_host(4, 4));
}

WORLD_TEST(a_switch_admits_ranks_of_one_machine_as_one_child)
{
	jobs_join_from("abab", false);
	for (uint32_t rank = 0; rank < 4; rank++) {
		assert_int_equal(jobs_admitted(rank)->number, rank % 2);
		assert_int_equal(jobs_admitted(rank)->shards, 1);
		assert_int_equal(jobs_admitted(rank)->host_group->n_ranks, 2);
	}
	assert_int_equal(jobs_admitted(0)->cookie, jobs_admitted(2)->cookie);
	assert_int_not_equal(jobs_admitted(0)->cookie, jobs_admitted(1)->cookie);
	for (uint32_t rank = 0; rank < 4; rank++)
		jobs_ready_sharing(rank, true);
	assert_non_null(jobs_received(3, SML_CONTROL__ENVELOPE__BODY_START));
}

static void say_mismatch(uint32_t rank, uint32_t a, uint32_t b)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {a, b};

	mismatch.n_ranks = 2;
	mismatch.ranks = ranks;
	jobs_say(rank, sml_envelope(MISMATCH, mismatch, &mismatch));
}

WORLD_TEST(a_rank_tells_only_of_memory_that_it_shares)
{
	jobs_join_from("aab", false);
	for (uint32_t rank = 0; rank < 3; rank++)
		jobs_ready_sharing(rank, true);
	assert_non_null(jobs_received(2, SML_CONTROL__ENVELOPE__BODY_START));
	say_mismatch(2, 0, 1);
	say_mismatch(0, 0, 2);
	say_mismatch(0, 0, 64);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	say_mismatch(1, 0, 1);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	assert_non_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
}

/* Ranks 0 and 1 are of one machine. */
static void admit_again(uint32_t individual)
{
	uint64_t cookie;

	jobs_join_from("aab", false);
	cookie = jobs_admitted(0)->cookie;
	jobs_ready_sharing(0, true);
	jobs_ready_sharing(1, individual != 1);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_ready_sharing(2, individual != 2);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START));
	for (uint32_t rank = 0; rank < 3; rank++) {
		assert_int_equal(jobs_admitted(rank)->number, rank);
		assert_int_equal(jobs_admitted(rank)->epoch, 2);
		assert_null(jobs_admitted(rank)->host_group);
		assert_int_not_equal(jobs_admitted(rank)->cookie, cookie);
	}
	for (uint32_t rank = 0; rank < 3; rank++)
		jobs_ready_sharing(rank, false);
	assert_non_null(jobs_received(2, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_close();
}

/* Rank 2 is alone here; at another switch of the job, it could not share memory. */
TEST(ranks_that_share_no_memory_are_admitted_again)
{
	admit_again(1);
	admit_again(2);
}

WORLD_TEST(a_job_shares_memory_if_all_its_ranks_do)
{
	jobs_join_from("aaa", true);
	assert_true(jobs_start_host(3, 3));
	/* No stripe dies with its rank. */
	jobs_hang_up(1);
	jobs_assert_refused(0, "rank 1 (host testhost, pid 1001) died:");
	jobs_close();
	jobs_join_from("aaa", true);
	assert_false(jobs_start_host(3, 1));
}

JOBS_TEST(a_machine_without_a_token_is_refused)
{
	uint8_t bytes[SML_MACHINE_BYTES + 1] = {1};

	for (unsigned i = 0; i < 3; i++) {
		SmlControl__Join join = jobs_join_message("a", 0, 2);

		join.machine = (ProtobufCBinaryData){i == 0   ? sizeof(bytes)
						     : i == 1 ? 4
							      : 0,
						     bytes};
		join.host_token = (ProtobufCBinaryData){i == 1 ? 15 : SML_HOST_TOKEN, bytes};
		jobs_join(i, join);
		jobs_assert_refused(i, "host token");
	}
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one job that go on in both ways: the switch decides on some, and the others have a list.
 * Two memberships of the job must never compute.
 */

#include "job/join/join.h"
#include "support/applicants.h"
#include "support/test.h"
#include "switchml.h"

static const char told[] = "all ranks must do the same";

/* "train" has been left by its rank, which comes as rank `next` of the two of this job. */
static void list_with(unsigned peer, const char *job, uint32_t next, struct jobs_past_rank was,
		      bool elsewhere)
{
	SmlControl__Join join = jobs_join_message(job, next, 2);
	SmlControl__PastRank past = SML_CONTROL__PAST_RANK__INIT, *left = &past;

	past.tag = was.tag;
	past.rank = was.rank;
	past.world_size = was.world_size;
	join.left = &left;
	join.n_left = 1;
	join.follows_tag = elsewhere ? 0 : was.tag;
	join.elsewhere = elsewhere;
	jobs_join(peer, join);
}

static void list(unsigned peer, uint32_t next, uint64_t tag, uint32_t rank)
{
	list_with(peer, "list", next, (struct jobs_past_rank){tag, rank, 3, false}, false);
}

/* Its ranks meet at another switch, and only say so here, where the job ran. */
static void list_elsewhere(unsigned peer, uint32_t next, uint64_t tag, uint32_t rank)
{
	list_with(peer, "list", next, (struct jobs_past_rank){tag, rank, 3, false}, true);
}

static void assert_told(unsigned first, unsigned n)
{
	for (unsigned peer = first; peer < first + n; peer++) {
		const SmlControl__Envelope *end =
			jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT);

		jobs_assert_refused(peer, told);
		assert_int_equal(end->abort->error, SML_ERROR_MISMATCH);
	}
}

WORLD_TEST(a_list_after_a_rank_has_asked_is_an_error_for_all)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(10, jobs_was(tag, 0, 3));
	list(11, 0, tag, 1);
	list(12, 1, tag, 2);
	assert_told(10, 3);
	jobs_assert_refused(12,
			    "rank 1 of a job goes on with a list of members, as job \"list\", and "
			    "rank 0 as the switch decides");
	/* None has gone on, so both ways are open. */
	for (uint32_t rank = 0; rank < 3; rank++)
		jobs_apply(20 + rank, jobs_was(tag, rank, 3));
	jobs_assert_decided(22, 2, 2, 3);
}

WORLD_TEST(a_rank_that_asks_after_a_list_has_begun_to_gather_ends_it)
{
	uint64_t tag = jobs_open_running(3);

	/* Its message that it leaves the old job may be late. */
	list(11, 0, tag, 1);
	jobs_assert_refused(0, "this is no failure: rank 1 goes on");
	jobs_apply(10, jobs_was(tag, 0, 3));
	list(12, 1, tag, 2);
	assert_told(10, 3);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_null(world.jobs.applicants);
	/* None has gone on, so both ways are open. */
	for (uint32_t rank = 0; rank < 3; rank++)
		jobs_apply(20 + rank, jobs_was(tag, rank, 3));
	jobs_assert_decided(22, 2, 2, 3);
}

WORLD_TEST(a_rank_that_asks_beside_a_list_that_runs_is_alone)
{
	uint64_t tag = jobs_open_running(3);

	for (uint32_t rank = 1; rank < 3; rank++)
		list(10 + rank, rank - 1, tag, rank);
	jobs_apply(10, jobs_was(tag, 0, 3));
	assert_told(10, 1);
	for (unsigned peer = 11; peer < 13; peer++)
		assert_non_null(jobs_admitted(peer));
	assert_int_equal(world.jobs.n_jobs, 1);
}

WORLD_TEST(a_list_beside_the_membership_that_the_switch_has_formed_is_refused)
{
	uint64_t tag = jobs_open_running(3);

	for (uint32_t rank = 0; rank < 2; rank++)
		jobs_apply(10 + rank, jobs_was(tag, rank, 3));
	jobs_wait(2 * SML_SECOND_NS);
	jobs_assert_decided(11, 2, 1, 2);
	list(12, 0, tag, 2);
	assert_told(12, 1);
	assert_int_equal(world.jobs.n_jobs, 1);
	/* That one has been left, too, before its end was known here. */
	for (unsigned peer = 10; peer < 12; peer++)
		jobs_ready(peer);
	tag = jobs_admitted(11)->report_tag;
	for (uint32_t rank = 0; rank < 2; rank++)
		list_with(20 + rank, "after", rank, (struct jobs_past_rank){tag, rank, 2, false},
			  false);
	assert_non_null(jobs_admitted(21));
}

WORLD_TEST(a_list_that_goes_elsewhere_counts)
{
	uint64_t tag = jobs_open_running(3);

	list_elsewhere(11, 0, tag, 1);
	assert_true(world.peers[11].ended);
	assert_string_equal(jobs_refusal(11), "");
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_apply(10, jobs_was(tag, 0, 3));
	assert_told(10, 1);
}

WORLD_TEST(who_asks_is_told_of_a_list_that_goes_elsewhere)
{
	uint64_t tag = jobs_open_running(3);

	jobs_apply(10, jobs_was(tag, 0, 3));
	for (uint32_t rank = 1; rank < 3; rank++)
		list_elsewhere(10 + rank, rank - 1, tag, rank);
	assert_told(10, 3);
}

/* Two ranks of another job could give its name, and end it, while it waits for slots. */
WORLD_TEST(a_full_job_of_that_name_does_not_end)
{
	uint64_t tag = jobs_open_running(3);

	list_elsewhere(10, 0, tag, 1);
	world.plane.has_no_room_yet = true;
	jobs_join_all(20, "list", 2);
	jobs_apply(11, jobs_was(tag, 0, 3));
	assert_told(11, 1);
	world.plane.has_no_room_yet = false;
	jobs_wait(SML_SECOND_NS);
	assert_non_null(jobs_admitted(20));
}

/* It may compute at the other switch. */
WORLD_TEST(a_list_that_goes_elsewhere_is_not_forgotten_for_a_job_of_its_name)
{
	uint64_t tag = jobs_open_running(3);

	list_elsewhere(10, 0, tag, 1);
	jobs_join(11, jobs_join_message("list", 0, 2));
	jobs_apply(12, jobs_was(tag, 0, 3));
	jobs_apply(13, jobs_was(tag, 2, 3));
	assert_told(11, 3);
}

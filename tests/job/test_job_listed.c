/* SPDX-License-Identifier: BSD-3-Clause */
/* A program names the members, and who of the last job they were: nobody waits for the dead. */

#include "control/envelope.h"
#include "support/applicants.h"
#include "support/test.h"
#include "support/tree.h"
#include "switchml.h"

/* Of the ranks 0, 1 and 2 of "train", those of this set go on. */
struct list {
	const char *job;
	uint64_t tag;
	uint8_t members;
	uint32_t of;   /* how many ranks "train" had; 0: three */
	bool is_apart; /* the Join says of its last job only which rank it was there */
};

static struct list list_all(void)
{
	return (struct list){"list", jobs_open_running(3), 7, 0, false};
}

/* behind: the peer is a leaf, and this the rank's number there; 0: it is none. */
static void come_behind(unsigned peer, uint32_t behind, uint32_t rank, uint32_t next,
			struct list list)
{
	SmlControl__Join join =
		jobs_join_message(list.job, next, (uint32_t)__builtin_popcount(list.members));
	SmlControl__PastRank past = SML_CONTROL__PAST_RANK__INIT, *left = &past;

	past.tag = list.tag;
	past.rank = rank;
	past.world_size = list.of != 0 ? list.of : 3;
	past.ran = true;
	past.members = (ProtobufCBinaryData){1, &list.members};
	join.left = &left;
	join.n_left = 1;
	join.follows_tag = list.is_apart ? 0 : list.tag;
	join.wait_ms = 60000;
	if (behind != 0)
		tree_relay(peer, behind, sml_envelope(JOIN, join, &join));
	else
		jobs_join(peer, join);
}

static void come(unsigned peer, uint32_t rank, uint32_t next, struct list list)
{
	come_behind(peer, 0, rank, next, list);
}

/* A rank that the last job's end has reached goes on. */
static void goes_on(unsigned peer)
{
	jobs_say(peer, message_abort(SML_ERROR_ABORTED, "", true));
}

static void assert_told(unsigned peer, const char *part)
{
	const SmlControl__Envelope *end = jobs_received(peer, SML_CONTROL__ENVELOPE__BODY_ABORT);

	jobs_assert_refused(peer, part);
	assert_int_equal(end->abort->error, SML_ERROR_RANK_DIED);
}

WORLD_TEST(a_member_that_dies_before_it_has_come_is_missed_at_once)
{
	struct list list = list_all();

	goes_on(0);
	come(10, 0, 0, list);
	come(11, 1, 1, list);
	assert_string_equal(jobs_refusal(10), "");
	jobs_hang_up(2);
	assert_told(10, "rank 2 of the last job has died or left");
	assert_told(11, "rank 2 of the last job has died or left");
	/* Whoever is late with the old list is told so, too; and who comes with it again. */
	come(12, 2, 2, list);
	assert_told(12, "rank 2");
	come(13, 0, 0, list);
	jobs_wait(11 * SML_SECOND_NS);
	assert_told(13, "rank 2");
	list = (struct list){"without it", list.tag, 3, 0, false};
	come(20, 0, 0, list);
	come(21, 1, 1, list);
	assert_non_null(jobs_admitted(21));
}

WORLD_TEST(a_member_that_dies_when_it_has_come_is_missed_at_once)
{
	struct list list = list_all();

	come(10, 0, 0, list);
	come(11, 1, 1, list);
	jobs_hang_up(10);
	assert_told(11, "rank 0");
	/* Of the list's ranks that are told so, one dies before the next list. */
	jobs_hang_up(11);
	list = (struct list){"again", list.tag, 6, 0, false};
	come(20, 2, 1, list);
	jobs_wait(11 * SML_SECOND_NS);
	assert_told(20, "rank 1 of the last job");
}

WORLD_TEST(a_process_that_is_new_may_come_and_go_and_the_dead_are_not_in_the_list)
{
	struct list list = {"list", jobs_open_running(3), 3, 0, false};

	/* A new process came first; and rank 2, of which the list says nothing, dies. */
	jobs_join(13, jobs_join_message("list", 1, 2));
	jobs_hang_up(13);
	jobs_hang_up(2);
	come(10, 0, 0, list);
	assert_string_equal(jobs_refusal(10), "");
	jobs_join(14, jobs_join_message("list", 1, 2));
	assert_non_null(jobs_admitted(14));
}

/* Its connection broke without a word, and it lives. */
WORLD_TEST(a_rank_that_comes_back_is_not_dead)
{
	struct list list = list_all();

	jobs_hang_up(2);
	come(10, 2, 2, list);
	come(11, 0, 0, list);
	come(12, 1, 1, list);
	assert_non_null(jobs_admitted(11));
}

/* It gives up a switch that did not run, and may wait for the others elsewhere. */
WORLD_TEST(a_rank_that_leaves_after_a_pause_is_not_missed)
{
	struct list list = list_all();

	for (unsigned peer = 0; peer < 3; peer++)
		goes_on(peer);
	come(10, 0, 0, list);
	come(11, 1, 1, list);
	jobs_pause(6 * SML_SECOND_NS);
	jobs_leave(11);
	jobs_wait(11 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(10), "");
	assert_int_equal(world.jobs.n_jobs, 1);
}

/* The same, and the others come first: they wait for it, for a heartbeat. */
WORLD_TEST(a_rank_that_comes_back_last_is_not_dead)
{
	struct list list = list_all();

	jobs_hang_up(2);
	come(10, 0, 0, list);
	come(11, 1, 1, list);
	jobs_wait(5 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(10), "");
	come(12, 2, 2, list);
	assert_non_null(jobs_admitted(10));
	jobs_wait(8 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
}

/* What it comes too late for has ended, and it does not wait for the others there. */
WORLD_TEST(a_rank_that_comes_back_too_late_is_told_what_the_others_were)
{
	struct list list = list_all();

	jobs_hang_up(2);
	come(10, 0, 0, list);
	jobs_wait(11 * SML_SECOND_NS);
	assert_told(10, "rank 2 of the last job");
	come(12, 2, 2, list);
	assert_told(12, "rank 2 of the last job");
}

/* It has come, and its leaf dies: it looks for another way. */
WORLD_TEST(a_member_is_not_dead_because_its_leaf_is)
{
	struct list list = list_all();

	tree_attach(30, 300);
	come(10, 0, 0, list);
	come_behind(30, 70, 1, 1, list);
	jobs_hang_up(30);
	assert_string_equal(jobs_refusal(10), "");
	come(11, 1, 1, list);
	come(12, 2, 2, list);
	assert_non_null(jobs_admitted(10));
}

/* As long as the members wait, and not for a heartbeat only. */
WORLD_TEST(the_connection_of_an_awaited_member_stays)
{
	struct list list = list_all();

	come(10, 0, 0, list);
	jobs_wait(30 * SML_SECOND_NS);
	assert_false(world.peers[1].ended);
	jobs_hang_up(1);
	assert_told(10, "rank 1");
}

/* It may come again; if it does not, nobody waits for it. */
WORLD_TEST(a_member_that_leaves_before_all_have_come_is_missed)
{
	struct list list = list_all();

	come(10, 0, 0, list);
	come(11, 1, 1, list);
	jobs_leave(11);
	jobs_wait(5 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(10), "");
	come(12, 1, 1, list);
	jobs_wait(6 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(10), "");
	jobs_leave(12);
	jobs_wait(11 * SML_SECOND_NS);
	assert_told(10, "rank 1 of the last job has died or left");
	/* It may live: the next list, for which it has not come yet, waits for it. */
	list.job = "again";
	come(20, 0, 0, list);
	jobs_wait(11 * SML_SECOND_NS);
	assert_string_equal(jobs_refusal(20), "");
}

WORLD_TEST(a_member_whose_own_time_is_over_has_not_died)
{
	struct list list = list_all();

	come(10, 0, 0, list);
	jobs_wait(5 * SML_SECOND_NS);
	come(11, 1, 1, list);
	jobs_wait(56 * SML_SECOND_NS);
	jobs_assert_refused(10, "within this rank's timeout");
	assert_string_equal(jobs_refusal(11), "");
}

/* Without a connection, nobody has a place for longer than a heartbeat. */
WORLD_TEST(a_place_is_not_kept_for_as_long_as_a_member_that_left_would_wait)
{
	struct list list = {"list", jobs_open_running(3), 7, 0, true};

	goes_on(0);
	assert_int_equal(world.jobs.n_kept, 1);
	come(10, 0, 0, list);
	jobs_leave(10);
	for (unsigned peer = 1; peer < 3; peer++)
		goes_on(peer);
	jobs_wait(11 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.n_kept, 0);
}

WORLD_TEST(a_list_that_cannot_be_is_refused)
{
	struct list list = {"list", jobs_open_running(3), 15, 0, false};

	come(10, 0, 0, list);
	jobs_assert_refused(10, "are ranks of the job that they left");
	/* It is not in its own list. */
	list.members = 6;
	come(11, 0, 0, list);
	jobs_assert_refused(11, "are ranks of the job that they left");
}

/* It would count as a rank of that job that has gone, and the others as all that there are. */
WORLD_TEST(a_rank_that_the_last_job_never_had_is_refused)
{
	struct list list = {"list", jobs_open_running(3), 128, 8, false};

	come(10, 7, 0, list);
	assert_string_equal(jobs_refusal(10), "the switch knows no such place in a job");
	jobs_hang_up(10);
	jobs_hang_up(2);
	jobs_apply(11, jobs_was(list.tag, 0, 3));
	assert_null(jobs_decision(11));
	jobs_apply(12, jobs_was(list.tag, 1, 3));
	jobs_assert_decided(12, 2, 1, 2);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* A root and its leaves, without sockets: peer 0 speaks for a leaf, and the others are ranks. */
#include <stdlib.h>
#include <string.h>

#include "control/envelope.h"
#include "support/test.h"
#include "support/tree.h"

/* Ranks 0 and 1 are behind the leaf, and rank 2 is here. */
static void run(void)
{
	SmlControl__Join join;

	jobs_open(4096, 64, false);
	tree_attach(0, 300);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
	for (uint32_t rank = 0; rank < 2; rank++) {
		join = jobs_join_message("tree", rank, 3);
		tree_relay_from(0, 70 + rank, sml_envelope(JOIN, join, &join), 4096, 256);
	}
	jobs_join(1, jobs_join_message("tree", 2, 3));
	tree_relay_ready(0, 70);
	tree_relay_ready(0, 71);
	jobs_ready(1);
}

static void start(void)
{
	run();
	tree_leaf_ready(0, 256);
}

WORLD_TEST(a_leaf_is_one_child_that_stands_for_its_ranks)
{
	const SmlControl__Admitted *job;
	SmlControl__Envelope *admitted;
	const struct sml_pool_rules *rules;

	run();
	job = tree_leaf_job(0);
	rules = &world.plane.jobs[job->job_number % SML_MAX_JOBS];
	assert_int_equal(rules->n_ranks, 2);
	assert_int_equal(job->behind->n_ranks, 2);
	assert_int_equal(job->behind->peers[1], 71);
	assert_int_equal(job->behind->ranks[1], 1);
	assert_true(job->cookie == rules->cookies[job->number] && job->tag == rules->tag);
	assert_int_equal(jobs_admitted(1)->number, 1);
	/* The path of the leaf is the narrowest, and its pool the smallest. */
	assert_int_equal(rules->lanes, 256);
	assert_in_range(rules->head_slots + rules->data_slots, 200, 300);
	/* A rank behind a leaf does not learn the leaf's cookie, nor this switch's tag. */
	admitted = tree_relayed(0, 70, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_non_null(admitted);
	assert_true(admitted->admitted->cookie == 0 && admitted->admitted->tag == 0);
	assert_true(admitted->admitted->report_tag == jobs_admitted(1)->report_tag);
}

WORLD_TEST(a_leaf_and_a_rank_renew_their_own_addresses)
{
	SmlControl__Renew leafs = SML_CONTROL__RENEW__INIT;
	SmlControl__Renew ranks = SML_CONTROL__RENEW__INIT;

	run();
	leafs.number = 5;
	jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, RENEW, renew, &leafs));
	assert_int_equal(world.plane.renewed.n, 0); /* the job does not run yet */
	tree_leaf_ready(0, 256);
	jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, RENEW, renew, &leafs));
	assert_int_equal(world.plane.renewed.n, 1);
	assert_int_equal(world.plane.renewed.child, tree_leaf_job(0)->number);
	assert_int_equal(world.plane.renewed.number, 5);
	ranks.number = 6;
	jobs_say(1, sml_envelope(RENEW, renew, &ranks));
	assert_int_equal(world.plane.renewed.n, 2);
	assert_int_equal(world.plane.renewed.child, jobs_admitted(1)->number);
	assert_int_equal(world.plane.renewed.number, 6);
	/* A leaf keeps what its ranks say of it. */
	tree_relay(0, 70, sml_envelope(RENEW, renew, &ranks));
	assert_int_equal(world.plane.renewed.n, 2);
}

WORLD_TEST(a_job_starts_when_its_leaves_are_ready_too)
{
	run();
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_START));
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START));
	tree_leaf_ready(0, 128);
	assert_int_equal(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes, 128);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_START));
	assert_non_null(tree_relayed(0, 71, SML_CONTROL__ENVELOPE__BODY_START));
}

/* A rank says that it is a leaf which cannot serve the job, and so does one at a leaf. */
WORLD_TEST(a_rank_is_not_a_leaf_of_its_job)
{
	const SmlControl__Envelope *failed;

	start();
	failed = message_without_fields(SML_CONTROL__ENVELOPE__BODY_ABORT,
					tree_leaf_job(0)->job_number);
	jobs_say(1, failed);
	tree_relay(0, 71, failed);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_say(0, failed);
	assert_int_equal(world.jobs.n_jobs, 0);
}

WORLD_TEST(a_death_behind_a_leaf_is_told_to_all)
{
	SmlControl__Envelope *told;

	start();
	tree_relay_end(0, 71, false);
	assert_string_equal(jobs_refusal(1),
			    "rank 1 (host testhost, pid 1001) died: its connection ended");
	told = tree_relayed(0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT);
	assert_non_null(told);
	assert_int_equal(told->abort->error, SML_ERROR_RANK_DIED);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT));
	/* The leaf's operator reads what the root's does. */
	jobs_assert_refused(0, "failed: rank");
	assert_non_null(strstr(world.warning, "job \"tree\" failed: rank"));
	assert_int_equal(world.n_warnings, 1);
	assert_int_equal(world.jobs.n_jobs, 0);
}

WORLD_TEST(leaves_learn_of_a_planned_change_of_the_members)
{
	const SmlControl__Abort *end;

	start();
	tree_relay(0, 71, message_abort(SML_ERROR_ABORTED, "its members change", true));
	end = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort;
	assert_string_equal(end->text, "has ended: rank 1 (host testhost, pid 1001) aborted the "
				       "job: its members change");
	assert_true(end->planned);
	assert_int_equal(world.n_warnings, 0);
}

/* Both ranks behind the leaf have asked to leave, and are gone, before the leaf is. */
WORLD_TEST(a_leaf_outlives_its_ranks)
{
	start();
	for (uint32_t number = 70; number < 72; number++) {
		tree_relay_empty(0, number, SML_CONTROL__ENVELOPE__BODY_LEAVE);
		tree_relay_end(0, number, false);
	}
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_hang_up(0);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_true(world.peers[1].ended);
}

/* Nobody has died: the ranks are to come again, so they get no error. */
WORLD_TEST(the_death_of_a_leaf_ends_connections_without_an_error)
{
	start();
	jobs_hang_up(0);
	assert_string_equal(jobs_refusal(1), "");
	assert_true(world.peers[1].ended);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.slots_in_use, 0);
	assert_int_equal(world.jobs.n_failed, 0);
}

WORLD_TEST(a_leaf_of_a_leaf_that_dies_is_no_death_of_a_rank)
{
	start();
	tree_relay_end(0, 71, true);
	assert_string_equal(jobs_refusal(1), "");
	assert_true(world.peers[1].ended);
	assert_null(tree_relayed(0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT));
}

/* At half of the ranks' heartbeat, which is before any of them counts as dead. */
WORLD_TEST(a_silent_leaf_is_lost_before_its_ranks)
{
	start();
	jobs_wait_silently(4 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_wait_silently(1 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_string_equal(jobs_refusal(1), "");
	assert_true(world.peers[0].ended);
}

/* It may have waited for a leaf of its own meanwhile, which is silent, too. */
WORLD_TEST(a_rank_is_not_blamed_for_the_absence_of_its_leaf)
{
	SmlControl__Leaf again = SML_CONTROL__LEAF__INIT;

	start();
	again.protocol = SML_CONTROL_PROTOCOL;
	again.name = (char *)(uintptr_t) "rack";
	again.slots = 4096;
	again.away_ms = 3000;
	/* The leaf is heard, and its ranks, whose heartbeat is 10 s, are not. */
	jobs_wait(9 * SML_SECOND_NS);
	jobs_say(0, sml_envelope(LEAF, leaf, &again));
	jobs_wait(3 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_wait(1 * SML_SECOND_NS);
	jobs_assert_refused(1, "died: it was silent");
}

WORLD_TEST(a_leaf_speaks_only_for_its_own_ranks)
{
	SmlControl__Mismatch mismatch = SML_CONTROL__MISMATCH__INIT;
	uint32_t ranks[2] = {0, 2};

	start();
	mismatch.ranks = ranks;
	mismatch.n_ranks = 2;
	jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, MISMATCH, mismatch, &mismatch));
	assert_null(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	ranks[1] = 1;
	jobs_say(0, sml_envelope_of(tree_leaf_job(0)->job_number, MISMATCH, mismatch, &mismatch));
	assert_non_null(tree_relayed(0, 70, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	/* A leaf without a rank in the job. */
	tree_attach(2, 4096);
	jobs_say(2, message_without_fields(SML_CONTROL__ENVELOPE__BODY_ABORT,
					   tree_leaf_job(0)->job_number));
	assert_int_equal(world.jobs.n_jobs, 1);
}

/* As for a rank's own connection. */
WORLD_TEST(what_a_leaf_relays_is_checked)
{
	SmlControl__Relay garbage = SML_CONTROL__RELAY__INIT;
	SmlControl__Join join = jobs_join_message("tree", 2, 3); /* it is there */

	run();
	tree_relay_empty(0, 99, SML_CONTROL__ENVELOPE__BODY_LEAVE);
	tree_relay_empty(0, 98, SML_CONTROL__ENVELOPE__BODY_LEAF);
	tree_relay_from(0, 97, sml_envelope_of(1, JOIN, join, &join), 4096, 256);
	assert_non_null(tree_end(0, 97));
	assert_int_equal(world.jobs.n_jobs, 1);
	garbage.peer = 70;
	garbage.message.data = (uint8_t *)(uintptr_t) "\xff\xff";
	garbage.message.len = 2;
	jobs_say(0, sml_envelope(RELAY, relay, &garbage));
	jobs_assert_refused(1, "rank 0 (host testhost, pid 1000) died: it sent something");
	/* Otherwise its connection to the leaf would stay for ever. */
	assert_non_null(tree_end(0, 70));
}

/* Anyone can say that it is one. These have ranks: others would make room (test_job_room). */
JOBS_TEST(leaves_are_limited)
{
	for (unsigned peer = 0; peer < 3; peer++) {
		world.jobs.config.max_members = 2;
		tree_attach(peer, 4096);
		if (peer < 2)
			tree_relay_join(peer, 70, peer, 3);
	}
	jobs_assert_refused(2, "limit of 2 ranks");
	jobs_hang_up(0);
	tree_attach(3, 4096);
	assert_string_equal(jobs_refusal(3), "");
}

/* Each refused Join has an answer. */
JOBS_TEST(a_leaf_that_does_not_read_is_given_up)
{
	tree_attach(0, 4096);
	world.peers[0].deaf = true;
	for (uint32_t number = 0; number < 1000; number++)
		tree_relay_join(0, number, 1, 1);
	assert_false(world.peers[0].ended);
	world.peers[0].deaf = false;
	tree_relay_join(0, 1000, 1, 1);
	world.peers[0].deaf = true;
	for (uint32_t number = 0; number < 2000 && !world.peers[0].ended; number++)
		tree_relay_join(0, number, 1, 1);
	assert_true(world.peers[0].ended);
	assert_null(world.jobs.branches);
	assert_int_equal(world.jobs.n_members, 0);
}

WORLD_TEST(each_admission_has_new_numbers_and_secrets)
{
	uint32_t before, after;
	uint64_t tag;

	run();
	before = tree_leaf_job(0)->job_number;
	tag = tree_leaf_job(0)->tag;
	tree_leaf_ready(0, 256);
	jobs_hang_up(0);
	tree_attach(2, 300);
	tree_relay_join(2, 70, 0, 2);
	tree_relay_join(2, 71, 1, 2);
	after = tree_leaf_job(2)->job_number;
	assert_int_not_equal(before, after);
	assert_true(tag != tree_leaf_job(2)->tag);
}

JOBS_TEST(a_full_leaf_refuses_for_now)
{
	tree_attach(0, 9);
	tree_relay_join(0, 70, 0, 2);
	jobs_join(1, jobs_join_message("tree", 1, 2));
	jobs_assert_refused(1, "the pool of one of the job's leaves");
	assert_true(jobs_received(1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->again);
	assert_int_equal(world.jobs.n_jobs, 0);
}

/* A leaf of the leaf has less room than the leaf itself, or a narrower path. */
JOBS_TEST(the_whole_way_of_a_rank_counts)
{
	SmlControl__Join join = jobs_join_message("tree", 0, 2);

	tree_attach(0, 4096);
	tree_relay_from(0, 70, sml_envelope(JOIN, join, &join), 9, 352);
	jobs_join(1, jobs_join_message("tree", 1, 2));
	jobs_assert_refused(1, "the pool of one of the job's leaves");
	tree_relay_from(0, 71, sml_envelope(JOIN, join, &join), 200, 64);
	jobs_join(2, jobs_join_message("tree", 1, 2));
	assert_int_equal(jobs_admitted(2)->lanes, 64);
	assert_in_range(jobs_admitted(2)->head_slots + jobs_admitted(2)->data_slots, 100, 200);
	/* Ranks of other ways do not notice. */
	tree_relay_join(0, 80, 0, 1);
	jobs_join(3, jobs_join_message("other", 0, 1));
	assert_int_equal(jobs_admitted(3)->lanes, 352);
}

/* A rank elsewhere goes on. */
/* Ranks 0 and 1 are at a leaf of the leaf "rack:28500", and rank 2 is here. */
JOBS_TEST(the_root_shows_the_way_to_each_rank)
{
	SmlControl__Relay relay = SML_CONTROL__RELAY__INIT;
	const SmlControl__Envelope *message;
	SmlControl__Status *status;
	const SmlControl__JobStatus *job;
	SmlControl__Join join;

	tree_attach(0, 300);
	for (uint32_t rank = 0; rank < 2; rank++) {
		join = jobs_join_message("tree", rank, 3);
		message = sml_envelope(JOIN, join, &join);
		relay.peer = 70 + rank;
		relay.leaf = (char *)(uintptr_t) "row:28501";
		relay.slots = 4096;
		relay.lanes = 256;
		relay.message.len = sml_control__envelope__get_packed_size(message);
		relay.message.data = malloc(relay.message.len);
		assert_non_null(relay.message.data);
		sml_control__envelope__pack(message, relay.message.data);
		jobs_say(0, sml_envelope(RELAY, relay, &relay));
		free(relay.message.data);
	}
	/* Nobody knows yet who will send for whom. */
	status = jobs_status();
	assert_int_equal(status->jobs[0]->workers[0]->sender, 0);
	jobs_join(1, jobs_join_message("tree", 2, 3));
	world.plane.contributions[0] = world.plane.contributions[1] = 40;
	world.plane.waited_ms[0] = 39;
	status = jobs_status();
	assert_int_equal(status->n_leaves, 1);
	assert_int_equal(status->leaves[0]->ranks, 2);
	job = status->jobs[0];
	for (unsigned rank = 0; rank < 3; rank++) {
		assert_string_equal(job->workers[rank]->via, rank < 2 ? "rack:28500" : "");
		assert_string_equal(job->workers[rank]->leaf, rank < 2 ? "row:28501" : "");
		assert_int_equal(job->workers[rank]->sender, 1 + rank);
		assert_int_equal(job->workers[rank]->contributions, rank < 2 ? 0 : 40);
	}
	assert_int_equal(job->n_branches, 1);
	assert_string_equal(job->branches[0]->leaf, "rack:28500");
	assert_true(job->branches[0]->ranks == 2 && job->branches[0]->contributions == 40 &&
		    job->branches[0]->waited_ms == 39);
}

JOBS_TEST(a_leaf_that_names_itself_wrongly_later_is_told_why)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;

	tree_attach(0, 300);
	jobs_join(1, jobs_join_message("tree", 0, 2));
	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.name = (char *)(uintptr_t) "";
	jobs_say(0, sml_envelope(LEAF, leaf, &leaf));
	jobs_assert_refused(0, "a leaf's name must have");
	assert_true(world.peers[0].ended);
	assert_false(world.peers[1].ended);
}

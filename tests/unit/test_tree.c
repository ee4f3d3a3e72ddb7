/* SPDX-License-Identifier: BSD-3-Clause */
/* A root and its leaves, without sockets: peer 0 speaks for a leaf, and the others are ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/envelope.h"
#include "support/jobs.h"

static void attach(struct jobs_world *world, unsigned peer, uint32_t slots, uint32_t lanes)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;

	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.version = (char *)(uintptr_t) "1";
	leaf.name = (char *)(uintptr_t) "rack:28500";
	leaf.slots = slots;
	leaf.lanes = lanes;
	jobs_say(world, peer, sml_envelope(LEAF, leaf, &leaf));
}

static void relay(struct jobs_world *world, unsigned leaf, uint32_t number,
		  const SmlControl__Envelope *message)
{
	SmlControl__Relay out = SML_CONTROL__RELAY__INIT;

	out.peer = number;
	out.leaf = (char *)(uintptr_t) "rack:28500";
	out.message.len = sml_control__envelope__get_packed_size(message);
	out.message.data = malloc(out.message.len + 1);
	assert_non_null(out.message.data);
	sml_control__envelope__pack(message, out.message.data);
	jobs_say(world, leaf, sml_envelope(RELAY, relay, &out));
	free(out.message.data);
}

static void relay_join(struct jobs_world *world, unsigned leaf, uint32_t number, uint32_t rank,
		       uint32_t world_size)
{
	SmlControl__Join join = jobs_join_message("tree", rank, world_size);

	relay(world, leaf, number, sml_envelope(JOIN, join, &join));
}

static void relay_ready(struct jobs_world *world, unsigned leaf, uint32_t number)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	ready.lanes = 352;
	relay(world, leaf, number, sml_envelope(READY, ready, &ready));
}

static void relay_end(struct jobs_world *world, unsigned leaf, uint32_t number, bool leaf_died)
{
	SmlControl__Relay out = SML_CONTROL__RELAY__INIT;

	out.peer = number;
	out.over = true;
	out.why = (char *)(uintptr_t) "its connection ended";
	out.leaf_died = leaf_died;
	jobs_say(world, leaf, sml_envelope(RELAY, relay, &out));
}

/* The last message for this rank of a leaf; NULL: none of that kind. The caller frees it. */
static SmlControl__Envelope *relayed(const struct jobs_world *world, unsigned leaf, uint32_t number,
				     SmlControl__Envelope__BodyCase body)
{
	for (unsigned i = world->peers[leaf].n_said; i-- > 0;) {
		const SmlControl__Envelope *said = world->peers[leaf].said[i];
		SmlControl__Envelope *inner;

		if (said->body_case != SML_CONTROL__ENVELOPE__BODY_RELAY ||
		    said->relay->peer != number || said->relay->over)
			continue;
		inner = sml_control__envelope__unpack(NULL, said->relay->message.len,
						      said->relay->message.data);
		if (inner->body_case == body)
			return inner;
		sml_control__envelope__free_unpacked(inner, NULL);
	}
	return NULL;
}

static bool was_relayed(const struct jobs_world *world, unsigned leaf, uint32_t number,
			SmlControl__Envelope__BodyCase body)
{
	SmlControl__Envelope *message = relayed(world, leaf, number, body);
	bool was = message != NULL;

	sml_control__envelope__free_unpacked(message, NULL);
	return was;
}

/* Was the leaf told to end the rank's connection? */
static bool is_over(const struct jobs_world *world, unsigned leaf, uint32_t number)
{
	const struct jobs_peer *peer = &world->peers[leaf];

	for (unsigned i = peer->n_said; i-- > 0;) {
		const SmlControl__Envelope *said = peer->said[i];

		if (said->body_case == SML_CONTROL__ENVELOPE__BODY_RELAY &&
		    said->relay->peer == number && said->relay->over)
			return true;
	}
	return false;
}

static void leaf_ready(struct jobs_world *world, unsigned leaf, uint32_t lanes)
{
	const SmlControl__Envelope *job =
		jobs_told(world, leaf, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB);
	SmlControl__LeafReady ready = SML_CONTROL__LEAF_READY__INIT;

	assert_non_null(job);
	ready.job_number = job->leaf_job->job_number;
	ready.lanes = lanes;
	jobs_say(world, leaf, sml_envelope(LEAF_READY, leaf_ready, &ready));
}

/* Ranks 0 and 1 are behind the leaf, and rank 2 is here. */
static void run(struct jobs_world *world)
{
	jobs_open(world, 4096, 64, false);
	attach(world, 0, 300, 256);
	assert_non_null(jobs_told(world, 0, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
	relay_join(world, 0, 70, 0, 3);
	relay_join(world, 0, 71, 1, 3);
	jobs_join(world, 1, jobs_join_message("tree", 2, 3));
	relay_ready(world, 0, 70);
	relay_ready(world, 0, 71);
	jobs_ready(world, 1);
}

static void a_leaf_is_one_child_that_stands_for_its_ranks(void **state)
{
	struct jobs_world world;
	const SmlControl__LeafJob *job;
	SmlControl__Envelope *admitted;
	const struct sml_pool_rules *rules;

	(void)state;
	run(&world);
	job = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job;
	rules = &world.served[job->job_number % SML_MAX_JOBS];
	assert_int_equal(rules->n_ranks, 2);
	assert_int_equal(job->n_ranks, 2);
	assert_int_equal(job->peers[1], 71);
	assert_int_equal(job->ranks[1], 1);
	assert_true(job->cookie == rules->cookies[job->number] && job->tag == rules->tag);
	assert_int_equal(jobs_admitted(&world, 1)->number, 1);
	/* The path of the leaf is the narrowest, and its pool the smallest. */
	assert_int_equal(rules->lanes, 256);
	assert_in_range(rules->head_slots + rules->data_slots, 200, 300);
	/* A rank behind a leaf does not learn the leaf's cookie, nor this switch's tag. */
	admitted = relayed(&world, 0, 70, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_non_null(admitted);
	assert_true(admitted->admitted->cookie == 0 && admitted->admitted->tag == 0);
	assert_true(admitted->admitted->report_tag == jobs_admitted(&world, 1)->report_tag);
	sml_control__envelope__free_unpacked(admitted, NULL);
	jobs_close(&world);
}

static void a_job_starts_when_its_leaves_are_ready_too(void **state)
{
	struct jobs_world world;

	(void)state;
	run(&world);
	assert_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_START));
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_START));
	leaf_ready(&world, 0, 128);
	assert_int_equal(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_START)->start->lanes,
			 128);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_START));
	assert_true(was_relayed(&world, 0, 71, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_close(&world);
}

static void a_death_behind_a_leaf_is_told_to_all(void **state)
{
	struct jobs_world world;
	SmlControl__Envelope *told;

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	relay_end(&world, 0, 71, false);
	assert_string_equal(jobs_refusal(&world, 1),
			    "rank 1 (host testhost, pid 1001) died: its connection ended");
	told = relayed(&world, 0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT);
	assert_non_null(told);
	assert_int_equal(told->abort->error, SML_ERROR_RANK_DIED);
	sml_control__envelope__free_unpacked(told, NULL);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_END));
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_close(&world);
}

/* Both ranks behind the leaf have asked to leave, and are gone, before the leaf is. */
static void a_leaf_outlives_its_ranks(void **state)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;
	struct jobs_world world;

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	for (uint32_t number = 70; number < 72; number++) {
		relay(&world, 0, number, sml_envelope(LEAVE, leave, &leave));
		relay_end(&world, 0, number, false);
	}
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_hang_up(&world, 0);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_true(world.peers[1].ended);
	jobs_close(&world);
}

/* Nobody has died: the ranks are to come again, so they get no error. */
static void the_death_of_a_leaf_ends_connections_without_an_error(void **state)
{
	struct jobs_world world;

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	jobs_hang_up(&world, 0);
	assert_string_equal(jobs_refusal(&world, 1), "");
	assert_true(world.peers[1].ended);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.jobs.slots_in_use, 0);
	assert_int_equal(world.jobs.n_failed, 0);
	jobs_close(&world);
}

static void a_leaf_of_a_leaf_that_dies_is_no_death_of_a_rank(void **state)
{
	struct jobs_world world;

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	relay_end(&world, 0, 71, true);
	assert_string_equal(jobs_refusal(&world, 1), "");
	assert_true(world.peers[1].ended);
	assert_false(was_relayed(&world, 0, 70, SML_CONTROL__ENVELOPE__BODY_ABORT));
	jobs_close(&world);
}

/* At half of the ranks' heartbeat, which is before any of them counts as dead. */
static void a_silent_leaf_is_lost_before_its_ranks(void **state)
{
	struct jobs_world world;

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	jobs_wait_silently(&world, 4 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_wait_silently(&world, 1 * SML_SECOND_NS);
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_string_equal(jobs_refusal(&world, 1), "");
	assert_true(world.peers[0].ended);
	jobs_close(&world);
}

static void a_leaf_speaks_only_for_its_own_ranks(void **state)
{
	struct jobs_world world;
	SmlControl__LeafMismatch mismatch = SML_CONTROL__LEAF_MISMATCH__INIT;
	SmlControl__LeafFailed failed = SML_CONTROL__LEAF_FAILED__INIT;
	uint32_t ranks[2] = {0, 2};

	(void)state;
	run(&world);
	leaf_ready(&world, 0, 256);
	mismatch.job_number = failed.job_number =
		jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->job_number;
	mismatch.ranks = ranks;
	mismatch.n_ranks = 2;
	jobs_say(&world, 0, sml_envelope(LEAF_MISMATCH, leaf_mismatch, &mismatch));
	assert_null(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	ranks[1] = 1;
	jobs_say(&world, 0, sml_envelope(LEAF_MISMATCH, leaf_mismatch, &mismatch));
	assert_true(was_relayed(&world, 0, 70, SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	/* A leaf without a rank in the job. */
	attach(&world, 2, 4096, 352);
	failed.text = (char *)(uintptr_t) "no";
	jobs_say(&world, 2, sml_envelope(LEAF_FAILED, leaf_failed, &failed));
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_close(&world);
}

/* As for a rank's own connection. */
static void what_a_leaf_relays_is_checked(void **state)
{
	SmlControl__Leave leave = SML_CONTROL__LEAVE__INIT;
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;
	SmlControl__Relay garbage = SML_CONTROL__RELAY__INIT;
	struct jobs_world world;

	(void)state;
	run(&world);
	relay(&world, 0, 99, sml_envelope(LEAVE, leave, &leave));
	relay(&world, 0, 98, sml_envelope(LEAF, leaf, &leaf));
	assert_int_equal(world.jobs.n_jobs, 1);
	garbage.peer = 70;
	garbage.message.data = (uint8_t *)(uintptr_t) "\xff\xff";
	garbage.message.len = 2;
	jobs_say(&world, 0, sml_envelope(RELAY, relay, &garbage));
	assert_non_null(strstr(jobs_refusal(&world, 1),
			       "rank 0 (host testhost, pid 1000) died: it sent something"));
	/* Otherwise its connection to the leaf would stay for ever. */
	assert_true(is_over(&world, 0, 70));
	jobs_close(&world);
}

/* Anyone can say that it is one. */
static void leaves_are_limited(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	for (unsigned peer = 0; peer < 3; peer++) {
		world.jobs.config.max_members = 2;
		attach(&world, peer, 4096, 256);
	}
	assert_non_null(strstr(jobs_refusal(&world, 2), "limit of 2 ranks"));
	jobs_hang_up(&world, 0);
	attach(&world, 3, 4096, 256);
	assert_string_equal(jobs_refusal(&world, 3), "");
	jobs_close(&world);
}

/* Each refused Join has an answer. */
static void a_leaf_that_does_not_read_is_given_up(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 4096, 256);
	world.peers[0].deaf = true;
	for (uint32_t number = 0; number < 1000; number++)
		relay_join(&world, 0, number, 1, 1);
	assert_false(world.peers[0].ended);
	world.peers[0].deaf = false;
	relay_join(&world, 0, 1000, 1, 1);
	world.peers[0].deaf = true;
	for (uint32_t number = 0; number < 2000 && !world.peers[0].ended; number++)
		relay_join(&world, 0, number, 1, 1);
	assert_true(world.peers[0].ended);
	assert_null(world.jobs.branches);
	assert_int_equal(world.jobs.n_members, 0);
	jobs_close(&world);
}

static void each_admission_has_new_numbers_and_secrets(void **state)
{
	struct jobs_world world;
	uint32_t before, after;
	uint64_t tag;

	(void)state;
	run(&world);
	before = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->job_number;
	tag = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->tag;
	leaf_ready(&world, 0, 256);
	jobs_hang_up(&world, 0);
	attach(&world, 2, 300, 256);
	relay_join(&world, 2, 70, 0, 2);
	relay_join(&world, 2, 71, 1, 2);
	after = jobs_told(&world, 2, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->job_number;
	assert_int_not_equal(before, after);
	assert_true(tag !=
		    jobs_told(&world, 2, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->tag);
	jobs_close(&world);
}

static void a_full_leaf_refuses_for_now(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 9, 256);
	relay_join(&world, 0, 70, 0, 2);
	jobs_join(&world, 1, jobs_join_message("tree", 1, 2));
	assert_non_null(strstr(jobs_refusal(&world, 1), "the pool of one of the job's leaves"));
	assert_true(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->again);
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_close(&world);
}

/* A rank elsewhere goes on. */
static void a_leaf_that_names_itself_wrongly_later_is_told_why(void **state)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 300, 256);
	jobs_join(&world, 1, jobs_join_message("tree", 0, 2));
	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.name = (char *)(uintptr_t) "";
	jobs_say(&world, 0, sml_envelope(LEAF, leaf, &leaf));
	assert_non_null(strstr(jobs_refusal(&world, 0), "a leaf's name must have"));
	assert_true(world.peers[0].ended);
	assert_false(world.peers[1].ended);
	jobs_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_one_child_that_stands_for_its_ranks),
		cmocka_unit_test(a_job_starts_when_its_leaves_are_ready_too),
		cmocka_unit_test(a_death_behind_a_leaf_is_told_to_all),
		cmocka_unit_test(the_death_of_a_leaf_ends_connections_without_an_error),
		cmocka_unit_test(a_leaf_outlives_its_ranks),
		cmocka_unit_test(a_leaf_of_a_leaf_that_dies_is_no_death_of_a_rank),
		cmocka_unit_test(a_silent_leaf_is_lost_before_its_ranks),
		cmocka_unit_test(a_leaf_speaks_only_for_its_own_ranks),
		cmocka_unit_test(what_a_leaf_relays_is_checked),
		cmocka_unit_test(leaves_are_limited),
		cmocka_unit_test(a_leaf_that_does_not_read_is_given_up),
		cmocka_unit_test(each_admission_has_new_numbers_and_secrets),
		cmocka_unit_test(a_full_leaf_refuses_for_now),
		cmocka_unit_test(a_leaf_that_names_itself_wrongly_later_is_told_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

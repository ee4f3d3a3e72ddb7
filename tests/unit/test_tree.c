/* SPDX-License-Identifier: BSD-3-Clause */
/* A root and its leaves, without sockets: peer 0 speaks for a leaf, and the others are ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/envelope.h"
#include "job/switch_branches.h"
#include "support/jobs.h"

static void attach(struct jobs_world *world, unsigned peer, uint32_t slots)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;

	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.version = (char *)(uintptr_t) "1";
	leaf.name = (char *)(uintptr_t) "rack:28500";
	leaf.slots = slots;
	jobs_say(world, peer, sml_envelope(LEAF, leaf, &leaf));
}

/* slots, lanes: of the leaves on this rank's way. home: of the leaf that it is connected to. */
static void relay_home(struct jobs_world *world, unsigned leaf, uint32_t number,
		       const SmlControl__Envelope *message, uint32_t slots, uint32_t lanes,
		       uint64_t home)
{
	SmlControl__Relay out = SML_CONTROL__RELAY__INIT;

	out.peer = number;
	out.leaf = (char *)(uintptr_t) "rack:28500";
	out.slots = slots;
	out.lanes = lanes;
	out.home = home;
	out.message.len = sml_control__envelope__get_packed_size(message);
	out.message.data = malloc(out.message.len + 1);
	assert_non_null(out.message.data);
	sml_control__envelope__pack(message, out.message.data);
	jobs_say(world, leaf, sml_envelope(RELAY, relay, &out));
	free(out.message.data);
}

static void relay_from(struct jobs_world *world, unsigned leaf, uint32_t number,
		       const SmlControl__Envelope *message, uint32_t slots, uint32_t lanes)
{
	relay_home(world, leaf, number, message, slots, lanes, 1);
}

static void relay(struct jobs_world *world, unsigned leaf, uint32_t number,
		  const SmlControl__Envelope *message)
{
	relay_from(world, leaf, number, message, 4096, 352);
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
	SmlControl__Join join;

	jobs_open(world, 4096, 64, false);
	attach(world, 0, 300);
	assert_non_null(jobs_told(world, 0, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
	for (uint32_t rank = 0; rank < 2; rank++) {
		join = jobs_join_message("tree", rank, 3);
		relay_from(world, 0, 70 + rank, sml_envelope(JOIN, join, &join), 4096, 256);
	}
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
	attach(&world, 2, 4096);
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
		attach(&world, peer, 4096);
	}
	assert_non_null(strstr(jobs_refusal(&world, 2), "limit of 2 ranks"));
	jobs_hang_up(&world, 0);
	attach(&world, 3, 4096);
	assert_string_equal(jobs_refusal(&world, 3), "");
	jobs_close(&world);
}

/* Each refused Join has an answer. */
static void a_leaf_that_does_not_read_is_given_up(void **state)
{
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 4096);
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
	attach(&world, 2, 300);
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
	attach(&world, 0, 9);
	relay_join(&world, 0, 70, 0, 2);
	jobs_join(&world, 1, jobs_join_message("tree", 1, 2));
	assert_non_null(strstr(jobs_refusal(&world, 1), "the pool of one of the job's leaves"));
	assert_true(jobs_told(&world, 1, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort->again);
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_close(&world);
}

/* A leaf of the leaf has less room than the leaf itself, or a narrower path. */
static void the_whole_way_of_a_rank_counts(void **state)
{
	SmlControl__Join join = jobs_join_message("tree", 0, 2);
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 4096);
	relay_from(&world, 0, 70, sml_envelope(JOIN, join, &join), 9, 352);
	jobs_join(&world, 1, jobs_join_message("tree", 1, 2));
	assert_non_null(strstr(jobs_refusal(&world, 1), "the pool of one of the job's leaves"));
	relay_from(&world, 0, 71, sml_envelope(JOIN, join, &join), 200, 64);
	jobs_join(&world, 2, jobs_join_message("tree", 1, 2));
	assert_int_equal(jobs_admitted(&world, 2)->lanes, 64);
	assert_in_range(jobs_admitted(&world, 2)->head_slots + jobs_admitted(&world, 2)->data_slots,
			100, 200);
	/* Ranks of other ways do not notice. */
	relay_join(&world, 0, 80, 0, 1);
	jobs_join(&world, 3, jobs_join_message("other", 0, 1));
	assert_int_equal(jobs_admitted(&world, 3)->lanes, 352);
	jobs_close(&world);
}

/* A rank elsewhere goes on. */
static void a_leaf_that_names_itself_wrongly_later_is_told_why(void **state)
{
	SmlControl__Leaf leaf = SML_CONTROL__LEAF__INIT;
	struct jobs_world world;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 300);
	jobs_join(&world, 1, jobs_join_message("tree", 0, 2));
	leaf.protocol = SML_CONTROL_PROTOCOL;
	leaf.name = (char *)(uintptr_t) "";
	jobs_say(&world, 0, sml_envelope(LEAF, leaf, &leaf));
	assert_non_null(strstr(jobs_refusal(&world, 0), "a leaf's name must have"));
	assert_true(world.peers[0].ended);
	assert_false(world.peers[1].ended);
	jobs_close(&world);
}

/* ---- many ranks ---- */

#define RACK	52
#define N_RANKS (2 * RACK)

/* Two leaves, peers 0 and 1, with half of the ranks each: number 1000 + rank. */
static void run_racks(struct jobs_world *world)
{
	jobs_open(world, 4096, 64, false);
	for (unsigned leaf = 0; leaf < 2; leaf++)
		attach(world, leaf, 4096);
	for (uint32_t rank = 0; rank < N_RANKS; rank++)
		relay_join(world, rank / RACK, 1000 + rank, rank, N_RANKS);
	for (uint32_t rank = 0; rank < N_RANKS; rank++)
		relay_ready(world, rank / RACK, 1000 + rank);
	for (unsigned leaf = 0; leaf < 2; leaf++)
		leaf_ready(world, leaf, 352);
}

static const SmlControl__LeafJob *leaf_job_of(const struct jobs_world *world, unsigned leaf)
{
	return jobs_told(world, leaf, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job;
}

static void more_ranks_than_children_run_behind_leaves(void **state)
{
	struct jobs_world world;
	SmlControl__Envelope *told;

	(void)state;
	run_racks(&world);
	assert_int_equal(world.jobs.n_jobs, 1);
	for (unsigned leaf = 0; leaf < 2; leaf++) {
		const SmlControl__LeafJob *job = leaf_job_of(&world, leaf);

		assert_int_equal(job->world_size, N_RANKS);
		assert_int_equal(job->n_ranks, RACK);
		for (uint32_t i = 0; i < RACK; i++) {
			assert_int_equal(job->ranks[i], leaf * RACK + i);
			assert_int_equal(job->peers[i], 1000 + leaf * RACK + i);
		}
		assert_int_equal(world.served[job->job_number % SML_MAX_JOBS].n_ranks, 2);
	}
	assert_true(was_relayed(&world, 1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_START));
	relay_end(&world, 1, 1000 + 77, false);
	for (uint32_t rank = 0; rank < N_RANKS; rank++) {
		if (rank == 77)
			continue;
		told = relayed(&world, rank / RACK, 1000 + rank, SML_CONTROL__ENVELOPE__BODY_ABORT);
		assert_non_null(told);
		assert_string_equal(told->abort->text,
				    "rank 77 (host testhost, pid 1077) died: its connection ended");
		sml_control__envelope__free_unpacked(told, NULL);
	}
	jobs_close(&world);
}

static void ranks_that_wait_are_told_of_a_few_that_are_missing(void **state)
{
	struct jobs_world world;
	SmlControl__Envelope *told;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	attach(&world, 0, 4096);
	relay_join(&world, 0, 1000, 4095, 4096);
	told = relayed(&world, 0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_non_null(told);
	assert_int_equal(told->waiting->n_missing, 64);
	assert_int_equal(told->waiting->missing[63], 63);
	assert_int_equal(told->waiting->more, 4095 - 64);
	sml_control__envelope__free_unpacked(told, NULL);
	/* The next one is told at once, and the first one soon: not for each that comes. */
	for (uint32_t rank = 0; rank < 64; rank++)
		relay_join(&world, 0, 2000 + rank, rank, 4096);
	told = relayed(&world, 0, 2063, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_non_null(told);
	assert_int_equal(told->waiting->missing[0], 64);
	sml_control__envelope__free_unpacked(told, NULL);
	told = relayed(&world, 0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(told->waiting->missing[0], 0);
	sml_control__envelope__free_unpacked(told, NULL);
	jobs_wait_silently(&world, SML_TICK_NS);
	told = relayed(&world, 0, 1000, SML_CONTROL__ENVELOPE__BODY_WAITING);
	assert_int_equal(told->waiting->missing[0], 64);
	sml_control__envelope__free_unpacked(told, NULL);
	jobs_close(&world);
}

static void a_switch_has_room_for_64_children(void **state)
{
	struct jobs_world world;
	SmlControl__Envelope *told;
	const char *text;

	(void)state;
	jobs_open(&world, 4096, 64, false);
	world.jobs.config.name = "spine:28500";
	attach(&world, 0, 4096);
	jobs_join_all(&world, 1, "tree", 65);
	assert_int_equal(world.jobs.n_jobs, 0);
	text = jobs_refusal(&world, 65);
	assert_non_null(strstr(text, "a switch takes at most 64 ranks and leaves of a job, but 65 "
				     "of 65 ranks have joined at the switch spine:28500"));
	assert_non_null(strstr(text, "`switchml switch --parent spine:28500'"));
	assert_string_equal(text, jobs_refusal(&world, 1));
	jobs_close(&world);

	/* 63 ranks and a leaf have room; a leaf is a child, too. */
	for (uint32_t n_direct = 63; n_direct <= 64; n_direct++) {
		jobs_open(&world, 4096, 64, false);
		attach(&world, 0, 4096);
		relay_join(&world, 0, 70, 64, 66);
		relay_join(&world, 0, 71, 65, 66);
		for (uint32_t rank = 0; rank < n_direct; rank++)
			jobs_join(&world, 1 + rank, jobs_join_message("tree", rank, 66));
		if (n_direct == 63)
			relay_join(&world, 0, 72, 63, 66);
		told = relayed(&world, 0, 70,
			       n_direct == 63 ? SML_CONTROL__ENVELOPE__BODY_ADMITTED
					      : SML_CONTROL__ENVELOPE__BODY_ABORT);
		assert_non_null(told);
		sml_control__envelope__free_unpacked(told, NULL);
		jobs_close(&world);
	}
}

/* Numbers that would be fine if they were cut to 8, 12 or 16 bits. */
static void impossible_ranks_do_not_join(void **state)
{
	static const struct {
		uint32_t rank, world_size;
		const char *why;
	} joins[] = {
		{0, 0, "world_size 0 is not between 1 and 4096"},
		{0, 4097, "world_size 4097 is not between 1 and 4096"},
		{0, 65538, "world_size 65538 is not between 1 and 4096"},
		{4096, 4096, "rank 4096 is not below world_size 4096"},
		{65536, 4096, "rank 65536 is not below world_size 4096"},
		{UINT32_MAX, 4096, "rank 4294967295 is not below world_size 4096"},
	};
	struct jobs_world world;

	(void)state;
	for (size_t i = 0; i < sizeof(joins) / sizeof(joins[0]); i++) {
		jobs_open(&world, 4096, 64, false);
		jobs_join(&world, 0, jobs_join_message("tree", joins[i].rank, joins[i].world_size));
		assert_string_equal(jobs_refusal(&world, 0), joins[i].why);
		assert_int_equal(world.jobs.n_jobs, 0);
		jobs_close(&world);
	}
	/* Without switches there are no leaves. */
	jobs_open(&world, 4096, 64, true);
	{
		SmlControl__Join join = jobs_join_message("tree", 0, 65);
		uint32_t port = 1;

		join.stripe_ports = &port;
		join.n_stripe_ports = 1;
		jobs_join(&world, 0, join);
	}
	assert_non_null(strstr(jobs_refusal(&world, 0), "without a switch has at most 64 ranks"));
	jobs_close(&world);
}

static void a_leaf_names_no_ranks_of_another(void **state)
{
	static const uint32_t pairs[][2] = {{0, RACK},	    {0, N_RANKS},    {0, 4095},
					    {0, 4096},	    {0, 65536},	     {0, UINT32_MAX},
					    {65536, 65537}, {RACK, RACK + 1}};
	SmlControl__LeafMismatch mismatch = SML_CONTROL__LEAF_MISMATCH__INIT;
	struct jobs_world world;

	(void)state;
	run_racks(&world);
	mismatch.job_number = leaf_job_of(&world, 0)->job_number;
	mismatch.n_ranks = 2;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		mismatch.ranks = (uint32_t *)(uintptr_t)pairs[i];
		jobs_say(&world, 0, sml_envelope(LEAF_MISMATCH, leaf_mismatch, &mismatch));
		for (uint32_t rank = 0; rank < N_RANKS; rank++)
			assert_false(was_relayed(&world, rank / RACK, 1000 + rank,
						 SML_CONTROL__ENVELOPE__BODY_DESCRIBE));
	}
	jobs_close(&world);
}

/* The first leaf's slots wait for ranks 3, 60 and more; it may speak only for the first of them. */
static void what_a_leaf_waits_for_is_reduced_to_its_ranks(void **state)
{
	uint8_t ranks[] = {1u << 3, 0, 0, 0, 0, 0, 0, 1u << 4}, beyond[] = {[13] = 1};
	ProtobufCBinaryData sets[] = {{sizeof(ranks), ranks}, {sizeof(beyond), beyond}};
	SmlControl__SlotState states[2], *slots[2] = {&states[0], &states[1]};
	SmlControl__LeafSlots told = SML_CONTROL__LEAF_SLOTS__INIT;
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;
	const SmlControl__StallReport *report;
	SmlControl__Envelope *answer;
	struct jobs_world world;

	(void)state;
	run_racks(&world);
	/* Slot 0 waits for both leaves. */
	world.slots_lack = 3;
	relay(&world, 1, 1000 + 103, sml_envelope(STALL_REQUEST, stall_request, &request));
	for (unsigned i = 0; i < 2; i++)
		sml_control__slot_state__init(&states[i]);
	told.job_number = leaf_job_of(&world, 0)->job_number;
	told.slots = slots;
	told.n_slots = 2;
	told.sets = sets;
	told.n_sets = 2;
	states[0].set = 1;
	states[1].slot = 1;
	states[1].set = 2;
	jobs_say(&world, 0, sml_envelope(LEAF_SLOTS, leaf_slots, &told));
	ranks[0] = 0;
	ranks[7] = 1u << 4;
	told.n_slots = 1;
	jobs_say(&world, 1, sml_envelope(LEAF_SLOTS, leaf_slots, &told));
	answer = relayed(&world, 1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
	assert_non_null(answer);
	report = answer->stall_report;
	assert_int_equal(report->n_slots, 1);
	assert_int_equal(report->n_ranks, N_RANKS);
	assert_int_equal(report->slots[0]->set, 1);
	/* Ranks 3 and 60. */
	assert_int_equal(report->sets[0].len, 8);
	assert_int_equal(report->sets[0].data[0], 1u << 3);
	assert_int_equal(report->sets[0].data[7], 1u << 4);
	sml_control__envelope__free_unpacked(answer, NULL);
	jobs_close(&world);
}

/* Peer 0 is a leaf that pings, and never answers; the job goes on, and its ranks get a report. */
static void ranks_do_not_wait_for_a_leaf_that_says_nothing(void **state)
{
	SmlControl__StallRequest request = SML_CONTROL__STALL_REQUEST__INIT;
	SmlControl__LeafSlots told = SML_CONTROL__LEAF_SLOTS__INIT;
	SmlControl__SlotState slot = SML_CONTROL__SLOT_STATE__INIT, *slots[1] = {&slot};
	uint8_t rank_60[] = {0, 0, 0, 0, 0, 0, 0, 1u << 4};
	ProtobufCBinaryData set = {sizeof(rank_60), rank_60};
	SmlControl__Envelope *answer;
	struct jobs_world world;

	(void)state;
	run_racks(&world);
	world.slots_lack = 3;
	slot.set = 1;
	told.job_number = leaf_job_of(&world, 0)->job_number;
	told.slots = slots;
	told.sets = &set;
	told.n_slots = told.n_sets = 1;
	for (unsigned time = 0; time < 3; time++) {
		unsigned n_said = world.peers[1].n_said;

		relay(&world, 1, 1000 + 103, sml_envelope(STALL_REQUEST, stall_request, &request));
		jobs_say(&world, 1, sml_envelope(LEAF_SLOTS, leaf_slots, &told));
		jobs_wait(&world, 3 * SML_ANSWER_NS);
		assert_true(world.peers[1].n_said > n_said);
		answer = relayed(&world, 1, 1000 + 103, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT);
		assert_non_null(answer);
		/* Of the other leaf's ranks, only the one that it has named is blamed. */
		assert_int_equal(answer->stall_report->n_slots, 1);
		assert_int_equal(answer->stall_report->sets[0].len, 8);
		assert_int_equal(answer->stall_report->sets[0].data[7], 1u << 4);
		sml_control__envelope__free_unpacked(answer, NULL);
	}
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_close(&world);
}

/* ---- ranks of one machine behind leaves ---- */

/* A rank on a machine, connected to the leaf that drew this home. */
static void relay_machine(struct jobs_world *world, unsigned leaf, uint32_t number, uint32_t rank,
			  uint32_t n, uint8_t machine, uint64_t home)
{
	SmlControl__Join join = jobs_join_message("tree", rank, n);
	uint8_t token[SML_HOST_TOKEN] = {(uint8_t)(rank + 1)};

	join.machine = (ProtobufCBinaryData){1, &machine};
	join.host_token = (ProtobufCBinaryData){sizeof(token), token};
	relay_home(world, leaf, number, sml_envelope(JOIN, join, &join), 4096, 352, home);
}

static void relay_shares(struct jobs_world *world, unsigned leaf, uint32_t number, bool shares)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	ready.lanes = 352;
	ready.shares_memory = shares;
	relay(world, leaf, number, sml_envelope(READY, ready, &ready));
}

/*
 * All on one machine: ranks 0 and 2 at one leaf, 1 at a leaf of it, 3 and 4 at another leaf. Number
 * of rank r: 50 + r.
 */
static void run_machine(struct jobs_world *world)
{
	jobs_open(world, 4096, 64, false);
	attach(world, 0, 4096);
	attach(world, 1, 4096);
	relay_machine(world, 0, 50, 0, 5, 'a', 11);
	relay_machine(world, 0, 51, 1, 5, 'a', 12);
	relay_machine(world, 0, 52, 2, 5, 'a', 11);
	relay_machine(world, 1, 53, 3, 5, 'a', 13);
	relay_machine(world, 1, 54, 4, 5, 'a', 13);
}

static void ranks_that_meet_at_one_leaf_are_one_host(void **state)
{
	static const uint32_t firsts[] = {0, 1, 0}, others[] = {3, 3};
	const SmlControl__LeafJob *job;
	SmlControl__Envelope *admitted;
	struct jobs_world world;

	(void)state;
	run_machine(&world);
	job = leaf_job_of(&world, 0);
	assert_int_equal(job->n_hosts, 3);
	assert_memory_equal(job->hosts, firsts, sizeof(firsts));
	job = leaf_job_of(&world, 1);
	assert_int_equal(job->n_hosts, 2);
	assert_memory_equal(job->hosts, others, sizeof(others));
	admitted = relayed(&world, 0, 52, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_int_equal(admitted->admitted->shards, 1);
	assert_int_equal(admitted->admitted->host_group->n_ranks, 2);
	assert_int_equal(admitted->admitted->host_group->ranks[0], 0);
	assert_int_equal(admitted->admitted->host_group->ranks[1], 2);
	sml_control__envelope__free_unpacked(admitted, NULL);
	admitted = relayed(&world, 0, 51, SML_CONTROL__ENVELOPE__BODY_ADMITTED);
	assert_null(admitted->admitted->host_group);
	sml_control__envelope__free_unpacked(admitted, NULL);
	jobs_close(&world);
}

/* The leaves lose the job of the first admission before they get the second one. */
static void ranks_behind_a_leaf_without_memory_are_admitted_again(void **state)
{
	static const uint32_t alone[] = {0, 1, 2};
	struct jobs_world world;
	uint32_t before;

	(void)state;
	run_machine(&world);
	before = leaf_job_of(&world, 0)->job_number;
	leaf_ready(&world, 0, 352);
	leaf_ready(&world, 1, 352);
	for (uint32_t rank = 0; rank < 5; rank++)
		relay_shares(&world, rank / 3, 50 + rank, rank != 4);
	assert_false(was_relayed(&world, 0, 50, SML_CONTROL__ENVELOPE__BODY_START));
	for (unsigned leaf = 0; leaf < 2; leaf++) {
		assert_int_equal(jobs_told(&world, leaf, SML_CONTROL__ENVELOPE__BODY_LEAF_END)
					 ->leaf_end->job_number,
				 before);
		assert_int_not_equal(leaf_job_of(&world, leaf)->job_number, before);
	}
	assert_memory_equal(leaf_job_of(&world, 0)->hosts, alone, sizeof(alone));
	assert_int_equal(world.jobs.branches->slots_in_use, world.jobs.slots_in_use);
	leaf_ready(&world, 0, 352);
	leaf_ready(&world, 1, 352);
	for (uint32_t rank = 0; rank < 5; rank++)
		relay_shares(&world, rank / 3, 50 + rank, false);
	assert_true(was_relayed(&world, 0, 50, SML_CONTROL__ENVELOPE__BODY_START));
	jobs_close(&world);
}

/* ---- the other side: this switch is the leaf, and peer 0 its parent ---- */

static void probe_parent(struct sml_dataplane *dataplane, uint32_t job, uint16_t port,
			 uint16_t lanes)
{
	(void)dataplane;
	(void)job;
	(void)port;
	(void)lanes;
}

static uint16_t parent_lanes(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return 352;
}

/* Peers 1 … n_ranks have joined at the leaf. Their numbers there: numbers[]. */
static void be_leaf(struct jobs_world *world, unsigned n_ranks, uint32_t *numbers)
{
	SmlControl__Attached attached = SML_CONTROL__ATTACHED__INIT;

	jobs_open(world, 4096, 64, false);
	world->operations.probe_parent = probe_parent;
	world->operations.parent_lanes = parent_lanes;
	world->jobs.config.name = "rack:28500";
	world->jobs.config.parent = "spine:28500";
	sml_jobs_attach(&world->jobs, &world->peers[0].peer, 352, world->now_ns);
	attached.level = 1;
	jobs_say(world, 0, sml_envelope(ATTACHED, attached, &attached));
	for (uint32_t rank = 0; rank < n_ranks; rank++) {
		jobs_join(world, 1 + rank, jobs_join_message("tree", rank, n_ranks));
		numbers[rank] = jobs_told(world, 0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay->peer;
	}
}

/* The leaf's answer to a job with these ranks: why it cannot serve it; NULL: it can. */
static const char *offer_hosts(struct jobs_world *world, uint32_t *numbers, uint32_t *ranks,
			       uint32_t *hosts, size_t n, uint32_t world_size)
{
	SmlControl__LeafJob job = SML_CONTROL__LEAF_JOB__INIT;
	const SmlControl__Envelope *failed;

	job.job_number = 256 * (uint32_t)world->peers[0].n_said;
	job.job = (char *)(uintptr_t) "tree";
	job.epoch = 1;
	job.lanes = 352;
	job.head_slots = job.data_slots = 8;
	job.shards = 1;
	job.data_port = 28500;
	job.world_size = world_size;
	job.peers = numbers;
	job.ranks = ranks;
	job.hosts = hosts ? hosts : ranks;
	job.n_peers = job.n_ranks = job.n_hosts = n;
	jobs_say(world, 0, sml_envelope(LEAF_JOB, leaf_job, &job));
	failed = jobs_told(world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED);
	return failed && failed->leaf_failed->job_number == job.job_number
		       ? failed->leaf_failed->text
		       : NULL;
}

/* No two ranks on one host. */
static const char *offer(struct jobs_world *world, uint32_t *numbers, uint32_t *ranks, size_t n,
			 uint32_t world_size)
{
	return offer_hosts(world, numbers, ranks, NULL, n, world_size);
}

static void a_parent_gives_no_impossible_ranks(void **state)
{
	static const struct {
		uint32_t rank, world_size;
	} lies[] = {{104, 104}, {4096, 4096}, {65536, 4096}, {UINT32_MAX, 4096},
		    {0, 0},	{0, 1},	      {0, 4097},     {0, UINT32_MAX}};
	uint32_t numbers[2], ranks[2] = {1, 0};
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 2, numbers);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		ranks[1] = lies[i].rank;
		assert_string_equal(offer(&world, numbers, ranks, 2, lies[i].world_size),
				    "the parent sends a job with impossible numbers");
		assert_int_equal(world.jobs.n_jobs, 0);
	}
	ranks[1] = 4095;
	assert_null(offer(&world, numbers, ranks, 2, 4096));
	assert_int_equal(world.jobs.n_jobs, 1);
	jobs_close(&world);
}

/* Anybody can say that it is a leaf, here one without slots. That must not change a job of others.
 */
static void a_stranger_that_attaches_to_a_leaf_changes_no_other_way(void **state)
{
	SmlControl__Join join = jobs_join_message("tree", 1, 2);
	const SmlControl__Relay *told;
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 0, NULL);
	attach(&world, 5, 0);
	assert_non_null(jobs_told(&world, 5, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
	assert_int_equal(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF)->leaf->slots, 4096);
	jobs_join(&world, 1, jobs_join_message("tree", 0, 2));
	told = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay;
	assert_int_equal(told->slots, 4096);
	assert_int_equal(told->lanes, 352);
	relay_from(&world, 5, 70, sml_envelope(JOIN, join, &join), 4096, 64);
	told = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay;
	assert_int_equal(told->slots, 0);
	assert_int_equal(told->lanes, 64);
	jobs_close(&world);
}

/* A leaf of this leaf does not answer: the parent gets what there is, and in time. */
static void a_leaf_does_not_wait_for_its_leaves_for_ever(void **state)
{
	SmlControl__Join join = jobs_join_message("tree", 1, 2);
	SmlControl__LeafStalls request = SML_CONTROL__LEAF_STALLS__INIT;
	uint32_t numbers[2], ranks[2] = {0, 1};
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 1, numbers);
	attach(&world, 5, 4096);
	relay_from(&world, 5, 70, sml_envelope(JOIN, join, &join), 4096, 352);
	numbers[1] = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay->peer;
	assert_null(offer(&world, numbers, ranks, 2, 2));
	request.job_number =
		jobs_told(&world, 5, SML_CONTROL__ENVELOPE__BODY_LEAF_JOB)->leaf_job->job_number;
	jobs_say(&world, 0, sml_envelope(LEAF_STALLS, leaf_stalls, &request));
	assert_non_null(jobs_told(&world, 5, SML_CONTROL__ENVELOPE__BODY_LEAF_STALLS));
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS));
	jobs_wait(&world, SML_ANSWER_NS);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS));
	jobs_close(&world);
}

static void say_ready_at_leaf(struct jobs_world *world, uint32_t rank, bool shares)
{
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	ready.lanes = 352;
	ready.shares_memory = shares;
	jobs_say(world, 1 + rank, sml_envelope(READY, ready, &ready));
}

static const char *missing_address(struct sml_dataplane *dataplane, uint32_t job, uint8_t child)
{
	(void)dataplane;
	(void)job;
	(void)child;
	return "is nowhere";
}

static void a_leaf_serves_ranks_of_one_host_as_one_child(void **state)
{
	uint32_t numbers[4], reversed[4], ranks[] = {3, 2, 1, 0}, hosts[] = {1, 0, 1, 0};
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 4, numbers);
	world.operations.misses_address = missing_address;
	for (unsigned i = 0; i < 4; i++)
		reversed[i] = numbers[3 - i];
	assert_null(offer_hosts(&world, reversed, ranks, hosts, 4, 6));
	assert_int_equal(world.jobs.leaf.jobs[0]->rules.n_ranks, 2);
	/* Only the first of each host sends packets: the others have no address here. */
	say_ready_at_leaf(&world, 2, true);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED));
	/* It could not share memory, so it has sent none either. */
	say_ready_at_leaf(&world, 0, false);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED));
	say_ready_at_leaf(&world, 1, true);
	assert_non_null(strstr(
		jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED)->leaf_failed->text,
		"rank 1 (host testhost, pid 1001) is nowhere"));
	jobs_close(&world);
}

static void a_leaf_has_room_for_64_children_too(void **state)
{
	uint32_t numbers[65], ranks[65];
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 65, numbers);
	for (uint32_t i = 0; i < 65; i++)
		ranks[i] = i;
	assert_non_null(strstr(offer(&world, numbers, ranks, 65, 65),
			       "a switch takes at most 64 ranks and leaves of a job"));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_null(offer(&world, numbers, ranks, 64, 65));
	jobs_close(&world);
}

/* The slots of an ended job are free only in a moment, as with XDP. */
static void a_leaf_waits_for_slots_of_ended_jobs(void **state)
{
	SmlControl__LeafStalls request = SML_CONTROL__LEAF_STALLS__INIT;
	uint32_t numbers[2], ranks[2] = {0, 1}, place;
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 2, numbers);
	world.has_no_room_yet = true;
	assert_null(offer(&world, numbers, ranks, 2, 2));
	assert_int_equal(world.jobs.slots_in_use, 16);
	for (place = 0; world.jobs.leaf.jobs[place] == NULL;)
		place++;
	/* What a parent may ask for in the meantime. */
	request.job_number = world.jobs.leaf.jobs[place]->rules.job;
	jobs_say(&world, 0, sml_envelope(LEAF_STALLS, leaf_stalls, &request));
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_SLOTS));
	jobs_wait(&world, 3 * SML_TICK_NS);
	assert_int_equal(world.served[place].n_ranks, 0);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_READY));
	world.has_no_room_yet = false;
	jobs_wait(&world, SML_TICK_NS);
	assert_int_equal(world.served[place].n_ranks, 2);
	assert_non_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_READY));
	/* The parent may end it before. */
	world.has_no_room_yet = true;
	assert_null(offer(&world, numbers, ranks, 2, 2));
	say_ready_at_leaf(&world, 0, false);
	assert_non_null(strstr(
		jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED)->leaf_failed->text,
		"was ready before its switch had slots for the job"));
	assert_int_equal(world.jobs.slots_in_use, 0);
	jobs_close(&world);
}

static void a_leaf_whose_slots_are_in_pieces_says_so_later_too(void **state)
{
	uint32_t numbers[1], ranks[1] = {0};
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 1, numbers);
	world.has_no_room_yet = true;
	assert_null(offer(&world, numbers, ranks, 1, 1));
	world.has_no_room_yet = false;
	world.most_slots = 15;
	jobs_wait(&world, SML_TICK_NS);
	assert_non_null(strstr(
		jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED)->leaf_failed->text,
		"in pieces"));
	assert_int_equal(world.jobs.n_jobs, 0);
	jobs_close(&world);
}

static const char *missing_parent(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return "is nowhere";
}

static void a_leaf_that_cannot_reach_its_parent_says_why(void **state)
{
	const SmlControl__Envelope *failed;
	uint32_t numbers[1], ranks[1] = {0};
	struct jobs_world world;

	(void)state;
	be_leaf(&world, 1, numbers);
	world.operations.misses_parent = missing_parent;
	assert_string_equal(offer(&world, numbers, ranks, 1, 1),
			    "its parent spine:28500 is nowhere");
	failed = jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_FAILED);
	assert_false(failed->leaf_failed->again);
	assert_null(jobs_told(&world, 0, SML_CONTROL__ENVELOPE__BODY_LEAF_READY));
	assert_int_equal(world.jobs.n_jobs, 0);
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
		cmocka_unit_test(the_whole_way_of_a_rank_counts),
		cmocka_unit_test(a_leaf_that_names_itself_wrongly_later_is_told_why),
		cmocka_unit_test(more_ranks_than_children_run_behind_leaves),
		cmocka_unit_test(ranks_that_wait_are_told_of_a_few_that_are_missing),
		cmocka_unit_test(a_switch_has_room_for_64_children),
		cmocka_unit_test(impossible_ranks_do_not_join),
		cmocka_unit_test(a_leaf_names_no_ranks_of_another),
		cmocka_unit_test(what_a_leaf_waits_for_is_reduced_to_its_ranks),
		cmocka_unit_test(ranks_do_not_wait_for_a_leaf_that_says_nothing),
		cmocka_unit_test(ranks_that_meet_at_one_leaf_are_one_host),
		cmocka_unit_test(ranks_behind_a_leaf_without_memory_are_admitted_again),
		cmocka_unit_test(a_parent_gives_no_impossible_ranks),
		cmocka_unit_test(a_leaf_has_room_for_64_children_too),
		cmocka_unit_test(a_leaf_waits_for_slots_of_ended_jobs),
		cmocka_unit_test(a_leaf_whose_slots_are_in_pieces_says_so_later_too),
		cmocka_unit_test(a_leaf_that_cannot_reach_its_parent_says_why),
		cmocka_unit_test(a_leaf_serves_ranks_of_one_host_as_one_child),
		cmocka_unit_test(a_leaf_does_not_wait_for_its_leaves_for_ever),
		cmocka_unit_test(a_stranger_that_attaches_to_a_leaf_changes_no_other_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

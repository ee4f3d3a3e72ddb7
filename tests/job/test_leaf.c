/* SPDX-License-Identifier: BSD-3-Clause */
/* A leaf without sockets: peer 0 is its parent, and the others are ranks and leaves of it. */
#include <string.h>

#include "control/envelope.h"
#include "job/members/job.h"
#include "support/test.h"
#include "support/tree.h"

/* The use of the last probe. */
static uint32_t probed_with;

static void probe_parent(struct sml_dataplane *dataplane, uint32_t job, uint16_t port,
			 uint16_t lanes, uint32_t renewal)
{
	(void)dataplane;
	(void)job;
	(void)port;
	(void)lanes;
	probed_with = renewal;
}

static uint16_t parent_lanes(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return 352;
}

/* Of the rank for which the leaf has spoken last. */
static uint32_t last_number(void)
{
	return jobs_received(0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay->peer;
}

/* Peers 1 … n_ranks have joined at the leaf. Their numbers there: numbers[]. */
static void be_leaf(unsigned n_ranks, uint32_t *numbers)
{
	SmlControl__Attached attached = SML_CONTROL__ATTACHED__INIT;

	jobs_open(4096, 64, false);
	world.operations.probe_parent = probe_parent;
	world.operations.parent_lanes = parent_lanes;
	world.jobs.config.name = "rack:28500";
	world.jobs.config.parent = "spine:28500";
	sml_jobs_attach(&world.jobs, &world.peers[0].peer, 352, world.now_ns);
	attached.level = 1;
	jobs_say(0, sml_envelope(ATTACHED, attached, &attached));
	for (uint32_t rank = 0; rank < n_ranks; rank++) {
		jobs_join(1 + rank, jobs_join_message("tree", rank, n_ranks));
		numbers[rank] = last_number();
	}
}

/* The leaf's answer to a job with these ranks: why it cannot serve it; NULL: it can. */
static const char *offer_hosts(uint32_t *numbers, uint32_t *ranks, uint32_t *hosts, size_t n,
			       uint32_t world_size)
{
	SmlControl__Admitted job = SML_CONTROL__ADMITTED__INIT;
	SmlControl__Behind behind = SML_CONTROL__BEHIND__INIT;
	const SmlControl__Envelope *failed;

	job.job_number = 256 * (uint32_t)(1 + world.peers[0].n_said);
	behind.job = (char *)(uintptr_t) "tree";
	job.epoch = 1;
	job.lanes = 352;
	job.head_slots = job.data_slots = 8;
	job.shards = 1;
	job.data_port = 28500;
	job.behind = &behind;
	behind.world_size = world_size;
	behind.peers = numbers;
	behind.ranks = ranks;
	behind.hosts = hosts ? hosts : ranks;
	behind.n_peers = behind.n_ranks = behind.n_hosts = n;
	jobs_say(0, sml_envelope_of(job.job_number, ADMITTED, admitted, &job));
	failed = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT);
	return failed && failed->job == job.job_number ? failed->abort->text : NULL;
}

/* No two ranks on one host. */
static const char *offer(uint32_t *numbers, uint32_t *ranks, size_t n, uint32_t world_size)
{
	return offer_hosts(numbers, ranks, NULL, n, world_size);
}

WORLD_TEST(a_parent_gives_no_impossible_ranks)
{
	static const struct {
		uint32_t rank, world_size;
	} lies[] = {{104, 104}, {4096, 4096}, {65536, 4096}, {UINT32_MAX, 4096},
		    {0, 0},	{0, 1},	      {0, 4097},     {0, UINT32_MAX}};
	uint32_t numbers[2], ranks[2] = {1, 0};

	be_leaf(2, numbers);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		ranks[1] = lies[i].rank;
		assert_string_equal(offer(numbers, ranks, 2, lies[i].world_size),
				    "the parent sends a job with impossible numbers");
		assert_int_equal(world.jobs.n_jobs, 0);
	}
	ranks[1] = 4095;
	assert_null(offer(numbers, ranks, 2, 4096));
	assert_int_equal(world.jobs.n_jobs, 1);
}

WORLD_TEST(a_parent_that_gives_two_peers_one_rank_has_one_of_them_served)
{
	uint32_t numbers[2], ranks[2] = {0, 0};

	be_leaf(2, numbers);
	assert_null(offer(numbers, ranks, 2, 2));
	assert_int_equal(world.jobs.jobs[0]->pool.rules.n_ranks, 1);
	assert_non_null(world.peers[1].peer.job);
	assert_null(world.peers[2].peer.job);
	jobs_hang_up(1);
	jobs_hang_up(2);
	assert_non_null(tree_end(0, numbers[1]));
}

/* Anybody can say that it is a leaf, here one without slots. That must not change a job of others.
 */
WORLD_TEST(a_stranger_that_attaches_to_a_leaf_changes_no_other_way)
{
	SmlControl__Join join = jobs_join_message("tree", 1, 2);
	const SmlControl__Relay *told;

	be_leaf(0, NULL);
	tree_attach(5, 0);
	assert_non_null(jobs_received(5, SML_CONTROL__ENVELOPE__BODY_ATTACHED));
	assert_int_equal(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_LEAF)->leaf->slots, 4096);
	jobs_join(1, jobs_join_message("tree", 0, 2));
	told = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay;
	assert_int_equal(told->slots, 4096);
	assert_int_equal(told->lanes, 352);
	tree_relay_from(5, 70, sml_envelope(JOIN, join, &join), 4096, 64);
	told = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_RELAY)->relay;
	assert_int_equal(told->slots, 0);
	assert_int_equal(told->lanes, 64);
}

/* The leaf's files are all in use, by ranks that only wait: the one that came first goes. */
WORLD_TEST(a_rank_that_waits_at_a_leaf_makes_room_for_one_that_resumes)
{
	uint32_t numbers[2];

	be_leaf(2, numbers);
	world.jobs.config.max_members = 2;
	jobs_resume(3, jobs_join_message("job", 0, 2), 77, 0, false);
	jobs_assert_refused(1, "a job that has lost its switch");
	assert_true(world.peers[1].ended);
	assert_non_null(tree_end(0, numbers[0]));
	assert_non_null(strstr(tree_end(0, numbers[0])->why,
			       "made room for a job that has lost its switch, at the leaf "));
	/* It lives, and may be a survivor of a job. */
	assert_true(tree_end(0, numbers[0])->leaf_died);
	assert_string_equal(jobs_refusal(3), "");
	assert_non_null(world.peers[3].peer.proxied);
	assert_false(world.peers[2].ended);
	/* The next one needs the other's place, and then nobody is left who only waits. */
	jobs_resume(4, jobs_join_message("job", 1, 2), 77, 0, false);
	assert_true(world.peers[2].ended);
	assert_non_null(world.peers[4].peer.proxied);
	jobs_resume(5, jobs_join_message("other", 0, 2), 78, 0, false);
	jobs_assert_refused(5, "at its limit of 2 ranks");
	assert_false(world.peers[3].ended || world.peers[4].ended);
}

/* A rank that gives it up then closes its connection, or says first that it leaves. */
static void come_back(void (*give_up)(unsigned), bool comes_meanwhile)
{
	const SmlControl__Relay *end;
	unsigned n_said;
	uint32_t number;

	be_leaf(comes_meanwhile ? 0 : 1, &number);
	n_said = world.peers[0].n_said;
	jobs_pause(6 * SML_SECOND_NS);
	if (comes_meanwhile)
		jobs_join(1, jobs_join_message("tree", 0, 1));
	give_up(1);
	assert_int_equal(world.peers[0].said[n_said]->body_case, SML_CONTROL__ENVELOPE__BODY_LEAF);
	assert_int_equal(world.peers[0].said[n_said]->leaf->away_ms, 6000);
	end = tree_end(0, last_number());
	assert_true(end != NULL && end->leaf_died);
	assert_int_equal(world.jobs.leaf.up.ranks.n, 0);
}

WORLD_TEST(a_leaf_says_first_for_how_long_it_did_not_run)
{
	come_back(jobs_hang_up, false);
}

WORLD_TEST(a_leaf_that_did_not_run_relays_no_leave)
{
	come_back(jobs_leave, false);
}

WORLD_TEST(a_leaf_to_which_a_rank_came_while_it_did_not_run_relays_no_leave)
{
	come_back(jobs_leave, true);
}

WORLD_TEST(a_rank_that_begins_makes_nobody_leave_a_leaf)
{
	uint32_t numbers[2];

	be_leaf(2, numbers);
	world.jobs.config.max_members = 2;
	jobs_join(3, jobs_join_message("new", 0, 2));
	jobs_assert_refused(3, "at its limit of 2 ranks");
	assert_false(world.peers[1].ended || world.peers[2].ended);
}

/* A rank with slots here is of a job that has begun. */
WORLD_TEST(a_rank_of_a_job_at_a_leaf_makes_room_for_nobody)
{
	uint32_t numbers[2], ranks[2] = {0, 1};

	be_leaf(2, numbers);
	world.jobs.config.max_members = 2;
	assert_null(offer(numbers, ranks, 2, 2));
	jobs_resume(3, jobs_join_message("job", 0, 2), 77, 0, false);
	jobs_assert_refused(3, "at its limit of 2 ranks");
	assert_false(world.peers[1].ended || world.peers[2].ended);
	assert_null(tree_end(0, numbers[0]));
}

/* Rank 0, which has joined last, and rank 1, which is at a leaf of this leaf, peer 5. */
static uint32_t offer_two_levels(void)
{
	uint32_t numbers[2] = {last_number()}, ranks[2] = {0, 1};

	tree_attach(5, 4096);
	tree_relay_join(5, 70, 1, 2);
	numbers[1] = last_number();
	assert_null(offer(numbers, ranks, 2, 2));
	return tree_leaf_job(5)->job_number;
}

/* The parent asks what slots wait for. */
static uint32_t ask_two_levels(uint64_t slots_lack)
{
	uint32_t number, job;

	be_leaf(1, &number);
	job = offer_two_levels();
	world.plane.slots_lack = slots_lack;
	jobs_say(0, message_without_fields(SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST, job));
	return job;
}

/* Their packets are on the way here: the slot does not wait for these ranks. */
WORLD_TEST(no_rank_is_blamed_for_a_use_that_its_leaf_has_passed)
{
	SmlControl__StallReport told = SML_CONTROL__STALL_REPORT__INIT;
	SmlControl__SlotState passed = SML_CONTROL__SLOT_STATE__INIT, *slots[] = {&passed};
	const SmlControl__StallReport *report;
	uint32_t job;

	passed.use = 1;
	told.slots = slots;
	told.n_slots = 1;
	job = ask_two_levels(2);
	jobs_say(5, sml_envelope_of(job, STALL_REPORT, stall_report, &told));
	report = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT)->stall_report;
	assert_int_equal(report->n_sets, 0);
	assert_true(report->partial);
}

/* A leaf of this leaf does not answer: the parent gets what there is, and in time. */
WORLD_TEST(a_leaf_does_not_wait_for_its_leaves_for_ever)
{
	ask_two_levels(0);
	assert_non_null(jobs_received(5, SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST));
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT));
	jobs_wait(SML_ANSWER_NS);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT));
}

static const char *missing_address(struct sml_dataplane *dataplane, uint32_t job, uint8_t child)
{
	(void)dataplane;
	(void)job;
	(void)child;
	return "is nowhere";
}

WORLD_TEST(a_leaf_serves_ranks_of_one_host_as_one_child)
{
	uint32_t numbers[4], reversed[4], ranks[] = {3, 2, 1, 0}, hosts[] = {1, 0, 1, 0};

	be_leaf(4, numbers);
	world.operations.misses_address = missing_address;
	for (unsigned i = 0; i < 4; i++)
		reversed[i] = numbers[3 - i];
	assert_null(offer_hosts(reversed, ranks, hosts, 4, 6));
	assert_int_equal(world.jobs.jobs[0]->pool.rules.n_ranks, 2);
	/* Only the first of each host sends packets: the others have no address here. */
	jobs_ready_sharing(3, true);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT));
	/* It could not share memory, so it has sent none either. */
	jobs_ready_sharing(1, false);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT));
	jobs_ready_sharing(2, true);
	jobs_assert_refused(0, "rank 1 (host testhost, pid 1001) is nowhere");
}

WORLD_TEST(a_leaf_shows_its_ranks_in_order_and_counts_each_host_once)
{
	uint32_t numbers[4], reversed[4], ranks[] = {3, 2, 1, 0}, hosts[] = {1, 0, 1, 0};
	SmlControl__Status *status;
	const SmlControl__JobStatus *job;

	be_leaf(4, numbers);
	for (unsigned i = 0; i < 4; i++)
		reversed[i] = numbers[3 - i];
	assert_null(offer_hosts(reversed, ranks, hosts, 4, 6));
	/* Children are in the order of ranks, whatever the order of the parent's list. */
	world.plane.contributions[0] = world.plane.contributions[1] = 40;
	world.plane.waited_ms[0] = 10;
	world.plane.waited_ms[1] = 30;
	status = jobs_status();
	assert_string_equal(status->parent, "spine:28500");
	assert_true(status->attached && status->level == 1);
	assert_int_equal(status->n_jobs, 1);
	job = status->jobs[0];
	assert_int_equal(job->n_workers, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(job->workers[i]->rank, i);
		assert_int_equal(job->workers[i]->sender, 1 + i % 2);
		assert_int_equal(job->workers[i]->contributions, 40);
	}
	assert_true(job->workers[0]->waited_ms == 10 && job->workers[2]->waited_ms == 0);
	assert_true(job->workers[1]->waited_ms == 30 && job->workers[3]->waited_ms == 0);
	assert_int_equal(job->n_served, 1);
	assert_int_equal(job->served[0]->contributions, 80);
}

/* Rank 0 is here, and rank 1 at a leaf of this leaf. */
WORLD_TEST(a_leaf_shows_its_stripe_and_what_its_leaf_contributes)
{
	SmlControl__Join join = jobs_join_message("tree", 0, 2);
	SmlControl__Status *status;
	const SmlControl__JobStatus *job;

	be_leaf(0, NULL);
	join.stripe = 1;
	join.stripes = 2;
	jobs_join(1, join);
	(void)offer_two_levels();
	world.plane.contributions[0] = 5;
	world.plane.contributions[1] = 7;
	world.plane.waited_ms[1] = 6;
	status = jobs_status();
	assert_int_equal(status->n_jobs, 1);
	job = status->jobs[0];
	assert_int_equal(job->stripes, 2);
	assert_int_equal(job->served[0]->stripe, 1);
	assert_int_equal(job->served[0]->contributions, 12);
	assert_int_equal(job->n_branches, 1);
	assert_string_equal(job->branches[0]->leaf, "rack:28500");
	assert_true(job->branches[0]->ranks == 1 && job->branches[0]->contributions == 7 &&
		    job->branches[0]->waited_ms == 6);
	assert_string_equal(job->workers[1]->leaf, "rack:28500");
	assert_int_equal(job->workers[0]->contributions, 5);
	assert_int_equal(job->workers[1]->contributions, 0);
}

WORLD_TEST(a_leaf_has_room_for_64_children_too)
{
	uint32_t numbers[65], ranks[65];

	be_leaf(65, numbers);
	for (uint32_t i = 0; i < 65; i++)
		ranks[i] = i;
	assert_non_null(strstr(offer(numbers, ranks, 65, 65),
			       "a switch takes at most 64 ranks and leaves of a job"));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_null(offer(numbers, ranks, 64, 65));
}

/* The slots of an ended job are free only in a moment, as with XDP. */
WORLD_TEST(a_leaf_waits_for_slots_of_ended_jobs)
{
	uint32_t numbers[2], ranks[2] = {0, 1}, place;

	be_leaf(2, numbers);
	world.plane.has_no_room_yet = true;
	assert_null(offer(numbers, ranks, 2, 2));
	assert_int_equal(world.jobs.slots_in_use, 16);
	for (place = 0; world.jobs.jobs[place] == NULL;)
		place++;
	/* What a parent may ask for in the meantime. */
	jobs_say(0, message_without_fields(SML_CONTROL__ENVELOPE__BODY_STALL_REQUEST,
					   world.jobs.jobs[place]->pool.rules.job));
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_STALL_REPORT));
	jobs_wait(3 * SML_TICK_NS);
	assert_int_equal(world.plane.jobs[place].n_ranks, 0);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_READY));
	world.plane.has_no_room_yet = false;
	jobs_wait(SML_TICK_NS);
	assert_int_equal(world.plane.jobs[place].n_ranks, 2);
	assert_non_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_READY));
	/* The parent may end it before. */
	world.plane.has_no_room_yet = true;
	assert_null(offer(numbers, ranks, 2, 2));
	jobs_ready_sharing(1, false);
	jobs_assert_refused(0, "was ready before its switch had slots for the job");
	assert_int_equal(world.jobs.slots_in_use, 0);
}

WORLD_TEST(a_leaf_whose_slots_are_in_pieces_says_so_later_too)
{
	uint32_t numbers[1], ranks[1] = {0};

	be_leaf(1, numbers);
	world.plane.has_no_room_yet = true;
	assert_null(offer(numbers, ranks, 1, 1));
	world.plane.has_no_room_yet = false;
	world.plane.most_slots = 15;
	jobs_wait(SML_TICK_NS);
	jobs_assert_refused(0, "in pieces");
	assert_int_equal(world.jobs.n_jobs, 0);
}

static const char *missing_parent(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return "is nowhere";
}

WORLD_TEST(a_leaf_that_cannot_reach_its_parent_says_why)
{
	const SmlControl__Envelope *failed;
	uint32_t numbers[1], ranks[1] = {0};

	be_leaf(1, numbers);
	world.operations.misses_parent = missing_parent;
	assert_string_equal(offer(numbers, ranks, 1, 1), "its parent spine:28500 is nowhere");
	failed = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_ABORT);
	assert_false(failed->abort->again);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_READY));
	assert_int_equal(world.jobs.n_jobs, 0);
	assert_int_equal(world.n_warnings, 1);
	assert_string_equal(world.warning, "job \"tree\" failed at the leaf rack:28500: its parent "
					   "spine:28500 is nowhere");
}

/* A job of ranks 0 and 1, which runs. */
static uint32_t run(void)
{
	SmlControl__Start start = SML_CONTROL__START__INIT;
	uint32_t numbers[2], ranks[2] = {0, 1}, number;

	be_leaf(2, numbers);
	assert_null(offer(numbers, ranks, 2, 2));
	number = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_READY)->job;
	jobs_say(0, sml_envelope_of(number, START, start, &start));
	return number;
}

WORLD_TEST(a_rank_at_a_leaf_renews_its_address_there)
{
	SmlControl__Renew renew = SML_CONTROL__RENEW__INIT;
	unsigned n_said;

	run();
	n_said = world.peers[0].n_said;
	renew.number = 77;
	jobs_say(2, sml_envelope(RENEW, renew, &renew));
	assert_int_equal(world.plane.renewed.n, 1);
	assert_int_equal(world.plane.renewed.child, 1);
	assert_int_equal(world.plane.renewed.number, 77);
	/* A shard that the job has not, and the parent, which has nothing to do with it. */
	renew.shard = 1;
	jobs_say(2, sml_envelope(RENEW, renew, &renew));
	renew.shard = UINT32_MAX;
	jobs_say(2, sml_envelope(RENEW, renew, &renew));
	assert_int_equal(world.plane.renewed.n, 1);
	assert_int_equal(world.peers[0].n_said, n_said);
}

WORLD_TEST(a_leaf_without_its_parents_results_renews_its_address)
{
	const SmlControl__Envelope *renew;
	uint32_t job = run();

	world.plane.verdicts[SML_VERDICT_RESEND_UP] = 3;
	world.plane.verdicts[SML_VERDICT_COMPLETED] = 9;
	jobs_wait(SML_SECOND_NS);
	assert_null(jobs_received(0, SML_CONTROL__ENVELOPE__BODY_RENEW));
	/* Its ranks ask again, and no result comes. */
	world.plane.verdicts[SML_VERDICT_RESEND_UP]++;
	jobs_wait(SML_SECOND_NS);
	renew = jobs_received(0, SML_CONTROL__ENVELOPE__BODY_RENEW);
	assert_non_null(renew);
	assert_int_equal(renew->job, job);
	assert_int_not_equal(renew->renew->number, 0);
	assert_int_equal(probed_with, renew->renew->number);
}

/* ---- what the operator of a leaf reads ---- */

static void end_job(uint32_t number, const char *how, bool planned)
{
	SmlControl__Abort end = SML_CONTROL__ABORT__INIT;

	end.text = (char *)(uintptr_t)how;
	end.planned = planned;
	jobs_say(0, sml_envelope_of(number, ABORT, abort, &end));
	assert_int_equal(world.jobs.n_jobs, 0);
}

WORLD_TEST(a_job_that_fails_elsewhere_is_in_the_leafs_log)
{
	end_job(run(), "failed: rank 5 (host b, pid 9) died", false);
	assert_int_equal(world.n_warnings, 1);
	assert_string_equal(world.warning, "job \"tree\" failed: rank 5 (host b, pid 9) died");
	jobs_close();
	end_job(run(), "", false);
	assert_int_equal(world.n_warnings, 0);
}

WORLD_TEST(a_planned_change_of_the_members_is_in_the_leafs_log_and_no_warning)
{
	end_job(run(), "has ended: rank 5 goes on elsewhere", true);
	assert_int_equal(world.n_warnings, 0);
	assert_string_equal(world.info, "job \"tree\" has ended: rank 5 goes on elsewhere");
}

WORLD_TEST(a_leaf_tells_its_leaves_how_a_job_has_ended)
{
	const SmlControl__Abort *end;
	uint32_t number;

	be_leaf(1, &number);
	end_job(offer_two_levels(), "has ended: rank 5 goes on elsewhere", true);
	end = jobs_received(5, SML_CONTROL__ENVELOPE__BODY_ABORT)->abort;
	assert_string_equal(end->text, "has ended: rank 5 goes on elsewhere");
	assert_true(end->planned);
}

WORLD_TEST(the_jobs_that_lose_a_leafs_parent_are_in_its_log)
{
	run();
	sml_jobs_lost(&world.jobs, &world.peers[0].peer, "reset by peer", world.now_ns);
	assert_int_equal(world.n_warnings, 2);
	assert_string_equal(world.warning, "job \"tree\" looks for its switches again: the parent "
					   "of a leaf is gone");
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Switches with a program for one lane count, as in hardware: they admit only full packets of that
 * count, and all stripes of a job use it. A program can also lack lanes of two int16. Here they are
 * UDP switches that say so.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"
#include "switch/dataplane.h"

#define RANKS 3

static uint32_t fixed_32(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 32;
}

static uint32_t fixed_64(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 64;
}

static uint32_t fixed_128(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return 128;
}

static bool adds_only_int32(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return true;
}

/* A switch for one lane count, or for any (NULL); writes where it is. */
static struct sml_switch *serve(uint32_t (*fixed_lanes)(struct sml_dataplane *), char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.fixed_lanes = fixed_lanes;
	return serve_with(&operations, address);
}

/* A switch whose program adds only int32 lanes. */
static struct sml_switch *serve_int32(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.fixed_lanes = fixed_64;
	operations.only_int32 = adds_only_int32;
	return serve_with(&operations, address);
}

/* Two stripes. */
static void serve_both(uint32_t (*first)(struct sml_dataplane *),
		       uint32_t (*second)(struct sml_dataplane *), char list[129])
{
	char addresses[2][64];

	serve(first, addresses[0]);
	serve(second, addresses[1]);
	snprintf(list, 129, "%s,%s", addresses[0], addresses[1]);
}

/* Shorter than a packet, full, one lane more, and many with a short rest. */
static const size_t counts[] = {1, 63, 64, 65, 1000, 20000};

static void reduce(struct rank *rank, size_t count)
{
	int32_t *data = calloc(count, sizeof(*data));

	for (size_t i = 0; i < count; i++)
		data[i] = (int32_t)i + rank->rank;
	CHECK(rank,
	      sml_allreduce(rank->context, data, data, count, SML_INT32, SML_SUM, NULL, NULL) == 0);
	for (size_t i = 0; i < count; i++)
		CHECK(rank, data[i] == RANKS * (int32_t)i + RANKS * (RANKS - 1) / 2);
	free(data);
}

/* All packets that the ranks send while they reduce have 64 lanes. */
static void reduce_all(struct rank *rank)
{
	static const unsigned bytes_each = SML_HEADER_BYTES + 4 * 64;
	struct sml_counters before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	uint64_t packets, bytes;

	CHECK(rank, sml_get_counters(rank->context, -1, &before, NULL) == 0);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		reduce(rank, counts[i]);
	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	CHECK(rank, sml_get_counters(rank->context, -1, &after, NULL) == 0);
	packets = after.packets_sent - before.packets_sent;
	bytes = after.bytes_sent - before.bytes_sent;
	if (bytes != packets * bytes_each)
		complain(rank, "%llu packets have %llu bytes, not %u each",
			 (unsigned long long)packets, (unsigned long long)bytes, bytes_each);
}

TEST(all_packets_are_full)
{
	char address[64];

	serve(fixed_64, address);
	run_job(&(struct job){.n_ranks = RANKS, .switch_address = address, .body = reduce_all});
}

/* Whichever of them is first. */
TEST(stripes_agree_on_the_lane_count_of_the_one_that_has_only_one)
{
	char list[129];

	for (int fixed_first = 0; fixed_first < 2; fixed_first++) {
		serve_both(fixed_first ? fixed_64 : NULL, fixed_first ? NULL : fixed_64, list);
		run_job(&(struct job){
			.n_ranks = RANKS, .switch_address = list, .body = reduce_all});
	}
}

#define NARROW 20000

/* As many elements as lanes. */
static void reduce_narrow(struct rank *rank)
{
	struct sml_counters before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	static const uint64_t packets = (NARROW + 63) / 64;
	uint8_t *data = malloc(NARROW);

	for (size_t i = 0; i < NARROW; i++)
		data[i] = (uint8_t)(i + (size_t)rank->rank);
	CHECK(rank, sml_get_counters(rank->context, -1, &before, NULL) == 0);
	CHECK(rank, sml_allreduce(rank->context, data, data, NARROW, SML_UINT8, SML_SUM, NULL,
				  NULL) == 0);
	CHECK(rank, sml_get_counters(rank->context, -1, &after, NULL) == 0);
	CHECK(rank, after.packets_sent - before.packets_sent >= packets);
	for (size_t i = 0; i < NARROW; i++)
		CHECK(rank, data[i] == (uint8_t)(RANKS * i + RANKS * (RANKS - 1) / 2));
	free(data);
}

/* By default, as int32: a fraction next to 1000 is not lost. */
static void reduce_bfloat16(struct rank *rank)
{
	uint16_t data[2000];

	for (unsigned i = 0; i < 2000; i++)
		data[i] = i == 0 ? 0x447a : 0x3f81; /* 1000, 1 + 2^-7 */
	CHECK(rank, sml_allreduce(rank->context, data, data, 2000, SML_BFLOAT16, SML_AVG, NULL,
				  NULL) == 0);
	CHECK(rank, data[1] == 0x3f81);
}

/* Refused at once, and the job goes on. */
static void ask_for_int16(struct rank *rank)
{
	struct sml_options options = SML_OPTIONS_INIT;
	float one = 1;

	options.wire = SML_WIRE_INT16;
	CHECK_ERROR(
		rank,
		sml_allreduce(rank->context, &one, &one, 1, SML_FLOAT32, SML_SUM, &options, NULL),
		-EINVAL, "adds only int32 lanes");
	/* Maxima have no int16 lanes on any wire. */
	CHECK(rank, sml_allreduce(rank->context, &one, &one, 1, SML_FLOAT32, SML_MAX, &options,
				  NULL) == 0);
	reduce_narrow(rank);
	reduce_bfloat16(rank);
}

/* With one switch, and with another stripe that adds both. */
TEST(narrow_integers_take_whole_lanes_where_only_int32_is_added)
{
	char addresses[2][64], list[129];

	serve_at(0, addresses[0]);
	serve_int32(addresses[1]);
	snprintf(list, sizeof(list), "%s,%s", addresses[0], addresses[1]);
	run_job(&(struct job){
		.n_ranks = RANKS, .switch_address = addresses[1], .body = ask_for_int16});
	run_job(&(struct job){.n_ranks = RANKS, .switch_address = list, .body = ask_for_int16});
}

/* What a test asks for, and what it is told. */
struct refusal {
	enum sml_wire wire; /* 0: the default */
	const char *text;
	unsigned n; /* atomic: ranks that were told so */
};

static void ask_for_wire(struct sml_config *config, const struct job *job, int rank)
{
	const struct refusal *refusal = job->argument;

	(void)rank;
	if (refusal->wire != 0)
		config->wire = refusal->wire;
}

static void note_refusal(struct rank *rank, int error)
{
	struct refusal *refusal = rank->job->argument;

	if (strstr(sml_error_text(NULL), refusal->text) != NULL &&
	    (refusal->wire == 0 || error == SML_ERROR_REFUSED))
		__atomic_add_fetch(&refusal->n, 1, __ATOMIC_RELAXED);
	else if (refusal->wire != 0)
		complain(rank, "%d: %s", error, sml_error_text(NULL));
}

static void has_opened(struct rank *rank)
{
	complain(rank, "it was not refused");
}

/* No rank opens the job. Returns how many were told this text; with a wire of theirs, all are. */
static unsigned n_refused(const char *address, enum sml_wire wire, const char *text)
{
	struct refusal refusal = {.wire = wire, .text = text};

	run_job(&(struct job){.n_ranks = RANKS,
			      .switch_address = address,
			      .adjust = ask_for_wire,
			      .body = has_opened,
			      .refused = note_refusal,
			      .argument = &refusal});
	return refusal.n;
}

static unsigned n_asked;

/* Not when a rank joins, but when it is admitted. */
static bool changes_its_mind(struct sml_dataplane *dataplane)
{
	(void)dataplane;
	return n_asked++ > 0;
}

/* No rank may rely on it that its wire was refused. */
TEST(a_switch_that_takes_the_int16_wire_and_then_does_not_harms_no_rank)
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;
	struct sml_context *context;
	struct sml_config config;
	char address[64];
	float one[3] = {1, 2, 3};

	operations.only_int32 = changes_its_mind;
	serve_with(&operations, address);
	configure(&config, &(struct job){.n_ranks = 1, .switch_address = address}, 0);
	config.wire = SML_WIRE_INT16;
	assert_int_equal(sml_open(&context, &config), 0);
	assert_int_equal(sml_allreduce(context, one, one, 3, SML_FLOAT32, SML_SUM, NULL, NULL),
			 -EINVAL);
	assert_non_null(strstr(sml_error_text(context), "the int16 wire is not for this job"));
	assert_int_equal(sml_close(context), 0);
}

/* Each rank has the switch's own words, long before its deadline. */
TEST(the_int16_wire_is_refused_where_only_int32_is_added)
{
	char address[64];

	serve_int32(address);
	assert_int_equal(n_refused(address, SML_WIRE_INT16, "set SWITCHML_WIRE=int32 on all ranks"),
			 RANKS);
}

static struct sml_switch *serve_without_rounding(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.rounds = false;
	return serve_with(&operations, address);
}

static int reduce_floats(struct rank *rank, enum sml_wire wire)
{
	struct sml_options options = SML_OPTIONS_INIT;
	float data[2000] = {1, 2, 3};

	options.wire = wire;
	return sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_SUM, &options, NULL);
}

static void ask_for_int8(struct rank *rank)
{
	float data[2000] = {1, 2, 3};

	CHECK_ERROR(rank, reduce_floats(rank, SML_WIRE_INT8), -EINVAL, "does not round sums");
	/* The job goes on. */
	CHECK(rank, sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_SUM, NULL,
				  NULL) == 0);
	CHECK(rank, data[1] == 2 * (float)rank->n);
}

TEST(the_int8_wire_is_refused_where_switches_do_not_round_it)
{
	char address[64];

	serve_without_rounding(address);
	assert_int_equal(n_refused(address, SML_WIRE_INT8, "set SWITCHML_WIRE=int16 on all ranks"),
			 RANKS);
	run_job(&(struct job){.n_ranks = RANKS, .switch_address = address, .body = ask_for_int8});
}

/* A job whose switches die, what it has used before, and why the next one does not take it over. */
struct move {
	pid_t pids[2];
	enum sml_wire wire;
	const char *reason;
};

/* The switch is dead when this returns: a call that ends after that had another one. */
static void end_switch(struct rank *rank, unsigned n)
{
	const struct move *move = rank->job->argument;

	kill(move->pids[n], SIGKILL);
	CHECK(rank, waitpid(move->pids[n], NULL, 0) == move->pids[n]);
}

/* A call of the wire, and the switch dies: no other one takes the job over, for the reason. */
static void lose_the_only_switch(struct rank *rank)
{
	const struct move *move = rank->job->argument;
	int error = 0;

	CHECK(rank, reduce_floats(rank, move->wire) == 0);
	end_switch(rank, 0);
	for (unsigned i = 0; error == 0 && i < 10000; i++)
		error = reduce_floats(rank, SML_WIRE_INT32);
	CHECK(rank, error < 0);
	CHECK_ERROR(rank, error, error, move->reason);
}

/* One rank, whose switch dies when another one is there. What is lost takes until the deadline. */
static void move_between(struct sml_switch *(*serve_first)(char address[64]),
			 struct sml_switch *(*serve_next)(char address[64]),
			 void (*body)(struct rank *rank), struct move move)
{
	char addresses[2][64] = {"", ""}, list[129];
	struct sml_switch *next;

	move.pids[0] = serve_in_child(serve_first, addresses[0]);
	next = serve_next(addresses[1]);
	snprintf(list, sizeof(list), "%s|%s", addresses[0], addresses[1]);
	run_job(&(struct job){.n_ranks = 1,
			      .switch_address = list,
			      .timeout_ms = move.reason != NULL ? 5000 : 10000,
			      .body = body,
			      .argument = &move});
	/* Before another child: it must not inherit threads. */
	stop_serving(next);
}

static struct sml_switch *serve_fixed_64(char address[64])
{
	return serve(fixed_64, address);
}

/* Its calls may have lanes that the other switch does not add. */
TEST(a_job_that_began_with_int16_lanes_does_not_resume_without_them)
{
	static const char reason[] =
		"adds only int32 lanes, and the job has begun at a switch that also";

	move_between(serve_fixed_64, serve_int32, lose_the_only_switch,
		     (struct move){.wire = SML_WIRE_INT32, .reason = reason});
}

TEST(a_job_that_began_where_sums_are_rounded_does_not_resume_elsewhere)
{
	move_between(serve_udp, serve_without_rounding, lose_the_only_switch,
		     (struct move){.wire = SML_WIRE_INT8,
				   .reason = "does not round sums of narrow lanes"});
}

/* ---- floats as such ---- */

/* More ranks than packets have lanes. */
static void ask_for_too_much(struct rank *rank)
{
	static const char *const too_small =
		"packets of 32 lanes are too small for the exact wire with 33 ranks";

	CHECK_ERROR(rank, reduce_floats(rank, SML_WIRE_EXACT), -EINVAL, too_small);
	CHECK(rank, reduce_floats(rank, SML_WIRE_DEFAULT) == 0);
}

TEST(the_exact_wire_of_integers_needs_packets_with_an_element_of_every_rank)
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;
	char address[64];

	operations.floats = false;
	operations.fixed_lanes = fixed_32;
	serve_with(&operations, address);
	run_job(&(struct job){.n_ranks = 33, .switch_address = address, .body = ask_for_too_much});
}

static void lose_the_switch_and_use_floats(struct rank *rank)
{
	CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	end_switch(rank, 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_EXACT) == 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_GRADIENT) == 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_DEFAULT) == 0);
}

static void use_floats_at_both(struct rank *rank)
{
	for (unsigned i = 0; i < 2; i++) {
		if (i > 0)
			end_switch(rank, 0);
		CHECK(rank, reduce_floats(rank, SML_WIRE_EXACT) == 0);
	}
}

TEST(a_job_that_has_sent_floats_moves_only_to_switches_that_add_them)
{
	static const char reason[] =
		"it adds only integers, and the job has begun at switches that also add floats: "
		"list only switches of one kind in SWITCHML_SWITCH, or set SWITCHML_WIRE=int32";

	move_between(serve_udp, serve_udp, use_floats_at_both, (struct move){0});
	move_between(serve_udp, serve_integers, lose_the_only_switch,
		     (struct move){.wire = SML_WIRE_DEFAULT, .reason = reason});
}

TEST(a_job_that_has_sent_no_floats_moves_anywhere_and_adapts)
{
	move_between(serve_udp, serve_integers, lose_the_switch_and_use_floats, (struct move){0});
}

static int refuse_to_start(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return -EINVAL;
}

/* All ranks are ready there, and then the job does not start. */
static struct sml_switch *serve_integers_in_vain(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.floats = false;
	operations.start_job = refuse_to_start;
	return serve_with(&operations, address);
}

/* Whether the job that came last adds floats. */
static bool adds_floats;

static int note_rules(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	adds_floats = rules->floats;
	return sml_dataplane_udp.add_job(dataplane, rules);
}

static struct sml_switch *serve_and_note(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.add_job = note_rules;
	return serve_with(&operations, address);
}

/* From a switch to another of these, where it may not start, and to a third one. */
static void move_twice(struct sml_switch *(*serve_second)(char address[64]),
		       void (*body)(struct rank *rank), bool keeps_floats)
{
	char addresses[3][64] = {"", "", ""}, list[194];
	struct move move = {.pids = {serve_in_child(serve_udp, addresses[0]),
				     serve_in_child(serve_second, addresses[1])}};

	serve_and_note(addresses[2]);
	snprintf(list, sizeof(list), "%s|%s|%s", addresses[0], addresses[1], addresses[2]);
	run_job(&(struct job){
		.n_ranks = 1, .switch_address = list, .body = body, .argument = &move});
	assert_int_equal(adds_floats, keeps_floats);
}

static void lose_the_switch_and_keep_floats(struct rank *rank)
{
	CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	end_switch(rank, 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	CHECK(rank, reduce_floats(rank, SML_WIRE_EXACT) == 0);
	end_switch(rank, 1);
}

TEST(a_job_that_does_not_start_where_only_integers_are_added_keeps_its_floats)
{
	move_twice(serve_integers_in_vain, lose_the_switch_and_keep_floats, true);
}

static void lose_both_switches(struct rank *rank)
{
	CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	for (unsigned i = 0; i < 2; i++) {
		end_switch(rank, i);
		CHECK(rank, reduce_floats(rank, SML_WIRE_INT32) == 0);
	}
}

/* The third one adds floats, but other ranks may not know that the job has been at the second. */
TEST(a_job_that_has_given_floats_up_says_so_wherever_it_resumes)
{
	move_twice(serve_integers, lose_both_switches, false);
}

/* ---- a rank that was ready there, and not told that the job starts ---- */

static char root[64];

static int die(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return raise(SIGKILL);
}

/* With leaves, as no switch for one lane count. */
static struct sml_switch *serve_int32_alone(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.only_int32 = adds_only_int32;
	operations.rounds = operations.floats = false;
	return serve_with(&operations, address);
}

/* Its parent has told its own ranks to start. */
static struct sml_switch *serve_leaf_that_dies(char address[64])
{
	struct sml_dataplane_operations operations = sml_dataplane_udp;

	operations.start_job = die;
	return serve_leaf_with(&operations, root, address);
}

/* All ranks are refused the same wires. */
static void reduce_by_each_wire(struct rank *rank)
{
	struct sml_options options = SML_OPTIONS_INIT;
	int error;

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0); /* at the next switch */
	for (options.wire = SML_WIRE_DEFAULT; options.wire <= SML_WIRE_GRADIENT; options.wire++) {
		float data[2000] = {1, 2, 3};

		if (options.wire == SML_WIRE_INT64 || options.wire == SML_WIRE_INT8)
			continue;
		error = sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_SUM,
				      &options, NULL);
		CHECK(rank, error == -EINVAL || (error == 0 && data[1] == 2 * (float)rank->n));
		rank->hash = 2 * rank->hash + (error == 0);
	}
}

/* Of so many of the last ranks, the paths go through a leaf of the first switch, or of the next. */
static void begin_in_part(struct sml_switch *(*serve_first)(char address[64]), int n_behind,
			  struct sml_switch *(*serve_next)(char address[64]), int n_behind_next)
{
	char leaf[64] = "", next[64], next_leaf[64] = "", lists[RANKS][130];
	const char *const racks[RANKS] = {lists[0], lists[1], lists[2]};
	pid_t pids[] = {serve_in_child(serve_first, root),
			serve_in_child(serve_leaf_that_dies, leaf)};
	struct sml_switch *opened = serve_next(next);
	struct sml_switch *below = n_behind_next ? serve_leaf(next, next_leaf) : NULL;

	for (int r = 0; r < RANKS; r++)
		snprintf(lists[r], sizeof(lists[r]), "%s|%s", RANKS - r <= n_behind ? leaf : root,
			 RANKS - r <= n_behind_next ? next_leaf : next);
	run_job(&(struct job){
		.n_ranks = RANKS, .switch_addresses = racks, .body = reduce_by_each_wire});
	kill(pids[0], SIGKILL);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	if (below)
		stop_serving(below);
	stop_serving(opened);
}

TEST(ranks_that_begin_where_others_go_on_make_their_calls_as_these)
{
	begin_in_part(serve_int32_alone, 1, serve_udp, 0);
	begin_in_part(serve_without_rounding, 1, serve_udp, 0);
	begin_in_part(serve_integers, 1, serve_udp, 0);
	begin_in_part(serve_udp, 1, serve_integers, 0);
	begin_in_part(serve_udp, 1, serve_udp, 2); /* to where parts of sums are rounded */
	begin_in_part(serve_udp, 2, serve_udp, 0); /* and from there */
}

/* A switch for one lane count has no leaves: it ends when one rank has been told to start. */
TEST(ranks_that_begin_where_others_go_on_send_full_packets_as_these)
{
	char first[64] = "", proxy[64], next[64], command[4096], list[130];
	pid_t pid = serve_in_child(serve_int32, first);
	FILE *output;

	snprintf(command, sizeof(command), "%s %s Start 1 %d", getenv("SML_CUTTING_PROXY"), first,
		 pid);
	output = popen(command, "r"); /* NOLINT(cert-env33-c): a test */
	assert_non_null(output);
	assert_int_equal(fscanf(output, "ready on %63s", proxy), 1);
	serve_udp(next);
	snprintf(list, sizeof(list), "%s|%s", proxy, next);
	run_job(&(struct job){
		.n_ranks = RANKS, .switch_address = list, .body = reduce_by_each_wire});
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(pclose(output), 0);
}

#define ROUNDED 5000

/* Elements of each wire that is rounded, and where rank 0's sums go. */
struct rounded_sums {
	float int8[ROUNDED], int16[ROUNDED];
};

static void sum_rounded(struct rank *rank, enum sml_wire wire, float *sums)
{
	struct sml_options options = SML_OPTIONS_INIT;
	float *data = malloc(ROUNDED * sizeof(*data));

	options.wire = wire;
	for (int i = 0; i < ROUNDED; i++)
		data[i] = (float)((i * 7919 + rank->rank * 104729) % 100003 - 50000) /
			  (float)(1 << i / 64 % 16);
	CHECK(rank, sml_allreduce(rank->context, data, data, ROUNDED, SML_FLOAT32, SML_SUM,
				  &options, NULL) == 0);
	if (rank->rank == 0)
		memcpy(sums, data, ROUNDED * sizeof(*data));
	free(data);
}

static void sum_all_rounded(struct rank *rank)
{
	struct rounded_sums *sums = rank->job->argument;

	sum_rounded(rank, SML_WIRE_INT8, sums->int8);
	sum_rounded(rank, SML_WIRE_INT16, sums->int16);
}

static void sum_all_rounded_at(const char *address, struct rounded_sums *sums)
{
	run_job(&(struct job){.n_ranks = RANKS,
			      .switch_address = address,
			      .body = sum_all_rounded,
			      .argument = sums});
}

/* At a switch for one lane count, at one for any, and at both as stripes. */
TEST(rounded_sums_in_full_packets_have_the_usual_bits)
{
	static struct rounded_sums usual, others;
	char addresses[2][64], list[129];
	const char *const where[] = {addresses[1], list};

	serve(NULL, addresses[0]);
	serve(fixed_64, addresses[1]);
	snprintf(list, sizeof(list), "%s,%s", addresses[0], addresses[1]);
	sum_all_rounded_at(addresses[0], &usual);
	assert_true(usual.int8[0] != usual.int16[0]);
	for (unsigned i = 0; i < 2; i++) {
		sum_all_rounded_at(where[i], &others);
		assert_memory_equal(&others, &usual, sizeof(usual));
	}
}

/* The others may have heard first that one rank has left. */
TEST(stripes_with_programs_for_different_counts_are_refused)
{
	char list[129];

	serve_both(fixed_64, fixed_128, list);
	assert_true(n_refused(list, 0,
			      "takes only packets of 128 lanes, but another stripe of the job only "
			      "up to 64") > 0);
}

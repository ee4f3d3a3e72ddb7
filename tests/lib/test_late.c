/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that waits in a call says for which ranks, in every form of a job. A rank is late until
 * every other one has said so: no test waits for a time.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/calls.h"
#include "support/switch_client.h"
#include "support/test.h"

#define N_RANKS 3

/* What ranks should say, and which are late. */
struct said {
	int late; /* bit r: rank r */
	int wait_notice_ms[N_RANKS];
	const char *whom, *call; /* the parts of the notice */
	struct said_by {
		struct said *said;
		int right, waiting; /* atomic: notices with these parts, and all of any wait */
	} by[N_RANKS];
};

/* A busy machine may make other ranks late, too: only the notices with these parts count. */
static void note(void *self, enum sml_log_level level, const char *text)
{
	struct said_by *by = self;

	if (level != 1 || strncmp(text, "waiting ", 8) != 0)
		return;
	__atomic_add_fetch(&by->waiting, 1, __ATOMIC_RELEASE);
	if (strstr(text, by->said->whom) && strstr(text, by->said->call))
		__atomic_add_fetch(&by->right, 1, __ATOMIC_RELEASE);
	else
		print_message("%s\n", text);
}

static void listen_to(struct sml_config *config, const struct job *job, int rank)
{
	struct said *said = job->argument;

	config->log = note;
	said->by[rank].said = said;
	config->log_self = &said->by[rank];
	config->heartbeat_ms = 10000;
	config->wait_notice_ms = said->wait_notice_ms[rank];
}

static bool is_late(const struct rank *rank, int r)
{
	return ((const struct said *)rank->job->argument)->late >> r & 1;
}

/* Until every rank that waits has said so this often. */
static void be_late(const struct rank *rank, int times)
{
	const struct timespec moment = {.tv_nsec = 10000000};
	const struct said *said = rank->job->argument;
	uint64_t end_ms = now_ms() + 50000;

	for (int r = 0; r < rank->n; r++)
		while (!is_late(rank, r) && said->wait_notice_ms[r] > 0 &&
		       __atomic_load_n(&said->by[r].right, __ATOMIC_ACQUIRE) < times &&
		       now_ms() < end_ms)
			(void)nanosleep(&moment, NULL);
}

static void sum(struct rank *rank, unsigned salt)
{
	call_allreduce(rank, &(struct call){.count = 1000, .wire = SML_WIRE_INT32}, salt);
}

static void call_after_the_others(struct rank *rank)
{
	sum(rank, 0);
	if (is_late(rank, rank->rank))
		be_late(rank, 1);
	sum(rank, 1);
}

/* All ranks that are not late have said so. */
static void expect_said(const struct said *said, int times)
{
	for (int r = 0; r < N_RANKS; r++)
		if (!(said->late >> r & 1) && said->wait_notice_ms[r] > 0 &&
		    said->by[r].right < times)
			fail_msg("rank %d did not say \"%s\" and \"%s\" %d times", r, said->whom,
				 said->call, times);
}

/* Of a job "NAME", which is a form of two whose late ranks differ. */
struct lateness {
	struct said said;
	char whom[160], call[128];
};

static struct job prepare(const struct job *form, const char *name, struct lateness *lateness,
			  int late, const char *whom)
{
	struct job job = *form;
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(lateness->whom, sizeof(lateness->whom), "for %s of %d (%s, pid %d", whom, N_RANKS,
		 host, getpid());
	snprintf(lateness->call, sizeof(lateness->call),
		 ") in job \"%s\", all-reduce 1: 1000 float32, sum, int32 wire", name);
	lateness->said = (struct said){
		.late = late,
		.wait_notice_ms = {50, form->alone ? 0 : 50, 50},
		.whom = lateness->whom,
		.call = lateness->call,
	};
	job.n_ranks = N_RANKS;
	job.name = name;
	job.adjust = listen_to;
	job.body = call_after_the_others;
	job.argument = &lateness->said;
	return job;
}

/*
 * With the first rank late, and with the others. If rank 1 is alone, it cannot know which of the
 * others, who share memory, is late; nor do they know anything of it while one of them is late. A
 * root knows of its leaf's host only that it is late.
 */
static void expect_in(struct job form)
{
	struct lateness first, others;
	struct job jobs[] = {
		form.switch_addresses ? prepare(&form, "first", &first, 3, "ranks 0 and 1")
				      : prepare(&form, "first", &first, 1, "rank 0"),
		form.alone || form.switch_addresses
			? prepare(&form, "others", &others, 4, "rank 2")
			: prepare(&form, "others", &others, 6, "ranks 1 and 2"),
	};

	run_jobs(jobs, 2);
	expect_said(&first.said, 1);
	expect_said(&others.said, 1);
}

static char one[64], two[130], rack[64]; /* switches */
static const char *const tree[] = {rack, rack, one};

static const struct job forms[] = {
	{.switch_address = one},
	{.switch_address = two, .threads = 2},
	{.switch_address = NULL},
	{.switch_address = "embedded"},
	{.host_group = true},
	{.host_group = true, .switch_address = one},
	{.host_group = true, .switch_address = one, .alone = 1 << 1},
	{.switch_addresses = tree},
	{.host_group = true, .switch_addresses = tree},
};
#define N_FORMS (sizeof(forms) / sizeof(forms[0]))

/* Returns the port of the first one. */
static uint16_t open_switches(void)
{
	char other[64];
	uint16_t port = sml_switch_port(serve_udp(one));

	serve_udp(other);
	snprintf(two, sizeof(two), "%s,%s", one, other);
	serve_leaf(one, rack);
	return port;
}

TEST(who_waits_in_a_call_says_for_whom_in_every_form)
{
	(void)open_switches();
	for (unsigned i = 0; i < N_FORMS; i++)
		expect_in(forms[i]);
	/* Also for a rank of the same leaf. The root has one child then, so it has no summary. */
	expect_in((struct job){.switch_address = rack});
}

/* Rank 0 has made two calls, and rank 1 one: neither waits for the other. */
static void call_ahead(struct rank *rank)
{
	float a[100] = {0}, b[100] = {0};
	struct sml_request *first, *second;

	sum(rank, 0);
	if (rank->rank == 2)
		be_late(rank, 1);
	CHECK(rank,
	      sml_allreduce(rank->context, a, a, 100, SML_FLOAT32, SML_SUM, NULL, &first) == 0);
	if (rank->rank > 0)
		CHECK(rank, sml_wait(&first, 1, -1, NULL) == 0);
	CHECK(rank,
	      sml_allreduce(rank->context, b, b, 100, SML_FLOAT32, SML_SUM, NULL, &second) == 0);
	if (rank->rank == 0)
		CHECK(rank, sml_wait(&first, 1, -1, NULL) == 0);
	CHECK(rank, sml_wait(&second, 1, -1, NULL) == 0);
}

TEST(a_rank_that_waits_itself_is_not_named)
{
	struct said said = {.late = 1 << 2,
			    .wait_notice_ms = {50, 50, 50},
			    .whom = "for rank 2 of 3 (",
			    .call = "all-reduce 1: 100 float32"};
	char address[64];

	serve_at(0, address);
	run_job(&(struct job){.n_ranks = N_RANKS,
			      .switch_address = address,
			      .adjust = listen_to,
			      .body = call_ahead,
			      .argument = &said});
	expect_said(&said, 1);
}

static void call_late_twice(struct rank *rank)
{
	sum(rank, 0);
	if (is_late(rank, rank->rank))
		be_late(rank, 2);
	sum(rank, 1);
}

TEST(who_waits_says_so_again_or_not_at_all_if_that_is_turned_off)
{
	struct said said = {.late = 1 << 2,
			    .wait_notice_ms = {50, 0, 50},
			    .whom = "for rank",
			    .call = "all-reduce 1: 1000 float32"};

	run_job(&(struct job){.n_ranks = N_RANKS,
			      .adjust = listen_to,
			      .body = call_late_twice,
			      .argument = &said});
	expect_said(&said, 2);
	assert_int_equal(said.by[1].waiting, 0);
}

/* ---- who was late, afterwards ---- */

#define LATE 2

struct named {
	const char *whom;
	uint16_t port; /* of a switch whose status names the late rank, too; or 0 */
	char end[1024];
};

static void note_end(void *self, enum sml_log_level level, const char *text)
{
	struct named *named = self;

	(void)level;
	if (strstr(text, " has ended: ") != NULL)
		snprintf(named->end, sizeof(named->end), "%s", text);
}

static void listen_to_end(struct sml_config *config, const struct job *job, int rank)
{
	config->summary = rank == 0;
	if (rank == 0) {
		config->log = note_end;
		config->log_self = job->argument;
	}
}

/* Has the switch waited longest for this rank? */
static bool is_named(struct rank *rank, uint16_t port)
{
	SmlControl__Envelope *status = client_status("127.0.0.1", port);
	const SmlControl__JobStatus *job = status->status->jobs[0];
	uint64_t most = 0;
	uint32_t slowest = 0;

	for (size_t i = 0; i < job->n_workers; i++)
		if (job->workers[i]->waited_ms > most) {
			most = job->workers[i]->waited_ms;
			slowest = job->workers[i]->rank;
		}
	client_free(status);
	return most > 0 && (int)slowest == rank->rank;
}

static uint64_t sleep_ms(uint64_t ms)
{
	const struct timespec time = sml_timespec(ms * SML_NS_PER_MS);
	uint64_t begun_ms = now_ms();

	(void)nanosleep(&time, NULL);
	return now_ms() - begun_ms;
}

/*
 * One rank is late, until that has taken three quarters of its time and the switch names it, and
 * waiting half of the others': on a busy machine, they may have begun after it, and a switch that
 * did not run meanwhile has not seen that it was late. So it is late more than once.
 */
static void be_late_for_long(struct rank *rank)
{
	const struct named *named = rank->job->argument;
	uint64_t begun_ms = now_ms(), spent_ms = 0, all_ms, call_ms;
	const bool is_late = rank->rank == LATE;
	int32_t enough, times = 0;

	do {
		all_ms = now_ms() - begun_ms;
		enough = is_late ? ++times > 3 && 4 * spent_ms > 3 * all_ms &&
					   (named->port == 0 || is_named(rank, named->port))
				 : 2 * spent_ms > all_ms;
		if (is_late && !enough)
			spent_ms += sleep_ms(4 * (all_ms - spent_ms) + 50);
		call_ms = now_ms();
		CHECK(rank, sml_allreduce(rank->context, &enough, &enough, 1, SML_INT32, SML_MIN,
					  NULL, NULL) == 0);
		if (!is_late)
			spent_ms += now_ms() - call_ms;
	} while (!enough && now_ms() < begun_ms + 50000);
	CHECK(rank, enough);
}

/* In the line at the job's end. */
static void expect_named(struct job job, uint16_t port, const char *whom)
{
	struct named named = {.whom = whom, .port = port};

	job.n_ranks = N_RANKS;
	job.adjust = listen_to_end;
	job.body = be_late_for_long;
	job.argument = &named;
	run_job(&job);
	print_message("%s\n", named.end);
	assert_non_null(strstr(named.end, named.whom));
}

TEST(a_job_ends_with_the_name_of_the_rank_that_was_late)
{
	uint16_t port = open_switches();

	/* Hosts are the children of the other switches. */
	for (unsigned i = 0; i < N_FORMS; i++)
		expect_named(forms[i], i < 2 ? port : 0, "for rank 2 (");
}

/* The root names the leaf, and the leaf the rank. */
TEST(a_job_in_a_tree_ends_with_the_name_of_the_leaf_whose_rank_was_late)
{
	char root[64], leaf[64];
	const char *const places[] = {root, leaf, leaf};
	struct sml_switch *opened;

	serve_at(0, root);
	opened = serve_leaf(root, leaf);
	expect_named((struct job){.switch_addresses = places}, sml_switch_port(opened),
		     "for the leaf ");
}

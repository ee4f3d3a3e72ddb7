/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that waits in a call says for which ranks, in every form of a job. A rank is late until
 * every other one has said so: no test waits for a time.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/calls.h"
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
static void note(void *self, int level, const char *text)
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
 * others, who share memory, is late; nor do they know anything of it while one of them is late.
 */
static void expect_in(struct job form)
{
	struct lateness first, others;
	struct job jobs[] = {
		prepare(&form, "first", &first, 1, "rank 0"),
		form.alone ? prepare(&form, "others", &others, 4, "rank 2")
			   : prepare(&form, "others", &others, 6, "ranks 1 and 2"),
	};

	run_jobs(jobs, 2);
	expect_said(&first.said, 1);
	expect_said(&others.said, 1);
}

TEST(who_waits_in_a_call_says_for_whom_at_a_switch)
{
	char address[64];
	struct sml_switch *opened = serve_at(0, address);

	expect_in((struct job){.switch_address = address});
	sml_switch_close(opened);
}

TEST(who_waits_in_a_call_says_for_whom_at_several_switches)
{
	char addresses[2][64], list[130];
	struct sml_switch *a = serve_at(0, addresses[0]), *b = serve_at(0, addresses[1]);

	snprintf(list, sizeof(list), "%s,%s", addresses[0], addresses[1]);
	expect_in((struct job){.switch_address = list, .threads = 2});
	sml_switch_close(a);
	sml_switch_close(b);
}

TEST(who_waits_in_a_call_says_for_whom_without_a_switch)
{
	expect_in((struct job){.switch_address = NULL});
	expect_in((struct job){.switch_address = "embedded"});
}

TEST(who_waits_in_a_call_says_for_whom_in_shared_memory)
{
	char address[64];
	struct sml_switch *opened = serve_at(0, address);

	expect_in((struct job){.host_group = true});
	expect_in((struct job){.host_group = true, .switch_address = address});
	expect_in((struct job){.host_group = true, .switch_address = address, .alone = 1 << 1});
	sml_switch_close(opened);
}

/* Rank 0 has made two calls, and rank 1 one: neither waits for the other. */
static void call_ahead(struct rank *rank)
{
	float a[100] = {0}, b[100] = {0};
	struct sml_request *first, *second;

	sum(rank, 0);
	if (rank->rank == 2)
		be_late(rank, 1);
	CHECK(rank, sml_allreduce_async(rank->context, a, a, 100, SML_FLOAT32, SML_SUM, NULL,
					&first) == 0);
	if (rank->rank > 0)
		CHECK(rank, sml_wait(first) == 0);
	CHECK(rank, sml_allreduce_async(rank->context, b, b, 100, SML_FLOAT32, SML_SUM, NULL,
					&second) == 0);
	if (rank->rank == 0)
		CHECK(rank, sml_wait(first) == 0);
	CHECK(rank, sml_wait(second) == 0);
}

TEST(a_rank_that_waits_itself_is_not_named)
{
	struct said said = {.late = 1 << 2,
			    .wait_notice_ms = {50, 50, 50},
			    .whom = "for rank 2 of 3 (",
			    .call = "all-reduce 1: 100 float32"};
	char address[64];
	struct sml_switch *opened = serve_at(0, address);

	run_job(&(struct job){.n_ranks = N_RANKS,
			      .switch_address = address,
			      .adjust = listen_to,
			      .body = call_ahead,
			      .argument = &said});
	expect_said(&said, 1);
	sml_switch_close(opened);
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

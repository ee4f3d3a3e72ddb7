/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that cannot succeed, and what each rank is told: the right error with a clear text.
 * test_deadlines.c has those that a deadline ends, and test_deaths.c those whose ranks die.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/ranks.h"
#include "support/test.h"

/* ---- ranks that disagree ---- */

struct version {
	enum { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, BARRIER } collective;
	size_t count;
	enum sml_type type;
	enum sml_op op;
	enum sml_wire wire;
	int root;
	const char *name;
	bool residual;
};

static int make_call(struct sml_context *context, const struct version *version, void *buffer)
{
	static float residuals[4][10000]; /* of each rank */
	struct sml_info info = SML_INFO_INIT;
	struct sml_options options = {
		.size = sizeof(options), .wire = version->wire, .name = version->name};

	sml_get_info(context, &info);
	options.residual = version->residual ? residuals[info.rank] : NULL;
	switch (version->collective) {
	case ALLREDUCE:
		return sml_allreduce(context, buffer, buffer, version->count, version->type,
				     version->op, &options, NULL);
	case REDUCE:
		return sml_reduce(context, buffer, buffer, version->count, version->type,
				  version->op, version->root, &options, NULL);
	case BROADCAST:
		return sml_broadcast(context, buffer, version->count, version->type, version->root,
				     &options, NULL);
	case ALLGATHER:
		return sml_allgather(context, (char *)buffer + 1000000, buffer, version->count,
				     version->type, &options, NULL);
	case BARRIER:
		break;
	}
	return sml_barrier(context, &options, NULL);
}

/* The call of most ranks, the call of the last one, and the error text of each. */
static const struct disagreement {
	struct version all, last;
	const char *text_all, *text_last;
} disagreements[] = {
	{{.count = 1000}, {.count = 1001}, "1000 float32, sum", "1001 float32, sum"},
	{{.count = 10}, {.count = 11}, "10 float32, sum", "11 float32, sum"},
	{{.count = 100000}, {.count = 50000}, "100000 float32", "50000 float32"},
	{{.count = 1000}, {.count = 1000, .type = SML_INT32}, "1000 float32", "1000 int32"},
	{{.count = 1000}, {.count = 1000, .op = SML_MAX}, "sum, exact wire", "max"},
	{{.count = 1000}, {.count = 1000, .wire = SML_WIRE_INT16}, "exact wire", "int16 wire"},
	{{.count = 1000}, {.count = 1000, .wire = SML_WIRE_INT32}, "exact wire", "int32 wire"},
	{{.count = 10}, {.count = 10, .wire = SML_WIRE_INT32}, "exact wire", "int32 wire"},
	{{.count = 1000, .type = SML_BFLOAT16},
	 {.count = 1000, .type = SML_BFLOAT16, .wire = SML_WIRE_INT32},
	 "exact wire",
	 "int32 wire"},
	{{.count = 1000, .type = SML_FLOAT16},
	 {.count = 1000, .type = SML_FLOAT16, .wire = SML_WIRE_INT32},
	 "exact wire",
	 "int32 wire"},
	{{.collective = REDUCE, .count = 10},
	 {.collective = REDUCE, .count = 10, .wire = SML_WIRE_INT32},
	 "exact wire, to rank 0",
	 "int32 wire, to rank 0"},
	{{.count = 1000}, {.collective = BARRIER}, "all-reduce 1: 1000", "barrier 1"},
	{{.collective = BROADCAST, .count = 1000, .root = 0},
	 {.collective = BROADCAST, .count = 1000, .root = 1},
	 "from rank 0",
	 "from rank 1"},
	{{.collective = BROADCAST, .count = 2000},
	 {.collective = ALLGATHER, .count = 1000},
	 "broadcast 1: 2000",
	 "all-gather 1: 1000 float32 a rank"},
	/* As many bytes. */
	{{.collective = BROADCAST, .count = 100},
	 {.collective = BROADCAST, .count = 50, .type = SML_FLOAT64},
	 "100 float32 from rank 0",
	 "50 float64 from rank 0"},
	{{.collective = BROADCAST, .count = 100000},
	 {.collective = BROADCAST, .count = 400000, .type = SML_BYTE},
	 "100000 float32",
	 "400000 byte"},
	{{.collective = ALLGATHER, .count = 100},
	 {.collective = ALLGATHER, .count = 100, .type = SML_INT32},
	 "100 float32 a rank",
	 "100 int32 a rank"},
	{{.count = 1000},
	 {.collective = BARRIER, .name = "a product elsewhere"},
	 "all-reduce 1: 1000",
	 "a product elsewhere"},
	{{.collective = BARRIER},
	 {.collective = BARRIER, .name = "a product elsewhere"},
	 "barrier 1",
	 "a product elsewhere"},
	{{.collective = BARRIER, .name = "one"},
	 {.collective = BARRIER, .name = "another"},
	 "called one",
	 "called another"},
	{{.collective = ALLGATHER, .count = 10, .name = "a gather to rank 0"},
	 {.collective = ALLGATHER, .count = 10, .name = "a gather to rank 1"},
	 "called a gather to rank 0",
	 "called a gather to rank 1"},
	{{.count = 10, .name = "a vote"}, {.count = 10}, "called a vote", "all-reduce 1: 10"},
};

static void disagree(struct rank *rank)
{
	const struct disagreement *what = rank->job->argument;
	bool last = rank->rank == rank->n - 1;
	char who[24];
	const struct sml_options beginning = {.size = sizeof(beginning), .name = "the beginning"};
	void *buffer = calloc(1, 2000000);
	int error;

	error = sml_barrier(rank->context, &beginning, NULL);
	if (error == 0)
		error = make_call(rank->context, last ? &what->last : &what->all, buffer);
	free(buffer);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, what->text_all);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, what->text_last);
	/* The cause is named if nothing else differs. */
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH,
		    what->all.residual != what->last.residual
			    ? "in the same order, on the same wire (SWITCHML_WIRE), all "
			      "with a residual or all without one"
		    : what->all.wire != what->last.wire
			    ? "in the same order, on the same wire (SWITCHML_WIRE)"
			    : "in the same order");
	if (what->all.wire == what->last.wire && what->all.residual == what->last.residual &&
	    strstr(sml_error_text(rank->context), "in the same order,"))
		complain(rank, "the wrong advice: %s", sml_error_text(rank->context));
	snprintf(who, sizeof(who), "rank %d", rank->n - 1);
	CHECK_ERROR(rank, error, SML_ERROR_MISMATCH, who);
	/* All later calls fail in the same way. */
	CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_MISMATCH,
		    what->text_all);
}

/* Where switches add only integers. */
static const struct disagreement rules[] = {
	{{.count = 1000}, {.count = 1000, .wire = SML_WIRE_GRADIENT}, "exact wire", "int32 wire"},
	{{.count = 10000}, {.count = 10000, .wire = SML_WIRE_GRADIENT}, "int64 wire", "int32 wire"},
	{{.count = 10000},
	 {.count = 10000, .residual = true},
	 "sum, int64 wire",
	 "sum, int32 wire, a residual"},
	{{.count = 10000, .name = "one"},
	 {.count = 10000, .name = "one", .residual = true},
	 "called one",
	 "called one"},
};

TEST(ranks_that_disagree_about_gradients_are_told)
{
	char address[64];

	serve_integers(address);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		run_job(&(struct job){.n_ranks = 4,
				      .switch_address = address,
				      .body = disagree,
				      .argument = (void *)(uintptr_t)&rules[i]});
}

/* Where a host of several ranks rounds their part by default. */
static const struct disagreement exactness = {{.count = 1000},
					      {.count = 1000, .wire = SML_WIRE_EXACT},
					      "exact wire",
					      "exact wire as asked"};

TEST(ranks_that_disagree_about_exactness_are_told)
{
	run_job(&(struct job){.n_ranks = 3,
			      .host_group = true,
			      .alone = 1 << 2,
			      .body = disagree,
			      .argument = (void *)(uintptr_t)&exactness});
}

TEST(ranks_that_disagree_are_told_both_versions)
{
	char addresses[2][64], both[130];

	serve_two(addresses, both);
	for (size_t i = 0; i < sizeof(disagreements) / sizeof(disagreements[0]); i++) {
		struct job job = {.n_ranks = 2,
				  .switch_address = i & 1 ? "embedded" : NULL,
				  .body = disagree,
				  .argument = (void *)(uintptr_t)&disagreements[i]};

		run_job(&job);
		job.switch_address = NULL;
		job.host_group = true;
		run_job(&job);
		job.switch_address = addresses[0];
		run_job(&job);
		/* Which switch finds it, and which only sees a rank leave, differs. */
		job.switch_address = both;
		run_job(&job);
		job.host_group = false;
		run_job(&job);
		/* Two of a host, and two hosts. */
		job = (struct job){.n_ranks = 3,
				   .host_group = true,
				   .alone = i & 1 ? 1 << 0 : 1 << 2,
				   .body = disagree,
				   .argument = (void *)(uintptr_t)&disagreements[i]};
		run_job(&job);
	}
}

/* ---- abort ---- */

/* All ranks have the result of their first call. */
static pthread_barrier_t all_here;

static void abort_from_elsewhere(struct rank *rank)
{
	int32_t data[10] = {0};

	CHECK(rank, sml_barrier(rank->context, NULL, NULL) == 0);
	pthread_barrier_wait(&all_here);
	if (rank->rank == 1) {
		usleep(50000); /* Most probably the others wait by now. */
		CHECK(rank, sml_abort(rank->context, "the loss is NaN") == 0);
		CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_ABORTED,
			    "the loss is NaN");
		return;
	}
	CHECK_ERROR(rank,
		    sml_allreduce(rank->context, data, data, 10, SML_INT32, SML_SUM, NULL, NULL),
		    SML_ERROR_ABORTED, "the loss is NaN");
	CHECK_ERROR(rank, sml_barrier(rank->context, NULL, NULL), SML_ERROR_ABORTED, "rank 1");
}

TEST(an_abort_ends_everybodys_calls_with_its_reason)
{
	pthread_barrier_init(&all_here, NULL, 3);
	for (int shared = 0; shared < 2; shared++)
		run_job(&(struct job){
			.n_ranks = 3, .host_group = shared, .body = abort_from_elsewhere});
	pthread_barrier_destroy(&all_here);
}

/* ---- arguments ---- */

/* The array of one call, and then of another, which are not those of a third meanwhile. */
static void share_residuals(struct rank *rank)
{
	float data[3][64] = {{0}}, residual[64] = {0};
	const struct {
		float *residual, *data;
		const char *text; /* NULL: right */
	} rows[] = {
		{residual, data[0], NULL},
		{data[2], data[2], "overlaps send or recv"},
		{residual, data[1], "has not ended"},
		{residual + 63, data[1], "has not ended"},
		{data[0] + 63, data[1], "has not ended"},
	};
	struct sml_request *first = NULL;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sml_options options = {.size = sizeof(options),
						    .residual = rows[i].residual};
		int error = sml_allreduce(rank->context, rows[i].data, rows[i].data, i ? 1 : 64,
					  SML_FLOAT32, SML_SUM, &options, i ? NULL : &first);

		if (rows[i].text)
			CHECK_ERROR(rank, error, -EINVAL, rows[i].text);
		else
			CHECK(rank, error == 0);
	}
	CHECK(rank, sml_wait(&first, 1, -1, NULL) == 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct sml_options options = {.size = sizeof(options),
						    .residual = i ? data[0] : residual};

		CHECK(rank, sml_allreduce(rank->context, data[1], data[1], 64, SML_FLOAT32, SML_SUM,
					  &options, NULL) == 0);
	}
}

TEST(a_residual_is_not_that_of_two_calls_at_once)
{
	run_job(&(struct job){.n_ranks = 2, .body = share_residuals});
}

/* A thread that begins calls at the same moments as another one. */
struct rival {
	struct rank *rank;
	unsigned *n_there; /* atomic: how often one has come to such a moment */
	float *residual;
	int errors[10];
};

/* A barrier that wakes nobody, because one would be earlier. */
static void meet(unsigned *n_there, unsigned moment)
{
	__atomic_add_fetch(n_there, 1, __ATOMIC_ACQ_REL);
	for (unsigned turn = 0; __atomic_load_n(n_there, __ATOMIC_ACQUIRE) < 2 * moment; turn++)
		if (turn > 100000)
			sched_yield();
}

static void *begin_with_a_rival(void *self)
{
	struct rival *rival = self;
	const struct sml_options options = {.size = sizeof(options), .residual = rival->residual};
	float data[64] = {0};

	for (unsigned i = 0; i < sizeof(rival->errors) / sizeof(rival->errors[0]); i++) {
		struct sml_request *request = NULL;

		meet(rival->n_there, 2 * i + 1);
		rival->errors[i] = sml_allreduce(rival->rank->context, data, data, 64, SML_FLOAT32,
						 SML_SUM, &options, &request);
		meet(rival->n_there, 2 * i + 2);
		if (rival->errors[i] == 0)
			rival->errors[i] = sml_wait(&request, 1, -1, NULL);
	}
	return NULL;
}

static void begin_at_once(struct rank *rank)
{
	static struct rival rivals[2];
	float residual[64] = {0};
	unsigned n_there = 0;
	pthread_t other;

	for (unsigned i = 0; i < 2; i++)
		rivals[i] = (struct rival){rank, &n_there, residual, {0}};
	pthread_create(&other, NULL, begin_with_a_rival, &rivals[1]);
	begin_with_a_rival(&rivals[0]);
	pthread_join(other, NULL);
	for (unsigned i = 0; i < sizeof(rivals[0].errors) / sizeof(rivals[0].errors[0]); i++)
		CHECK(rank, rivals[0].errors[i] + rivals[1].errors[i] == -EINVAL &&
				    rivals[0].errors[i] * rivals[1].errors[i] == 0);
}

TEST(a_residual_is_that_of_one_of_two_calls_that_begin_at_once)
{
	/* A job's first calls take memory between the check of the arguments and their beginning.
	 */
	for (unsigned i = 0; i < 30; i++)
		run_job(&(struct job){.n_ranks = 1, .body = begin_at_once});
}

#define REFUSED(call, part) CHECK_ERROR(rank, call, -EINVAL, part)

static void make_mistakes(struct rank *rank)
{
	struct sml_context *c = rank->context;
	float data[64] = {0};

	REFUSED(sml_allreduce(c, NULL, data, 1, SML_FLOAT32, SML_SUM, NULL, NULL), "send is NULL");
	REFUSED(sml_allreduce(c, data, NULL, 1, SML_FLOAT32, SML_SUM, NULL, NULL), "recv is NULL");
	REFUSED(sml_allreduce(c, data, data + 1, 9, SML_FLOAT32, SML_SUM, NULL, NULL), "overlap");
	REFUSED(sml_allreduce(c, data, data, 1, (enum sml_type)11, SML_SUM, NULL, NULL), "type 11");
	REFUSED(sml_allreduce(c, data, data, 1, SML_BYTE, SML_SUM, NULL, NULL), "SML_BYTE");
	REFUSED(sml_allreduce(c, data, data, 1, SML_INT32, (enum sml_op)4, NULL, NULL),
		"operation 4");
	REFUSED(sml_allreduce(c, data, data, 1, SML_FLOAT32, SML_SUM,
			      &(struct sml_options){.size = sizeof(struct sml_options),
						    .wire = (enum sml_wire)7},
			      NULL),
		"wire 7");
	REFUSED(sml_allreduce(c, (char *)data + 1, data, 1, SML_FLOAT32, SML_SUM, NULL, NULL),
		"not aligned");
	REFUSED(sml_allreduce(c, data, data, SIZE_MAX / 2, SML_INT32, SML_SUM, NULL, NULL),
		"too many");
	REFUSED(sml_allreduce(c, data, data, SIZE_MAX / 16, SML_INT32, SML_SUM, NULL, NULL),
		"too many");
	REFUSED(sml_broadcast(c, data, 1, SML_FLOAT32, 2, NULL, NULL), "root 2");
	REFUSED(sml_broadcast(c, NULL, 1, SML_FLOAT32, rank->rank, NULL, NULL), "data is NULL");
	REFUSED(sml_reduce_scatter(c, data, data + 1, 9, SML_FLOAT32, SML_SUM, NULL, NULL),
		"overlap");
	REFUSED(sml_reduce(c, data, data, 1, SML_FLOAT32, SML_SUM, -1, NULL, NULL), "root -1");
	REFUSED(sml_reduce(c, data, data, 1, SML_BYTE, SML_SUM, 0, NULL, NULL),
		"bytes cannot be combined");
	REFUSED(sml_reduce(c, NULL, data, 1, SML_FLOAT32, SML_SUM, 0, NULL, NULL), "send is NULL");
	REFUSED(sml_reduce(c, data, NULL, 1, SML_FLOAT32, SML_SUM, rank->rank, NULL, NULL),
		"recv is NULL");
	REFUSED(sml_reduce(c, data, data + 1, 9, SML_FLOAT32, SML_SUM, rank->rank, NULL, NULL),
		"overlap");
	/* None of these errors has harmed the job. */
	CHECK(rank, sml_allreduce(c, data, data, 64, SML_FLOAT32, SML_SUM, NULL, NULL) == 0);
}

TEST(a_wrong_argument_is_named_and_harms_nothing)
{
	run_job(&(struct job){.n_ranks = 2, .body = make_mistakes});
}

/* ---- fork ---- */

static void fork_and_use(struct rank *rank)
{
	struct sml_request *request = NULL;
	float data[4] = {0};
	int status = -1;
	pid_t child;

	CHECK(rank, sml_allreduce(rank->context, data, data, 4, SML_FLOAT32, SML_SUM, NULL,
				  &request) == 0);
	child = fork();
	if (child == 0) {
		int wrong = sml_barrier(rank->context, NULL, NULL) != SML_ERROR_FORKED;

		wrong |= sml_wait(&request, 1, -1, NULL) != SML_ERROR_FORKED;
		wrong |= strstr(sml_error_text(rank->context), "fork") == NULL;
		wrong |= sml_close(rank->context) != SML_ERROR_FORKED;
		_exit(wrong);
	}
	waitpid(child, &status, 0);
	CHECK(rank, status == 0);
	CHECK(rank, sml_wait(&request, 1, -1, NULL) == 0);
}

TEST(a_forked_child_may_not_use_the_context)
{
	run_job(&(struct job){.n_ranks = 2, .body = fork_and_use});
}

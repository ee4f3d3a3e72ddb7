/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the public interface promises besides results: versions of its structures, the log, an
 * interrupted sml_open(), calls in place. test_waits.c has the ways to wait.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/element.h"
#include "lib/api/arguments.h"
#include "support/elements.h"
#include "support/fake_switch.h"
#include "support/ranks.h"
#include "support/test.h"

/* Longer than any pause of a process on a busy machine. */
#define LONG_MS 60000

/* ---- arguments ---- */

TEST(no_call_needs_a_context_to_refuse)
{
	struct sml_request *request = NULL;
	struct sml_counters counters = {.size = sizeof(counters)};
	float data[2] = {0};
	struct sml_info info = SML_INFO_INIT;
	const char *name;
	const int results[] = {
		sml_abort(NULL, "why"),
		sml_set_timeout(NULL, 1),
		sml_event_fd(NULL),
		sml_reconfigure(NULL, NULL),
		sml_get_counters(NULL, -1, &counters, NULL),
		sml_get_counters(NULL, 0, &counters, &name),
		sml_barrier(NULL, NULL, NULL),
		sml_barrier(NULL, NULL, &request),
		sml_allreduce(NULL, data, data, 2, SML_FLOAT32, SML_SUM, NULL, NULL),
		sml_reduce(NULL, data, data, 2, SML_FLOAT32, SML_SUM, 0, NULL, NULL),
		sml_broadcast(NULL, data, 2, SML_FLOAT32, 0, NULL, NULL),
		sml_allgather(NULL, data, data, 1, SML_FLOAT32, NULL, NULL),
		sml_reduce_scatter(NULL, data, data, 1, SML_FLOAT32, SML_SUM, NULL, NULL),
	};

	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		assert_true(results[i] < 0);
	assert_int_equal(sml_get_info(NULL, &info), 0);
	assert_true(info.path == SML_PATH_NONE && info.world_size == 0 && !info.previous_ranks);
	assert_int_equal(sml_get_info(NULL, NULL), -EINVAL);
	sml_count_elsewhere(NULL, "there", 1);
	assert_int_equal(sml_close(NULL), 0);
	assert_non_null(sml_error_text(NULL));
}

static void abort_with_escapes(struct rank *rank)
{
	CHECK(rank, sml_abort(rank->context, "red \033[31m\n") == 0);
	CHECK(rank, strstr(sml_error_text(rank->context), "aborted the job: red ?[31m?") != NULL);
}

TEST(the_reason_of_an_abort_is_cleaned_in_the_own_text_too)
{
	run_job(&(struct job){
		.n_ranks = 1, .switch_address = "embedded", .body = abort_with_escapes});
}

/* ---- versions ---- */

TEST(the_library_says_its_version)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", sml_version_number() / 1000000,
		 sml_version_number() / 1000 % 1000, sml_version_number() % 1000);
	assert_string_equal(text, sml_version());
	assert_string_equal(sml_version(), SML_VERSION_STRING);
	assert_int_equal(sml_version_number(), SML_VERSION_NUMBER);
}

/* As programs of other versions have it: a member more than this library knows. */
struct later_options {
	struct sml_options known;
	int future[3];
};

/* 1 + 2^-6 is lost on the int16 wire next to 1e3, and not on the int32 wire. */
static int reduce(struct rank *rank, const struct sml_options *options, bool *is_narrow)
{
	float data[2000];
	int error;

	for (unsigned i = 0; i < 2000; i++)
		data[i] = i == 0 ? 1000.0f : 1.015625f;
	error = sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_SUM, options, NULL);
	*is_narrow = data[1] != 2.03125f;
	return error;
}

static void pass_options(struct rank *rank)
{
	struct sml_options options = SML_OPTIONS_INIT;
	struct later_options later = {SML_OPTIONS_INIT, {0}};
	bool is_narrow;

	later.known.size = sizeof(later);
	later.known.wire = SML_WIRE_INT16;
	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && !is_narrow);
	options.wire = SML_WIRE_INT16;
	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && is_narrow);
	/* A shorter one of an older program: what it lacks has its default. */
	options.size = offsetof(struct sml_options, wire);
	CHECK(rank, reduce(rank, &options, &is_narrow) == 0 && !is_narrow);
	/* A longer one of a newer program. */
	CHECK(rank, reduce(rank, &later.known, &is_narrow) == 0 && is_narrow);
	later.future[2] = 1;
	CHECK(rank, reduce(rank, &later.known, &is_narrow) == -EINVAL);
	CHECK(rank, strstr(sml_error_text(rank->context), "newer library") != NULL);
	CHECK(rank, strchr(sml_error_text(rank->context), '\n') == NULL);
	/* Forgotten, or never written. */
	options.size = 0;
	CHECK(rank, reduce(rank, &options, &is_narrow) == -EINVAL);
	CHECK(rank, strstr(sml_error_text(rank->context), "SML_OPTIONS_INIT") != NULL);
	options.size = SIZE_MAX / 2;
	CHECK(rank, reduce(rank, &options, &is_narrow) == -EINVAL);
	CHECK(rank, reduce(rank, NULL, &is_narrow) == 0 && !is_narrow);
}

TEST(options_of_other_versions_are_understood_or_refused)
{
	run_job(&(struct job){.n_ranks = 2, .body = pass_options});
}

/*
 * Next to 1000, the int16 wire has no bits for a fraction of 2^-7. The int32 wire has, and so has
 * the default, the exact one.
 */
static void sum_two_bytes(struct rank *rank)
{
	static const enum sml_type types[] = {SML_FLOAT16, SML_BFLOAT16};
	static const enum sml_wire wires[] = {SML_WIRE_INT16, SML_WIRE_INT32, SML_WIRE_DEFAULT};
	uint16_t data[2000], expected[2];

	for (unsigned way = 0; way < 6; way++) {
		enum sml_type type = types[way / 3];
		struct sml_options options = SML_OPTIONS_INIT;
		float sum = (float)rank->n * (way % 3 == 0 ? 1 : 1.0078125f);

		sml_element_store(type, expected, 0, sml_bits_of(sum));
		for (size_t i = 0; i < 2000; i++)
			sml_element_store(type, data, i,
					  sml_bits_of(i == 0 ? 1000.0f : 1.0078125f));
		options.wire = wires[way % 3];
		CHECK(rank, sml_allreduce(rank->context, data, data, 2000, type, SML_SUM, &options,
					  NULL) == 0);
		CHECK(rank, data[1] == expected[0]);
	}
}

TEST(floats_of_two_bytes_lose_bits_only_if_a_call_says_so)
{
	run_job(&(struct job){.n_ranks = 2, .body = sum_two_bytes});
	run_job(&(struct job){.n_ranks = SML_INT16_RANKS + 1, .body = sum_two_bytes});
}

/* Next to 64, a lane of int8 has no bits for a quarter; two ranks' sum is rounded by one more. */
static void sum_as_int8(struct rank *rank)
{
	static const enum sml_type types[] = {SML_FLOAT32, SML_FLOAT16, SML_BFLOAT16};
	bool asks = rank->job->argument != NULL;
	struct sml_options options = SML_OPTIONS_INIT;
	float data[2000];
	double wide[2000];

	options.wire = asks ? SML_WIRE_INT8 : SML_WIRE_DEFAULT;
	for (unsigned way = 0; way < 6; way++) {
		enum sml_type type = types[way / 2];
		enum sml_op op = way % 2 == 0 ? SML_SUM : SML_AVG;

		for (size_t i = 0; i < 2000; i++)
			sml_element_store(type, data, i, sml_bits_of(i == 0 ? 64.0f : 3.25f));
		CHECK(rank, sml_allreduce(rank->context, data, data, 2000, type, op, &options,
					  NULL) == 0);
		for (size_t i = 0; i < 2000; i++) {
			float exact = (i == 0 ? 64.0f : i < 64 ? 3.0f : 3.25f), got;
			uint32_t bits = sml_element_load(type, data, i);

			got = sml_float_of(bits);
			exact *= op == SML_SUM ? (float)rank->n : 1.0f;
			/* A sum next to 128 is a multiple of 2, and 6 is one. */
			CHECK(rank, got == exact);
		}
	}
	/* All others: refused if asked for, and else as without a setting. */
	for (size_t i = 0; i < 2000; i++)
		wide[i] = i == 0 ? 64 : 3.25;
	CHECK(rank, sml_allreduce(rank->context, wide, wide, 2000, SML_FLOAT64, SML_SUM, &options,
				  NULL) == (asks ? -EINVAL : 0));
	CHECK(rank, asks || wide[1] == 6.5);
	for (size_t i = 0; i < 2000; i++)
		data[i] = 3.25f;
	CHECK(rank, sml_allreduce(rank->context, data, data, 2000, SML_FLOAT32, SML_MAX, &options,
				  NULL) == (asks ? -EINVAL : 0));
	CHECK(rank, sml_allreduce(rank->context, data, data, 2000, SML_INT32, SML_SUM, &options,
				  NULL) == (asks ? -EINVAL : 0));
	CHECK(rank, !asks || strstr(sml_error_text(rank->context), "for no wire") != NULL);
}

TEST(floats_travel_as_int8_where_a_call_or_a_context_asks_for_it)
{
	int asks = 1;

	run_job(&(struct job){.n_ranks = 2, .body = sum_as_int8, .argument = &asks});
	setenv("SWITCHML_WIRE", "int8", 1);
	run_job(&(struct job){.n_ranks = 2, .body = sum_as_int8});
	unsetenv("SWITCHML_WIRE");
}

/* MPI's PROD, for example, has no number here. */
static void ask_for_a_product(struct rank *rank)
{
	int32_t data = rank->rank;

	CHECK_ERROR(rank,
		    sml_allreduce(rank->context, &data, &data, 1, SML_INT32, (enum sml_op)4, NULL,
				  NULL),
		    -EINVAL, "for PROD and bitwise operations, use MPI or the framework's own");
	CHECK(rank,
	      sml_allreduce(rank->context, &data, &data, 1, SML_INT32, SML_SUM, NULL, NULL) == 0);
}

TEST(the_refusal_of_an_operation_says_who_performs_it)
{
	run_job(&(struct job){.n_ranks = 2, .body = ask_for_a_product});
}

/* Many under way, some of them longer than the text that is kept of a name. */
static void name_barriers(struct rank *rank)
{
	struct sml_request *requests[600];
	struct sml_options options = SML_OPTIONS_INIT;
	char name[400] = "";

	/* Without one: "" is none, as NULL is. */
	if (rank->rank == 0)
		options.name = name;
	CHECK(rank, sml_barrier(rank->context, &options, NULL) == 0);
	options.name = name;
	for (int i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "%0*d", 1 + i % 390, i);
		CHECK(rank, sml_barrier(rank->context, &options, &requests[i]) == 0);
	}
	CHECK(rank, sml_wait(requests, 600, -1, NULL) == 0);
}

TEST(barriers_have_names_of_any_length)
{
	run_job(&(struct job){.n_ranks = 2, .body = name_barriers});
}

/* ---- the log ---- */

struct lines {
	pthread_mutex_t lock;
	unsigned n, n_levels[4];
	bool bad;
};

static void keep_line(void *self, enum sml_log_level level, const char *text)
{
	struct lines *lines = self;

	pthread_mutex_lock(&lines->lock);
	lines->n++;
	if (level > SML_LOG_TRACE || strchr(text, '\n') || strncmp(text, "switchml", 8) == 0)
		lines->bad = true;
	else
		lines->n_levels[level]++;
	pthread_mutex_unlock(&lines->lock);
}

/* Returns sml_open()'s result. */
static int open_and_close(struct sml_config *config)
{
	struct sml_context *context;
	int error = sml_open(&context, config);

	return error ? error : sml_close(context);
}

TEST(log_lines_go_where_the_program_says)
{
	const struct job job = {.n_ranks = 1};
	struct lines lines = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct sml_config config;
	int to_stderr[2], saved = dup(STDERR_FILENO);
	char byte;

	configure(&config, &job, 0);
	config.debug = 2;
	config.log = keep_line;
	config.log_self = &lines;
	assert_int_equal(pipe(to_stderr), 0);
	dup2(to_stderr[1], STDERR_FILENO);
	assert_int_equal(open_and_close(&config), 0);
	dup2(saved, STDERR_FILENO);
	close(to_stderr[1]);
	/* What was chosen, at the level "info"; nothing of the rank's on standard error. */
	assert_true(lines.n > 0 && !lines.bad && lines.n_levels[2] > 0);
	while (read(to_stderr[0], &byte, 1) == 1)
		assert_int_not_equal(byte, '[');
	close(to_stderr[0]);
	close(saved);
}

/* ---- an interrupted sml_open() ---- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	(void)number;
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
}

static void *open_rank_1(void *self)
{
	const struct job *job = self;
	struct sml_config config;

	configure(&config, job, 1);
	return (void *)(intptr_t)open_and_close(&config);
}

/* Rank 1 is not there: sml_open() waits, in its join. */
static void open_alone(const struct job *job, const char *address)
{
	struct sml_config config;

	configure(&config, job, 0);
	if (address)
		config.switch_address = address;
	config.interrupt = &interrupted;
	interrupted = 0;
	ualarm(50000, 0);
	assert_int_equal(open_and_close(&config), -EINTR);
	assert_non_null(strstr(sml_error_text(NULL), "interrupted"));
}

TEST(a_signal_interrupts_open)
{
	struct job job = {.n_ranks = 2, .port = free_port()};
	struct sml_config config;
	char address[64];
	pthread_t thread;
	void *result;
	uint16_t port, other_port;
	/* Connections are accepted, and nobody says anything. */
	int silent = listen_on_loopback(&port), other = listen_on_loopback(&other_port);

	signal(SIGALRM, interrupt);
	open_alone(&job, NULL);
	/* Nobody listens there, but rank 1 may hope that rank 0 comes. */
	configure(&config, &job, 1);
	config.interrupt = &interrupted;
	interrupted = 0;
	ualarm(50000, 0);
	assert_int_equal(open_and_close(&config), -EINTR);
	/* Two stripes, so two threads that open. */
	snprintf(address, sizeof(address), "127.0.0.1:%u,127.0.0.1:%u", port, other_port);
	open_alone(&job, address);
	close(silent);
	close(other);
	/* The rank can join again, with the same name. A flag that is set later means nothing. */
	interrupted = 0;
	assert_int_equal(pthread_create(&thread, NULL, open_rank_1, &job), 0);
	configure(&config, &job, 0);
	config.interrupt = &interrupted;
	assert_int_equal(open_and_close(&config), 0);
	pthread_join(thread, &result);
	assert_int_equal((int)(intptr_t)result, 0);
	/* One that is set before ends it at once. */
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
	configure(&config, &job, 0);
	config.interrupt = &interrupted;
	assert_int_equal(open_and_close(&config), -EINTR);
}

/* ---- in place ---- */

static void gather_and_scatter_in_place(struct rank *rank)
{
	int32_t n = rank->n, me = rank->rank, part[1000];
	int32_t *data = calloc((size_t)n * 1000 + 1, sizeof(*data));

	/* All-gather: this rank's part is where it belongs. */
	elements_fill(data + 1000 * me, 1000, 10 + me);
	data[1000 * n] = 42;
	CHECK(rank, sml_allgather(rank->context, data + 1000 * me, data, 1000, SML_INT32, NULL,
				  NULL) == 0);
	for (int32_t r = 0; r < n; r++)
		CHECK(rank, elements_are(data + 1000 * r, 1000, 10 + r));
	/* Reduce-scatter: the other parts keep this rank's own values. */
	for (int32_t r = 0; r < n; r++)
		elements_fill(data + 1000 * r, 1000, 100 * me + r);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * me, 1000, SML_INT32,
				       SML_SUM, NULL, NULL) == 0);
	for (int32_t r = 0; r < n; r++)
		CHECK(rank,
		      elements_are(data + 1000 * r, 1000,
				   r == me ? 100 * (n * (n - 1) / 2) + n * me : 100 * me + r));
	CHECK(rank, data[1000 * n] == 42);
	/* Every other overlap is refused, and harms nothing. */
	CHECK(rank, sml_allgather(rank->context, data + 1000 * me + 1, data, 1000, SML_INT32, NULL,
				  NULL) == -EINVAL);
	CHECK(rank, sml_allgather(rank->context, data + 1000 * ((me + 1) % n), data, 1000,
				  SML_INT32, NULL, NULL) == -EINVAL);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * me + 1, 999, SML_INT32,
				       SML_SUM, NULL, NULL) == -EINVAL);
	CHECK(rank, sml_reduce_scatter(rank->context, data, data + 1000 * ((me + 1) % n), 1000,
				       SML_INT32, SML_SUM, NULL, NULL) == -EINVAL);
	elements_fill(part, 1000, me);
	CHECK(rank, sml_allgather(rank->context, part, data, 1000, SML_INT32, NULL, NULL) == 0);
	free(data);
}

TEST(gathers_and_scatters_in_place_follow_the_rules)
{
	run_job(&(struct job){.n_ranks = 3, .body = gather_and_scatter_in_place});
	run_job(&(struct job){
		.n_ranks = 3, .switch_address = "embedded", .body = gather_and_scatter_in_place});
}

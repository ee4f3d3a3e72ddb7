/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens often in a long life leaves nothing behind: failovers, jobs, joins that fail, forks,
 * and a leaf's new parents. Before and after a hundred of each, this process has the same
 * descriptors, threads and mappings, and no more memory. Ranks, embedded switches and the leaf are
 * threads of this process; the switches that die are others.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/count_entries.h"
#include "support/ranks.h"
#include "support/switch_client.h"
#include "support/switch_process.h"
#include "support/test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS	       30
#define SLACK_MAPPINGS 1000 /* of memory that a sanitizer keeps after free() */
#else
#define ROUNDS	       100
#define SLACK_MAPPINGS 4
#endif
/* Before the first look: what is made only once is there, and memory has its full size. */
#define WARM_UP 20
#define RANKS	2
#define COUNT	5000
/* Less than what a round would leave: a loop alone has more. */
#define SLACK_BYTES (ROUNDS * 256)

/* ---- what there is ---- */

struct look {
	unsigned files, threads, mappings;
	size_t bytes;
};

static unsigned count_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	int byte;

	assert_non_null(file);
	while ((byte = fgetc(file)) != EOF)
		n += byte == '\n';
	fclose(file);
	return n;
}

static struct look look(void)
{
	return (struct look){count_entries(FILES_FOLDER), count_entries(THREADS_FOLDER),
			     count_mappings(), mallinfo2().uordblks};
}

static bool has_grown(const struct look *before, const struct look *now)
{
	return now->files > before->files || now->threads > before->threads ||
	       now->mappings > before->mappings + SLACK_MAPPINGS ||
	       now->bytes > before->bytes + SLACK_BYTES;
}

/* Connections and threads that are just ending may take a moment. */
static bool grew_for_good(const char *what, const struct look *before)
{
	uint64_t until_ms = now_ms() + CLIENT_WAIT_MS;
	struct look now;

	while (now = look(), has_grown(before, &now) && now_ms() < until_ms)
		usleep(20000);
	printf("%d %s: descriptors %+d, threads %+d, mappings %+d, bytes %+zd\n", ROUNDS, what,
	       (int)(now.files - before->files), (int)(now.threads - before->threads),
	       (int)(now.mappings - before->mappings), (ssize_t)(now.bytes - before->bytes));
	return has_grown(before, &now);
}

/*
 * do_one() ROUNDS times, after a warm-up. A list may grow once more when the machine is busy, and
 * then keeps its room: a leak grows as much in the next rounds.
 */
static void expect_nothing_left(const char *what, void (*do_one)(unsigned round))
{
	struct look before;
	unsigned round = 0;
	bool grew = true;

	while (round < WARM_UP)
		do_one(round++);
	for (unsigned tries = 0; tries < 2 && grew; tries++) {
		before = look();
		for (unsigned i = 0; i < ROUNDS; i++)
			do_one(round++);
		grew = grew_for_good(what, &before);
	}
	assert_false(grew);
}

/* ---- failovers ---- */

static struct switch_process switches[2];
static atomic_bool over;
static atomic_uint calls[RANKS];

/* All ranks leave the loop after the same call: they sum up who wants to. */
static void call_until_over(struct rank *rank)
{
	static int32_t buffers[RANKS][COUNT];
	int32_t *buffer = buffers[rank->rank];

	do {
		for (unsigned i = 0; i < COUNT; i++)
			buffer[i] = 1;
		buffer[0] = rank->rank == 0 && atomic_load(&over);
		CHECK(rank, sml_allreduce(rank->context, buffer, buffer, COUNT, SML_INT32, SML_SUM,
					  NULL, NULL) == 0);
		CHECK(rank, buffer[COUNT - 1] == rank->n);
		atomic_fetch_add(&calls[rank->rank], 1);
	} while (buffer[0] == 0);
}

static void *run(void *job)
{
	run_job(job);
	return NULL;
}

static void await_calls(void)
{
	for (unsigned i = 0; i < RANKS; i++)
		for (unsigned before = atomic_load(&calls[i]); atomic_load(&calls[i]) < before + 2;)
			usleep(200);
}

/* The job continues at the other switch, and the dead one comes back for the next time. */
static void fail_over(unsigned round)
{
	struct switch_process *dies = &switches[round % 2];

	switch_process_kill(dies);
	await_calls();
	switch_process_start(dies);
}

/* What happens to a job that runs. */
static void soak_running_job(const struct job *job, const char *what,
			     void (*do_one)(unsigned round))
{
	struct job copy = *job;
	pthread_t thread;

	copy.body = call_until_over;
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&thread, NULL, run, &copy), 0);
	await_calls();
	expect_nothing_left(what, do_one);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
}

static void kill_for_good(struct switch_process *process)
{
	switch_process_kill(process);
	process->port = 0;
}

static void soak_failovers(const char *what, bool host_group)
{
	char addresses[64];
	const struct job job = {
		.n_ranks = RANKS, .switch_address = addresses, .host_group = host_group};

	for (unsigned i = 0; i < 2; i++)
		switch_process_start(&switches[i]);
	snprintf(addresses, sizeof(addresses), "127.0.0.1:%u|127.0.0.1:%u", switches[0].port,
		 switches[1].port);
	soak_running_job(&job, what, fail_over);
	for (unsigned i = 0; i < 2; i++)
		kill_for_good(&switches[i]);
}

TEST(failovers_leave_nothing)
{
	soak_failovers("failovers", false);
}

TEST(failovers_of_a_host_leave_nothing)
{
	soak_failovers("failovers of a host", true);
}

/* The switches' processes have the key from the environment, too. */
TEST(failovers_with_tls_leave_nothing)
{
	struct sml_info info = SML_INFO_INIT;

	sml_get_info(NULL, &info);
	if (!info.has_tls)
		skip();
	switch_process_set_key("correct horse battery staple");
	soak_failovers("failovers with TLS", false);
	switch_process_set_key(NULL);
}

/* The other stripe keeps its switch. */
TEST(failovers_of_a_stripe_leave_nothing)
{
	char addresses[192], other[64], last[64];
	const struct job job = {.n_ranks = RANKS, .switch_address = addresses};

	serve_at(0, other);
	serve_at(0, last);
	for (unsigned i = 0; i < 2; i++)
		switch_process_start(&switches[i]);
	snprintf(addresses, sizeof(addresses), "127.0.0.1:%u,%s|127.0.0.1:%u,%s", switches[0].port,
		 other, switches[1].port, last);
	soak_running_job(&job, "failovers of a stripe", fail_over);
	for (unsigned i = 0; i < 2; i++)
		kill_for_good(&switches[i]);
}

/* ---- jobs ---- */

static char switch_address[64];

static void call_twice(struct rank *rank)
{
	int32_t value = 1;

	for (unsigned i = 0; i < 2; i++)
		CHECK(rank, sml_allreduce(rank->context, &value, &value, 1, SML_INT32, SML_SUM,
					  NULL, NULL) == 0);
	CHECK(rank, value == rank->n * rank->n);
	CHECK(rank, sml_event_fd(rank->context) >= 0);
}

static void do_embedded(unsigned round)
{
	run_job(&(struct job){.n_ranks = RANKS, .host_group = round % 2 != 0, .body = call_twice});
}

static void do_dedicated(unsigned round)
{
	run_job(&(struct job){.n_ranks = RANKS,
			      .switch_address = switch_address,
			      .host_group = round % 2 != 0,
			      .threads = 1 + (int)(round / 2 % 2),
			      .body = call_twice});
}

static char two_addresses[160];

static void do_striped(unsigned round)
{
	run_job(&(struct job){.n_ranks = RANKS,
			      .switch_address = two_addresses,
			      .host_group = round % 2 != 0,
			      .body = call_twice});
}

TEST(jobs_leave_nothing)
{
	char other_address[64];

	serve_at(0, switch_address);
	serve_at(0, other_address);
	expect_nothing_left("jobs without a switch", do_embedded);
	expect_nothing_left("jobs at a switch", do_dedicated);
	snprintf(two_addresses, sizeof(two_addresses), "%s,%s", switch_address, other_address);
	expect_nothing_left("jobs with two stripes", do_striped);
}

/* ---- joins that fail ---- */

static void fail_to_open(const struct job *job, int rank)
{
	struct sml_context *context = NULL;
	struct sml_config config;

	configure(&config, job, rank);
	assert_true(sml_open(&context, &config) < 0);
	assert_null(context);
}

/* Nobody listens, nobody comes, or rank 0's port is another job's. */
static void do_failures(unsigned round)
{
	const struct job unreachable = {.n_ranks = 2, .switch_address = "127.0.0.1:1"};
	const struct job alone = {.n_ranks = 2, .switch_address = switch_address, .timeout_ms = 10};
	const struct job embedded = {.n_ranks = 2, .port = free_port(), .timeout_ms = 10};

	fail_to_open(round % 3 == 0 ? &unreachable : round % 3 == 1 ? &alone : &embedded, 0);
}

TEST(joins_that_fail_leave_nothing)
{
	serve_at(0, switch_address);
	expect_nothing_left("joins that fail", do_failures);
}

/* ---- forks ---- */

static struct sml_context *forked;

/* The child has none of the library's sockets, and the parent keeps all of its own. */
static void do_fork(unsigned round)
{
	int32_t value = 1;
	int status = -1;
	pid_t child;

	(void)round;
	child = fork();
	if (child == 0)
		_exit(sml_close(forked) == SML_ERROR_FORKED ? 0 : 1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(sml_allreduce(forked, &value, &value, 1, SML_INT32, SML_SUM, NULL, NULL),
			 0);
}

TEST(forks_leave_nothing)
{
	const struct job job = {.n_ranks = 1};
	struct sml_config config;

	configure(&config, &job, 0);
	assert_int_equal(sml_open(&forked, &config), 0);
	expect_nothing_left("forks", do_fork);
	assert_int_equal(sml_close(forked), 0);
}

/* ---- a leaf's parent ---- */

static uint16_t leaf_port;

/* A rank can join at the leaf exactly while the leaf has its parent. */
static bool leaf_has_parent(void)
{
	SmlControl__Envelope *status = client_status("127.0.0.1", leaf_port);
	bool has = status->status->attached;

	client_free(status);
	return has;
}

static void await_parent(bool wanted)
{
	uint64_t until_ms = now_ms() + CLIENT_WAIT_MS;

	while (leaf_has_parent() != wanted && now_ms() < until_ms)
		usleep(2000);
	assert_int_equal(leaf_has_parent(), wanted);
}

static void change_parent(unsigned round)
{
	(void)round;
	switch_process_kill(&switches[0]);
	await_parent(false);
	switch_process_start(&switches[0]);
	await_parent(true);
}

static struct sml_switch *open_leaf(void)
{
	struct sml_switch_config config;
	struct sml_switch *leaf;
	char parent[32];

	switch_process_start(&switches[0]);
	snprintf(parent, sizeof(parent), "127.0.0.1:%u", switches[0].port);
	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.parent = parent;
	config.debug = 0;
	assert_int_equal(sml_switch_open(&leaf, &config), 0);
	leaf_port = sml_switch_port(leaf);
	snprintf(switch_address, sizeof(switch_address), "127.0.0.1:%u", leaf_port);
	await_parent(true);
	return leaf;
}

static void close_leaf(struct sml_switch *leaf)
{
	sml_switch_close(leaf);
	kill_for_good(&switches[0]);
}

TEST(new_parents_of_a_leaf_leave_nothing)
{
	struct sml_switch *leaf = open_leaf();

	expect_nothing_left("parents of a leaf", change_parent);
	close_leaf(leaf);
}

/* Its ranks resume through it when it has a parent again. */
static void resume_through_leaf(unsigned round)
{
	(void)round;
	switch_process_kill(&switches[0]);
	switch_process_start(&switches[0]);
	await_calls();
}

TEST(resumes_through_a_leaf_leave_nothing)
{
	struct sml_switch *leaf = open_leaf();
	const struct job job = {.n_ranks = RANKS, .switch_address = switch_address};

	soak_running_job(&job, "resumes through a leaf", resume_through_leaf);
	close_leaf(leaf);
}

/* They say nothing, or no message, or they join and go. */
static void come_as_stranger(unsigned round)
{
	const SmlControl__Join join = client_join_message("strangers", 0, 2);
	struct client stranger;

	client_open(&stranger, "127.0.0.1", leaf_port);
	if (round % 3 == 1)
		client_send_bytes(&stranger, "GET / HTTP/1.0\r\n\r\n", 18);
	if (round % 3 == 2) {
		client_join(&stranger, &join);
		client_free(client_expect(&stranger, SML_CONTROL__ENVELOPE__BODY_WAITING));
	}
	client_close(&stranger);
}

TEST(strangers_at_a_leaf_leave_nothing)
{
	struct sml_switch *leaf = open_leaf();

	expect_nothing_left("strangers at a leaf", come_as_stranger);
	close_leaf(leaf);
}

int main(int argc, char **argv)
{
	switch_process_main(argc, argv);
	if (argc > 1)
		test_select(argv[1]);
	/* Memory of threads that have ended is used again. */
	mallopt(M_ARENA_MAX, 2);
	return test_run();
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins and leaves without end: nothing is left behind, whether they succeed or fail. 20,000
 * of them in a few seconds; SML_JOINS sets another number.
 *
 * Checked are: bytes that malloc() has given out (for the whole process, switch and
 * workers), resident memory, descriptors, and the switch's own status.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "support/certificates.h"
#include "support/count_entries.h"
#include "support/messages.h"
#include "support/switch_client.h"
#include "support/test.h"
#include "switchml.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JOINS	  4000
#define TLS_JOINS 400
#else
#define JOINS	  20000
#define TLS_JOINS 1000
#endif
/* Before the first check: what is allocated only once reaches its full size. */
#define WARM_UP 2000
/* This process may stall this long before the job has begun. */
#define FROZEN_HEARTBEAT_MS 4000

static struct sml_tls *tls;
static uint16_t port;
static unsigned files_at_rest; /* with a switch and without connections */

static void start_switch(bool with_tls)
{
	struct sml_switch_config config;

	sml_switch_config_init(&config);
	config.listen = "127.0.0.1:0";
	config.heartbeat_ms = 60000;
	if (with_tls && !certificates_of_switch(&config))
		skip();
	tls = with_tls ? certificates_of_worker() : NULL;
	port = client_open_switch(&config);
	files_at_rest = count_entries(FILES_FOLDER);
}

static void tear_down(void)
{
	client_close_switch();
	sml_tls_close(tls);
	tls = NULL;
}

static void open_one(struct client *client)
{
	if (tls != NULL)
		client_open_tls(client, "127.0.0.1", port, tls);
	else
		client_open(client, "127.0.0.1", port);
}

/* ---- what exists ---- */

struct look {
	size_t bytes, resident_kib;
	unsigned files;
};

static size_t resident_kib(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size = 0, resident = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* The switch has no job, and all slots are free. */
static void expect_empty(void)
{
	struct client client;
	SmlControl__Envelope *message;
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;
	bool empty = false;

	while (!empty && client_now_ms() < until_ms) {
		open_one(&client);
		client_send_empty(&client, SML_CONTROL__ENVELOPE__BODY_STATUS_REQUEST);
		message = client_expect(&client, SML_CONTROL__ENVELOPE__BODY_STATUS);
		empty = message->status->n_jobs == 0 && message->status->slots_in_use == 0;
		client_free(message);
		client_close(&client);
		usleep(50000);
	}
	assert_true(empty);
}

static struct look look(void)
{
	int64_t until_ms = client_now_ms() + CLIENT_WAIT_MS;

	expect_empty();
	/* Connections that end may linger for a second, or longer if the machine stalls. */
	while (count_entries(FILES_FOLDER) > files_at_rest && client_now_ms() < until_ms)
		usleep(10000);
	return (struct look){mallinfo2().uordblks, resident_kib(), count_entries(FILES_FOLDER)};
}

/* ---- one join ---- */

static SmlControl__Join join_message(unsigned i, uint32_t rank, uint32_t world_size)
{
	static char name[32];

	snprintf(name, sizeof(name), "churn-%u", i % 7);
	return client_join_message(name, rank, world_size);
}

static void start_two(struct client c[2], unsigned i)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = join_message(i, rank, 2);

		open_one(&c[rank]);
		client_join(&c[rank], &join);
	}
	clients_begin(c, 2);
}

/* The normal case: a sum, and all ranks leave. */
static void whole_life(unsigned i)
{
	struct client c[2];

	start_two(c, i);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_contribute(&c[rank], 4, 0, 8, 21);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_expect_result(&c[rank], 4, 0, 8, 42);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_send_empty(&c[rank], SML_CONTROL__ENVELOPE__BODY_LEAVE);
	for (uint32_t rank = 0; rank < 2; rank++)
		client_free(client_expect(&c[rank], SML_CONTROL__ENVELOPE__BODY_LEFT));
	clients_close(c, 2);
}

/* A rank dies in the middle, and the other rank learns of it. */
static void death(unsigned i)
{
	struct client c[2];

	start_two(c, i);
	client_contribute(&c[0], 4, 0, 8, 1);
	client_close(&c[i % 2]);
	client_expect_abort(&c[1 - i % 2], SML_ERROR_RANK_DIED, "died", NULL);
	client_close(&c[1 - i % 2]);
}

/* One rank is gone before the other has come. */
static void early_death(unsigned i)
{
	SmlControl__Join join = join_message(i, i % 2, 2);
	struct client client;

	open_one(&client);
	client_join(&client, &join);
	client_free(client_expect(&client, SML_CONTROL__ENVELOPE__BODY_WAITING));
	client_close(&client);
}

static void refusal(unsigned i)
{
	SmlControl__Join join = join_message(i, 2, 2);
	struct client client;

	open_one(&client);
	client_join(&client, &join);
	client_expect_abort(&client, SML_ERROR_REFUSED, "rank 2", NULL);
	client_close(&client);
}

static void disagreement(unsigned i)
{
	struct client c[2];

	for (uint32_t rank = 0; rank < 2; rank++) {
		SmlControl__Join join = join_message(i, rank, 2 + rank);

		open_one(&c[rank]);
		client_join(&c[rank], &join);
		if (rank == 0)
			client_free(client_expect(&c[0], SML_CONTROL__ENVELOPE__BODY_WAITING));
	}
	/* Waiting would not help: the job ends for both. */
	client_expect_abort(&c[1], SML_ERROR_MISMATCH, "world_size", NULL);
	client_expect_abort(&c[0], SML_ERROR_MISMATCH, "world_size", NULL);
	clients_close(c, 2);
}

static void garbage(unsigned i)
{
	struct client client;

	(void)i;
	client_open(&client, "127.0.0.1", port);
	client_send_bytes(&client, "\0\0\0\3garbage", 11);
	client_expect_end(&client);
	client_close(&client);
}

static void abort_of_one(unsigned i)
{
	struct client c[2];

	start_two(c, i);
	client_send(&c[0], message_abort(SML_ERROR_ABORTED, "enough", false));
	client_expect_abort(&c[1], SML_ERROR_ABORTED, "enough", NULL);
	clients_close(c, 2);
}

/* ---- dead ranks ---- */

/* Two jobs: a rank's process ends in one, and a rank freezes in the other. */
TEST_WITH(the_dead_leave_nothing_within_the_heartbeat, NULL, tear_down)
{
	struct client crashed[2], frozen[2];
	SmlControl__Join join = client_join_message("frozen", 0, 2);
	int64_t begin_ms, dead_ms;

	start_switch(false);
	/* Only rank 1, because this process may stall, too. */
	begin_ms = client_now_ms();
	for (; join.rank < 2; join.rank++, join.pid++) {
		join.heartbeat_ms = join.rank == 1 ? FROZEN_HEARTBEAT_MS : 60000;
		client_open(&frozen[join.rank], "127.0.0.1", port);
		client_join(&frozen[join.rank], &join);
	}
	clients_begin(frozen, 2);
	start_two(crashed, 0);
	client_close(&crashed[0]);
	client_expect_abort(&crashed[1], SML_ERROR_RANK_DIED, "rank 0", "its connection ended",
			    NULL);
	/* Rank 1 is silent, although its socket is open. */
	client_expect_abort(&frozen[0], SML_ERROR_RANK_DIED, "rank 1", "it was silent", NULL);
	dead_ms = client_now_ms() - begin_ms;
	printf("a frozen rank's job was gone after %lld ms, of a heartbeat of %d\n",
	       (long long)dead_ms, FROZEN_HEARTBEAT_MS);
	/* At the tick before its time is up, and not only after the others' minute. */
	assert_true(dead_ms >= FROZEN_HEARTBEAT_MS - 100 && dead_ms < CLIENT_WAIT_MS);
	/* Now its packets belong to no job. */
	client_contribute(&frozen[0], 4, 0, 8, 1);
	client_wait_for_counter(port, "unknown-job", 1);
	/* Those that are left could go on. When they have gone, all is free, and the names. */
	clients_close(crashed, 2);
	clients_close(frozen, 2);
	expect_empty();
	whole_life(0);
	expect_empty();
}

/* ---- many lives ---- */

/* Most of these cases have two joins. Returns the number of joins. */
static unsigned churn(unsigned i)
{
	static void (*const lives[])(unsigned) = {whole_life,	death,	 whole_life,
						  early_death,	refusal, whole_life,
						  disagreement, garbage, abort_of_one};
	static const unsigned joins[] = {2, 2, 2, 1, 1, 2, 2, 0, 2};
	unsigned which = i % 9;

	if (tls != NULL && lives[which] == garbage)
		which = 0;
	lives[which](i);
	return joins[which];
}

static void expect_nothing_left(unsigned n_joins, unsigned warm_up)
{
	struct timespec begin, end;
	struct look before, after;
	unsigned joins = 0;
	unsigned i = 0;
	double seconds;

	for (unsigned n = 0; n < warm_up; i++)
		n += churn(i);
	before = look();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (; joins < n_joins; i++)
		joins += churn(i);
	clock_gettime(CLOCK_MONOTONIC, &end);
	after = look();
	seconds =
		(double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
	printf("%u joins in %.1f s: %zd bytes more allocated, %zd KiB more resident (of %zu), "
	       "%d more files\n",
	       joins, seconds, (ssize_t)(after.bytes - before.bytes),
	       (ssize_t)(after.resident_kib - before.resident_kib), after.resident_kib,
	       (int)(after.files - before.files));
	assert_int_equal(after.files, before.files);
	/* A leak of one byte per join would exceed this. */
	assert_true(after.bytes <= before.bytes + 4096 + n_joins / 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(after.resident_kib <= before.resident_kib + 2048);
#endif
}

TEST_WITH(joins_and_leaves_leave_nothing, NULL, tear_down)
{
	const char *number = getenv("SML_JOINS");

	start_switch(false);
	expect_nothing_left(number ? (unsigned)strtoul(number, NULL, 10) : JOINS, WARM_UP);
}

TEST_WITH(joins_with_tls_leave_nothing, NULL, tear_down)
{
	const char *number = getenv("SML_JOINS");

	start_switch(true);
	expect_nothing_left(number ? (unsigned)strtoul(number, NULL, 10) / 20 : TLS_JOINS, 300);
}

TESTS_BETWEEN(NULL, certificates_remove)

int main(int argc, char **argv)
{
	/*
	 * What a thread keeps of freed memory for itself counts as given out, and how much that is
	 * depends on who was late.
	 */
	if (argc > 0 && getenv("GLIBC_TUNABLES") == NULL) {
		setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
		execv("/proc/self/exe", argv);
	}
	/* Freed memory goes back to the system soon, so resident memory is memory in use. */
	mallopt(M_ARENA_MAX, 2);
	return test_run();
}

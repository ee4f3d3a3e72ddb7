/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks a switch takes for dead: signs of life on the data path. Under a virtual clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/envelope.h"
#include "control/frame.h"
#include "job/switch.h"
#include "switchml.h"

#define MS	     1000000ull
#define HEARTBEAT_MS 5000u

/* A dataplane that only counts; the test says how far. */
static uint64_t contributions[SML_MAX_RANKS];
static unsigned n_looks;

static int add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	(void)dataplane;
	(void)rules;
	return 0;
}

static int start_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return 0;
}

static void remove_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
}

static const char *misses_address(struct sml_dataplane *dataplane, uint32_t job, uint8_t rank)
{
	(void)dataplane;
	(void)job;
	(void)rank;
	return NULL;
}

static uint32_t window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	(void)dataplane;
	(void)packet_bytes;
	(void)n_ranks;
	return 64;
}

static void job_counters(struct sml_dataplane *dataplane, uint32_t job,
			 struct sml_job_counters *counters)
{
	(void)dataplane;
	(void)job;
	memcpy(counters->contributions, contributions, sizeof(contributions));
	n_looks++;
}

static uint32_t slot_states(struct sml_dataplane *dataplane, uint32_t job,
			    struct sml_slot_progress *states, uint32_t n)
{
	(void)dataplane;
	(void)job;
	(void)states;
	(void)n;
	return 0;
}

static const struct sml_dataplane_operations counting = {
	.name = "counting",
	.add_job = add_job,
	.start_job = start_job,
	.remove_job = remove_job,
	.misses_address = misses_address,
	.window = window,
	.job_counters = job_counters,
	.slot_states = slot_states,
};

/* ---- a driver that only remembers who was ended ---- */

static struct sml_peer peers[2];
static bool ended[2];
static struct sml_jobs jobs;
static uint64_t now_ns;

static int send_message(struct sml_peer *peer, const SmlControl__Envelope *message)
{
	(void)peer;
	(void)message;
	return 0;
}

static void end(struct sml_peer *peer)
{
	ended[peer - peers] = true;
}

static bool listens(const struct sml_peer *peer)
{
	(void)peer;
	return true;
}

static uint64_t random_u64(void *context)
{
	static uint64_t n;

	(void)context;
	return ++n;
}

static void log_line(void *context, const char *line)
{
	(void)context;
	(void)line;
}

static const struct sml_jobs_output output = {
	.send = send_message,
	.end = end,
	.listens = listens,
	.random_u64 = random_u64,
	.log = log_line,
};

/* Both ranks are heard now. */
static void ping(unsigned rank)
{
	SmlControl__Ping message = SML_CONTROL__PING__INIT;

	sml_jobs_message(&jobs, &peers[rank], sml_envelope(PING, ping, &message), now_ns);
}

static int start_running(void **state)
{
	SmlControl__Join join = SML_CONTROL__JOIN__INIT;
	SmlControl__Ready ready = SML_CONTROL__READY__INIT;

	(void)state;
	memset(peers, 0, sizeof(peers));
	memset(ended, 0, sizeof(ended));
	memset(contributions, 0, sizeof(contributions));
	now_ns = 1000 * MS;
	n_looks = 0;
	jobs = (struct sml_jobs){
		.config = {.max_slots = 4096, .max_jobs = 4, .heartbeat_ms = 60000},
		.output = &output,
		.operations = &counting};
	sml_jobs_init(&jobs, now_ns);
	join.protocol = SML_CONTROL_PROTOCOL;
	join.library_version = (char *)(uintptr_t)SML_VERSION_STRING;
	join.job = (char *)(uintptr_t) "signs";
	join.host = (char *)(uintptr_t) "h";
	join.world_size = 2;
	join.lanes = 352;
	join.head_slots = 4;
	join.data_slots = 16;
	join.shards = join.stripes = 1;
	join.heartbeat_ms = HEARTBEAT_MS;
	ready.lanes = 352;
	for (join.rank = 0; join.rank < 2; join.rank++)
		sml_jobs_message(&jobs, &peers[join.rank], sml_envelope(JOIN, join, &join), now_ns);
	for (unsigned rank = 0; rank < 2; rank++)
		sml_jobs_message(&jobs, &peers[rank], sml_envelope(READY, ready, &ready), now_ns);
	assert_non_null(peers[0].job);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sml_jobs_stop(&jobs, now_ns);
	return 0;
}

/* Time passes; rank 0 pings, and each of the ranks in the mask contributes. */
static void pass(unsigned ms, unsigned contributing)
{
	for (unsigned i = 0; i < ms / 100; i++) {
		now_ns += 100 * MS;
		for (unsigned rank = 0; rank < 2; rank++)
			contributions[rank] += contributing >> rank & 1;
		ping(0);
		sml_jobs_tick(&jobs, now_ns);
	}
}

static void silent_rank_dies_after_its_heartbeat(void **state)
{
	(void)state;
	pass(HEARTBEAT_MS - 300, 1);
	assert_false(ended[0] || ended[1]);
	pass(300, 1);
	assert_true(ended[0] && ended[1]);
}

static void rank_whose_contributions_come_is_not_dead(void **state)
{
	(void)state;
	pass(10 * HEARTBEAT_MS, 3);
	assert_false(ended[0] || ended[1]);
	/* They end: so does its life, a heartbeat later and not two. */
	pass(HEARTBEAT_MS / 2, 1);
	assert_false(ended[1]);
	pass(HEARTBEAT_MS / 2 + 100, 1);
	assert_true(ended[1]);
}

static void contributions_before_the_last_message_prove_nothing(void **state)
{
	(void)state;
	pass(HEARTBEAT_MS / 2 + 300, 1); /* looked at, without having contributed */
	pass(200, 3);
	ping(1);
	pass(HEARTBEAT_MS - 300, 1);
	assert_false(ended[1]);
	pass(300, 1);
	assert_true(ended[1]);
}

static void ranks_that_ping_are_not_looked_for(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		pass(HEARTBEAT_MS / 4, 3);
		ping(1);
	}
	assert_int_equal(n_looks, 0);
	assert_false(ended[0] || ended[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(silent_rank_dies_after_its_heartbeat, start_running,
						stop),
		cmocka_unit_test_setup_teardown(rank_whose_contributions_come_is_not_dead,
						start_running, stop),
		cmocka_unit_test_setup_teardown(contributions_before_the_last_message_prove_nothing,
						start_running, stop),
		cmocka_unit_test_setup_teardown(ranks_that_ping_are_not_looked_for, start_running,
						stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

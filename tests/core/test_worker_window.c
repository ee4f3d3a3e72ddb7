/* SPDX-License-Identifier: BSD-3-Clause */
/* The end host's state machine: how many packets it has in flight, and how far stripes differ. */
#include "support/one_worker.h"
#include "support/test.h"

TEST_WITH(the_window_limits_what_is_in_flight, NULL, end)
{
	struct rig_packet packets[3];

	begin(8, 20);
	set_window(3);
	for (uint32_t i = 0; i < 3; i++)
		packets[i] = sent();
	assert_silent();
	/* A result permits sending exactly one packet. */
	answer(&packets[0], 8);
	sent();
	assert_silent();
}

/* The window after many rounds, each of whose results take as long. */
static uint32_t window_after(uint64_t rtt_ns, uint64_t path_min_ns, unsigned losses)
{
	struct sml_flight flight;

	sml_flight_init(&flight, 512, 1448, 4, 1, 1);
	for (unsigned i = 0; i < 50000; i++) {
		for (unsigned lost = 0; lost < losses; lost++)
			sml_flight_loss(&flight);
		sml_flight_result(&flight, rtt_ns, path_min_ns);
	}
	return flight.window;
}

TEST(delay_alone_leaves_a_job_its_share_of_a_queue)
{
	const uint64_t ms = 1000000;
	uint32_t fair = SML_FLIGHT_FAIR_BYTES / 1448;

	assert_int_equal(window_after(1 * ms, ms / 20, 0), 512);
	/* A queue that others fill. The window may have grown by a step when it was that small. */
	assert_in_range(window_after(80 * ms, ms / 20, 0), fair, fair + fair / 16 + 1);
	/* A job that began with a full queue does not take its delay three times. */
	assert_in_range(window_after(30 * ms, 20 * ms, 0), fair, fair + fair / 16 + 1);
	assert_int_equal(window_after(22 * ms, 20 * ms, 0), 512);
	/* A queue that is too short to hold that. */
	assert_int_equal(window_after(1 * ms, ms / 20, 1), SML_FLIGHT_MIN);
}

/* A round of results that take as long. */
static void pass_round(struct sml_flight *flight, uint64_t rtt_ns)
{
	uint32_t results = flight->window;

	for (uint32_t i = 0; i < results; i++)
		sml_flight_result(flight, rtt_ns, 50000);
}

TEST(the_window_halves_once_when_its_fast_growth_fills_a_queue)
{
	const uint64_t ms = 1000000;
	struct sml_flight flight;
	uint32_t window;

	sml_flight_init(&flight, 2048, 1448, 8, 1, 1);
	for (window = SML_FLIGHT_START; window < 512; window *= 2) {
		assert_int_equal(flight.window, window);
		pass_round(&flight, ms);
	}
	/* Doubled, and halved. */
	pass_round(&flight, 80 * ms);
	assert_int_equal(flight.window, 512);
	pass_round(&flight, 80 * ms);
	assert_int_equal(flight.window, 512 - 512 / 8);
	pass_round(&flight, ms);
	assert_int_equal(flight.window, 448 + 448 / 16 + 1);
}

TEST_WITH(the_lowest_chunk_is_allowed_beyond_the_window, NULL, end)
{
	struct rig_packet packets[3], packet;

	begin(3, 20);
	for (uint32_t i = 0; i < 3; i++)
		packets[i] = sent();
	for (uint32_t i = 0; i < 3; i++)
		answer(&packets[i], 9 - i);
	for (uint32_t i = 0; i < 3; i++) {
		packets[i] = sent();
		assert_int_equal(chunk_of(&packets[i]), 7 + i);
	}
	/* The window shrinks below the number of packets in flight. */
	set_window(1);
	answer(&packets[0], 12);
	assert_silent(); /* 12 is above 8 and 9 */
	answer(&packets[1], 3);
	packet = sent();
	assert_int_equal(chunk_of(&packet), 3);
	assert_int_equal(worker()->in_flight.n, 2);
	assert_silent();
}

/* As if a stripe that has nothing in flight had so many more results. */
static void go_ahead(struct sml_worker *worker, uint32_t results)
{
	struct sml_queues *queues = &worker->streams[SML_DATA];

	for (unsigned i = 0; i < queues->n_slots; i++)
		worker->chunks[queues->first_slot + i] += results;
	queues->beyond += results;
}

/* Another stripe of the same rank. Without a tensor: only its progress counts. */
static struct sml_worker *another_stripe(uint32_t progress)
{
	static struct sml_worker other;
	static uint8_t memory[1u << 16] __attribute__((aligned(64)));
	struct sml_worker_config config = worker()->config;

	assert_true(sml_worker_memory_bytes(&config) <= sizeof(memory));
	sml_worker_init(&other, &config, memory);
	go_ahead(&other, progress);
	return &other;
}

TEST_WITH(a_stripe_does_not_run_away_from_the_last_one_of_its_team, NULL, end)
{
	static struct sml_team team;
	struct sml_worker *last;
	struct rig_packet packet;
	uint32_t chunk;

	begin(64, 200);
	set_window(8);
	last = another_stripe(0);
	team.n = 0;
	sml_team_add(&team, worker());
	sml_team_add(&team, last);
	/* A window and 16 chunks ahead. */
	for (chunk = 0; chunk < 8 + 16; chunk++) {
		packet = sent();
		assert_int_equal(chunk_of(&packet), chunk);
		answer(&packet, 64 + chunk);
	}
	/* The lowest chunk is always allowed. */
	packet = sent();
	assert_int_equal(chunk_of(&packet), chunk);
	assert_silent();
	/* The last one has 16 results: not enough to send several chunks at once. */
	go_ahead(last, 16);
	assert_silent();
	go_ahead(last, 1);
	for (uint32_t i = 1; i < 8; i++)
		sent();
	assert_silent(); /* the window is full */
	/* In its own process, a stripe needs no link. */
	worker()->config.local = true;
	worker()->flight.window = 64;
	for (uint32_t i = 8; i < 64; i++)
		sent();
}

TEST_WITH(the_last_stripe_of_a_team_is_never_held, NULL, end)
{
	static struct sml_team team;
	struct sml_worker *ahead;
	struct rig_packet packet;

	begin(64, 200);
	set_window(8);
	ahead = another_stripe(150);
	team.n = 0;
	sml_team_add(&team, ahead);
	sml_team_add(&team, worker());
	for (uint32_t i = 0; i < 8; i++)
		packet = sent();
	for (uint32_t i = 8; i < 100; i++) {
		/* As many as the window, although the first ones are lost. */
		answer(&packet, 56 + i);
		packet = sent();
		assert_int_equal(chunk_of(&packet), i);
	}
}

TEST_WITH(the_lowest_head_chunk_is_allowed_beyond_the_window, NULL, end)
{
	struct rig_packet packet;

	begin(4, 20);
	set_window(2);
	sent();
	sent();
	assert_silent();
	/* A tensor that is one head chunk: none of its stream is in flight. */
	rig_submit(&rig, 1);
	packet = sent();
	assert_false(is_data(&packet));
	assert_silent();
}

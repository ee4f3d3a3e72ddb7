/* SPDX-License-Identifier: BSD-3-Clause */
/* A line under a flood: its timers run, whatever arrives at the socket. And a path that narrows. */
#include "lib/diagnose/diagnose.h"
#include "lib/progress/line.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

struct flood {
	struct sml_transport base;
	bool ends;
};

/* Always junk that is not accepted as a packet. */
static unsigned receive_junk(struct sml_transport *transport, struct sml_packet *packets)
{
	static uint32_t junk;

	transport->drained = ((struct flood *)transport)->ends;
	packets[0] = (struct sml_packet){.bytes = &junk, .length = sizeof(junk)};
	return 1;
}

static unsigned receive_nothing(struct sml_transport *transport, struct sml_packet *packets)
{
	(void)packets;
	transport->drained = true;
	return 0;
}

/* The number of timer checks in 1,000 receives. */
static unsigned looks_of(unsigned (*receive)(struct sml_transport *, struct sml_packet *),
			 bool ends)
{
	const struct sml_transport_ops ops = {.receive = receive};
	struct flood flood = {.base = {.ops = &ops}, .ends = ends};
	struct sml_line *line = calloc(1, sizeof(*line));
	static struct sml_packet packets[4096];
	struct sml_wakeups wakeups = {0};
	unsigned looks = 0;

	assert_non_null(line);
	line->transport = &flood.base;
	for (unsigned i = 0; i < 1000; i++) {
		bool busy = sml_line_receive(line, packets, 1000 * i, &wakeups);

		looks += sml_line_may_expire(line, busy);
	}
	free(line);
	return looks;
}

TEST(timers_run_though_the_socket_is_never_empty)
{
	assert_in_range(looks_of(receive_junk, false), 10, 100);
}

/* Between two results, the next one may not have been read yet. */
TEST(timers_wait_while_results_come)
{
	assert_int_equal(looks_of(receive_junk, true), 0);
}

TEST(timers_run_when_nothing_comes)
{
	assert_int_equal(looks_of(receive_nothing, true), 1000);
}

/* ---- a path that narrows ---- */

#define LANES	   352
#define FULL_BYTES (SML_HEADER_BYTES + 4u * LANES)

/* Only shorter probes come back. */
static void narrow(struct sml_shard *shard)
{
	static uint8_t packet[SML_HEADER_BYTES + 4 * SML_MAX_LANES];
	const struct sml_header reply = {0};

	for (unsigned i = 0; i < 100; i++) {
		size_t length;

		sml_line_note_timeout(shard);
		length = sml_line_renewal_probe(shard, packet);
		if (length > 0 && length < FULL_BYTES)
			sml_line_note_probe_reply(shard, &reply, (uint32_t)length);
	}
}

static void answer(struct sml_shard *shard, uint32_t length)
{
	shard->worker.counters.packets_received++;
	sml_shard_note_passed(shard, length);
}

static void assert_is_narrow(struct sml_shard *shard, bool is_narrow)
{
	char text[SML_NARROW_BYTES];

	sml_stall_narrow_text(&shard, 1, text);
	assert_int_equal(strstr(text, "full ones of") != NULL, is_narrow);
}

static void keep_transport(struct sml_transport *transport)
{
	(void)transport;
}

static const struct sml_transport_ops path_ops = {.close = keep_transport};
static struct sml_transport path = {.ops = &path_ops};
static const struct sml_worker_config path_config = {
	.shape = {.lanes = LANES, .n_ranks = 2},
	.head_slots = 1,
	.data_slots = 1,
	.n_shards = 1,
	.n_stripes = 1,
	.window_max = 1,
};

static struct sml_shard *open_path(void)
{
	struct sml_line *line = sml_line_new(&path, NULL);
	static const bool park;

	assert_non_null(line);
	return sml_shard_new(&path_config, line, &park);
}

static void close_path(struct sml_shard *shard)
{
	sml_line_free(shard->line);
	sml_shard_free(shard);
}

/* Its call may be done then, and no timer expires any more. */
TEST(a_path_is_narrow_until_a_full_result_comes)
{
	struct sml_shard *shard = open_path();

	narrow(shard);
	sml_line_note_time(shard);
	assert_is_narrow(shard, true);
	answer(shard, FULL_BYTES);
	sml_line_note_time(shard);
	assert_is_narrow(shard, false);
	/* It may narrow again. */
	narrow(shard);
	assert_is_narrow(shard, true);
	close_path(shard);
}

TEST(a_path_stays_narrow_though_short_results_come)
{
	struct sml_shard *shard = open_path();

	narrow(shard);
	for (unsigned i = 0; i < 10; i++) {
		answer(shard, SML_HEADER_BYTES + 4);
		sml_line_note_time(shard);
		assert_is_narrow(shard, true);
		sml_line_note_timeout(shard);
		assert_is_narrow(shard, true);
	}
	close_path(shard);
}

TEST(the_path_to_another_switch_is_not_narrow_before_it_was_probed)
{
	static const struct sml_ticket_map maps[SML_STREAMS];
	struct sml_shard *shard = open_path();
	struct sml_worker *next;
	void *memory;

	narrow(shard);
	assert_is_narrow(shard, true);
	sml_worker_freeze(&shard->worker);
	next = sml_shard_prepare(&path_config, &memory);
	assert_non_null(next);
	sml_shard_renew(shard, next, memory, maps, &path, false);
	assert_is_narrow(shard, false);
	/* Nor do the old path's answers count for the new one. */
	sml_line_note_timeout(shard);
	assert_is_narrow(shard, false);
	close_path(shard);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The end host's state machine: when it sends packets again. */
#include <stdbool.h>

#include "support/one_worker.h"
#include "support/test.h"

TEST_WITH(a_lost_packet_is_sent_again_after_the_timeout, NULL, end)
{
	struct rig_packet first, again;
	uint64_t deadline_ns;

	begin(1, 6);
	first = sent();
	deadline_ns = sml_worker_deadline(worker());
	assert_true(deadline_ns > rig.now_ns && deadline_ns <= rig.now_ns + 1000 * MS);
	rig.now_ns = deadline_ns - 1;
	sml_worker_expire(worker(), rig.now_ns);
	assert_silent();
	rig.now_ns = deadline_ns;
	sml_worker_expire(worker(), rig.now_ns);
	again = sent();
	assert_memory_equal(again.bytes, first.bytes, first.length);
	assert_int_equal(worker()->counters.retransmits_timeout, 1);
	assert_silent();
}

TEST_WITH(timeouts_back_off_until_a_packet_that_was_sent_once_is_answered, NULL, end)
{
	struct rig_packet packet;
	uint64_t before_ns = 0, rto_ns, wait_ns;

	begin(1, 6);
	packet = sent();
	worker()->probes = UINT8_MAX; /* they have been sent */
	rto_ns = worker()->rtt.rto_ns;
	for (int i = 0; i < 4; i++) {
		wait_ns = sml_worker_deadline(worker()) - rig.now_ns;
		assert_true(i == 0 || wait_ns >= before_ns);
		before_ns = wait_ns;
		rig.now_ns += wait_ns;
		sml_worker_expire(worker(), rig.now_ns);
		packet = sent();
	}
	assert_true(before_ns >= 4 * rto_ns);
	assert_true(before_ns <= SML_RTT_BACKOFF_CAP_NS || before_ns == rto_ns);
	/* Which transmission does it answer? The timeout may be too short for this path. */
	answer(&packet, 1);
	assert_int_equal(worker()->rtt.backoff, 2);
	packet = sent();
	answer(&packet, 2);
	assert_int_equal(worker()->rtt.backoff, 0);
	sent();
	assert_true(sml_worker_deadline(worker()) <= rig.now_ns + worker()->rtt.rto_ns);
}

/* As if a queue had grown while the timeout was at its least: no packet is answered in time. */
TEST_WITH(a_timeout_that_is_too_short_for_the_path_grows, NULL, end)
{
	struct rig_packet packet;

	begin(1, 6);
	packet = sent();
	answer(&packet, 1);
	assert_int_equal(worker()->rtt.rto_ns, SML_RTT_MIN_RTO_NS);
	for (uint32_t chunk = 1; chunk < 3; chunk++) {
		packet = sent();
		worker()->probes = UINT8_MAX; /* they have been sent */
		do {
			rig.now_ns = sml_worker_deadline(worker());
			sml_worker_expire(worker(), rig.now_ns);
			packet = sent();
		} while (worker()->rtt.backoff < 2);
		/* Within the timeout, it may answer an earlier transmission. */
		rig.now_ns += chunk == 1 ? SML_RTT_MIN_RTO_NS : 30 * MS;
		answer(&packet, chunk + 1);
		assert_true((worker()->rtt.rto_ns > 30 * MS) == (chunk > 1));
	}
}

/* The switch is slow: it answers each transmission, but later than all of them are sent. */
TEST_WITH(a_second_answer_tells_the_round_trip, NULL, end)
{
	struct rig_packet first, second;

	begin(1, 6);
	first = second = sent();
	/* Each packet of a use that was sent once is answered in time, so this is a copy's. */
	answer(&first, 1);
	second = sent();
	rig.now_ns += 900 * MS;
	assert_int_equal(answer(&first, 1), SML_WORKER_IGNORED);
	assert_int_equal(worker()->rtt.rto_ns, SML_RTT_MIN_RTO_NS);
	sml_worker_expire(worker(), rig.now_ns);
	assert_int_equal(sent().length, second.length);
	answer(&second, 2);
	sent();
	/* As after a loss, when another rank's packet completes the use a moment earlier. */
	rig.now_ns += SML_RTT_MIN_RTO_NS;
	assert_int_equal(answer(&second, 2), SML_WORKER_IGNORED);
	assert_int_equal(worker()->rtt.rto_ns, SML_RTT_MIN_RTO_NS);
	/* One answer may be a copy that the network made. */
	rig.now_ns += 596 * MS;
	assert_int_equal(answer(&second, 2), SML_WORKER_IGNORED);
	assert_in_range(worker()->rtt.rto_ns, SML_RTT_MIN_RTO_NS, 3 * SML_RTT_MIN_RTO_NS);
	for (unsigned i = 0; i < 6; i++)
		answer(&second, 2);
	assert_in_range(worker()->rtt.rto_ns, 600 * MS, SML_RTT_MAX_RTO_NS);
	assert_int_equal(sml_rtt_timeout(&worker()->rtt), worker()->rtt.rto_ns);
}

/* Another rank may have completed the use, but the path is known to be slow. */
TEST(a_slow_path_is_not_taken_for_a_late_rank)
{
	struct sml_rtt fast, slow;

	sml_rtt_init(&fast);
	sml_rtt_sample(&fast, 300 * MS, false, 0);
	assert_int_equal(fast.smoothed_ns, SML_RTT_STRAGGLER_NS);
	sml_rtt_init(&slow);
	sml_rtt_sample(&slow, 300 * MS, true, 0);
	sml_rtt_sample(&slow, 300 * MS, false, 0);
	assert_int_equal(slow.smoothed_ns, 300 * MS);
	/* A late rank is still one, and a path may become fast again. */
	sml_rtt_sample(&slow, 1000 * MS, false, 0);
	assert_int_equal(slow.smoothed_ns, 300 * MS);
	for (unsigned i = 0; i < 40; i++)
		sml_rtt_sample(&slow, MS, true, 0);
	assert_in_range(slow.path_ns, MS, SML_RTT_STRAGGLER_NS);
}

TEST_WITH(one_timeout_does_not_make_the_next_one_longer, NULL, end)
{
	struct rig_packet packet;

	begin(1, 6);
	packet = sent();
	answer(&packet, 1);
	packet = sent();
	worker()->probes = UINT8_MAX;
	rig.now_ns = sml_worker_deadline(worker());
	sml_worker_expire(worker(), rig.now_ns);
	packet = sent();
	/* Another rank may have lost its packet, too. */
	rig.now_ns += 30 * MS;
	answer(&packet, 2);
	assert_int_equal(worker()->rtt.rto_ns, SML_RTT_MIN_RTO_NS);
}

/*
 * A full queue has made the timeout long. Nothing comes behind the call's last packets, so nothing
 * shows that they are lost.
 */
TEST_WITH(the_oldest_packets_are_probed_when_nothing_is_heard, NULL, end)
{
	struct rig_packet packets[8], again;
	uint64_t wait_ns, first_ns = 0;

	begin(8, 8);
	set_window(8);
	for (uint32_t i = 0; i < 8; i++)
		packets[i] = sent();
	worker()->rtt.smoothed_ns = 100 * MS;
	worker()->rtt.variation_ns = 100 * MS;
	answer(&packets[0], 8);
	assert_silent();
	assert_true(worker()->rtt.rto_ns > 300 * MS);
	/* Not before the gaps between results are known. */
	assert_true(sml_worker_deadline(worker()) > rig.now_ns + 100 * MS);
	worker()->gap_before_ns = MS;
	/* Not while the window is full: this is not the tail. */
	set_window(7);
	assert_true(sml_worker_deadline(worker()) > rig.now_ns + 100 * MS);
	set_window(8);
	/* As in the paper: only the timer. */
	worker()->config.no_fast_retransmit = true;
	assert_true(sml_worker_deadline(worker()) > rig.now_ns + 100 * MS);
	worker()->config.no_fast_retransmit = false;
	for (uint32_t probe = 0; probe < 4; probe++) {
		wait_ns = sml_worker_deadline(worker()) - rig.now_ns;
		first_ns = probe == 0 ? wait_ns : first_ns;
		assert_int_equal(wait_ns, first_ns << probe);
		rig.now_ns += wait_ns - 1;
		sml_worker_expire(worker(), rig.now_ns);
		assert_silent();
		sml_worker_expire(worker(), ++rig.now_ns);
		/* Four of seven, in turns. */
		for (uint32_t i = 0; i < 4; i++) {
			again = sent();
			assert_int_equal(chunk_of(&again), 1 + (4 * probe + i) % 7);
		}
		assert_silent();
	}
	assert_true(first_ns <= 10 * MS);
	assert_int_equal(worker()->counters.stalls, 0);
	assert_int_equal(worker()->rtt.backoff, 0);
	/* Another rank may be late. From now on, the timeout decides. */
	assert_true(sml_worker_deadline(worker()) > rig.now_ns + 100 * MS);
	/* A result begins it anew. */
	answer(&packets[1], 9);
	assert_int_equal(sml_worker_deadline(worker()), rig.now_ns + first_ns);
}

TEST_WITH(a_packet_that_many_later_ones_overtook_is_sent_again_at_once, NULL, end)
{
	struct rig_packet packets[8], again;

	begin(8, 100);
	set_window(8);
	for (uint32_t i = 0; i < 8; i++)
		packets[i] = sent();
	/* Not yet: the next three packets have been answered, but within less than a round trip. */
	rig.now_ns += worker()->rtt.smoothed_ns / 2;
	for (uint32_t i = 1; i < 4; i++)
		answer(&packets[i], 8 + i);
	assert_int_equal(worker()->lost.n, 0);
	for (uint32_t i = 1; i < 4; i++) {
		struct rig_packet next = sent();

		assert_int_not_equal(chunk_of(&next), 0);
	}
	rig.now_ns += 2 * worker()->rtt.smoothed_ns;
	answer(&packets[4], 12);
	again = sent();
	assert_int_equal(chunk_of(&again), 0);
	assert_int_equal(worker()->counters.retransmits_fast, 1);
	assert_int_equal(worker()->counters.retransmits_timeout, 0);
}

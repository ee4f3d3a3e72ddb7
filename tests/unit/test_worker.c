/* SPDX-License-Identifier: BSD-3-Clause */
/* The end host's state machine, one rule at a time, with answers by hand. */
#include <stdbool.h>
#include <string.h>

#include "core/worker_internal.h"
#include "support/rig.h"
#include "support/test.h"

#define MS 1000000ull

static struct rig rig;

static struct sml_worker *worker(void)
{
	return &rig.ranks[0].worker;
}

static const struct sml_header *header_of(const struct rig_packet *packet)
{
	return (const struct sml_header *)packet->bytes;
}

static uint32_t chunk_of(const struct rig_packet *packet)
{
	return sml_be32(header_of(packet)->chunk_be);
}

static bool is_data(const struct rig_packet *packet)
{
	return sml_be16(header_of(packet)->slot_be) >= rig.pool.rules.head_slots;
}

static struct rig_packet sent(void)
{
	struct rig_packet packet;

	assert_true(rig_send(&rig, 0, &packet));
	return packet;
}

static void assert_silent(void)
{
	struct rig_packet packet;

	assert_false(rig_send(&rig, 0, &packet));
}

static enum sml_worker_verdict answer(const struct rig_packet *packet, uint32_t ticket)
{
	struct rig_packet result;

	rig_answer(&rig, packet, ticket, &result);
	return rig_to_rank(&rig, 0, result.bytes, result.length);
}

/*
 * One rank. The head chunk of a plain tensor is done, so that the rest is about the data
 * stream only. The head stream's next ticket never becomes due.
 */
static void begin(uint16_t data_slots, uint32_t n_chunks)
{
	struct rig_packet head;

	rig_init(&rig, 1, 1, data_slots);
	rig_submit(&rig, n_chunks * RIG_LANES);
	head = sent();
	assert_false(is_data(&head));
	rig.now_ns += MS;
	assert_int_equal(answer(&head, 1), SML_WORKER_RESULT);
}

static int end(void **state)
{
	(void)state;
	return rig_fini(&rig) ? 0 : -1;
}

/* ---- what is sent ---- */

TEST_WITH(lowest_chunks_are_sent_first_and_once, NULL, end)
{
	begin(4, 10);
	for (uint32_t i = 0; i < 4; i++) {
		struct rig_packet packet = sent();

		assert_true(is_data(&packet));
		assert_int_equal(chunk_of(&packet), i);
		assert_int_equal(header_of(&packet)->use_be, 0);
	}
	assert_silent();
}

TEST_WITH(a_result_brings_the_ticket_s_chunk, NULL, end)
{
	struct rig_packet first, next;

	begin(2, 10);
	first = sent();
	sent();
	assert_int_equal(answer(&first, 7), SML_WORKER_RESULT);
	next = sent();
	assert_int_equal(chunk_of(&next), 7);
	assert_int_equal(header_of(&next)->slot_be, header_of(&first)->slot_be);
	assert_int_equal(sml_be32(header_of(&next)->use_be), 1);
}

TEST_WITH(nothing_is_sent_for_what_is_not_submitted, NULL, end)
{
	struct rig_packet packet;

	begin(2, 3);
	packet = sent();
	sent();
	assert_int_equal(answer(&packet, 3), SML_WORKER_RESULT);
	assert_silent();
	rig_submit(&rig, 2 * RIG_LANES);
	/* The second tensor's head, then its first data chunk: number 3. */
	packet = sent();
	assert_false(is_data(&packet));
	packet = sent();
	assert_true(is_data(&packet));
	assert_int_equal(chunk_of(&packet), 3);
}

TEST_WITH(the_last_result_ends_the_tensor, NULL, end)
{
	struct rig_packet packets[2];

	begin(2, 2);
	packets[0] = sent();
	packets[1] = sent();
	assert_null(sml_worker_retire(worker()));
	assert_int_equal(answer(&packets[1], 2), SML_WORKER_RESULT);
	assert_int_equal(answer(&packets[0], 3), SML_WORKER_TENSOR);
	assert_ptr_equal(sml_worker_retire(worker()), &rig.ranks[0].calls[0].tensor);
	assert_null(sml_worker_retire(worker()));
	assert_true(rig_sums_are_exact(&rig));
}

/* ---- what is taken ---- */

TEST_WITH(a_result_is_taken_only_for_the_packet_in_flight, NULL, end)
{
	struct rig_packet packet, result, wrong;
	struct sml_header *header = (struct sml_header *)wrong.bytes;
	uint64_t ignored;

	begin(2, 6);
	packet = sent();
	rig_answer(&rig, &packet, 2, &result);
	ignored = worker()->counters.ignored;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		wrong = result;                                                                    \
		change;                                                                            \
		assert_int_equal(rig_to_rank(&rig, 0, wrong.bytes, wrong.length),                  \
				 SML_WORKER_IGNORED);                                              \
		assert_int_equal(worker()->counters.ignored, ++ignored);                           \
	} while (0)
	REFUSED(header->magic_be = 0);
	REFUSED(header->version++);
	REFUSED(header->kind = SML_PACKET_CONTRIBUTION);
	REFUSED(header->job_be ^= 1);
	REFUSED(header->epoch_be ^= 1);
	REFUSED(header->key_be ^= 1);
	REFUSED(header->use_be = sml_be32(1));
	REFUSED(header->use_be = sml_be32((uint32_t)-1));
	REFUSED(header->digest_be ^= 1);
	REFUSED(header->op = SML_LANE_MAX);
	REFUSED(header->lane_kind = SML_LANE_INT16_PAIR);
	REFUSED(header->slot_be = sml_be16(2)); /* not sent yet */
	REFUSED(header->slot_be = sml_be16(3)); /* there is none */
	REFUSED(header->slot_be = 0);		/* of the other stream */
	REFUSED(wrong.length -= 4);
	REFUSED(wrong.length = SML_HEADER_BYTES - 1);
	REFUSED(header->lanes_be = sml_be16(RIG_LANES - 1));
#undef REFUSED
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_RESULT);
	/* It is taken only once. */
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_IGNORED);
	packet = sent();
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_IGNORED);
}

TEST_WITH(a_late_result_of_a_packet_given_up_is_taken, NULL, end)
{
	struct rig_packet packet;

	begin(1, 6);
	packet = sent();
	rig.now_ns = sml_worker_deadline(worker());
	sml_worker_expire(worker(), rig.now_ns);
	assert_int_equal(answer(&packet, 1), SML_WORKER_RESULT);
	packet = sent();
	assert_int_equal(chunk_of(&packet), 1);
	assert_silent();
}

TEST_WITH(a_frozen_worker_neither_sends_nor_takes, NULL, end)
{
	struct rig_packet packet;

	begin(2, 6);
	packet = sent();
	sml_worker_freeze(worker());
	assert_silent();
	assert_int_equal(answer(&packet, 2), SML_WORKER_IGNORED);
	assert_int_equal(sml_worker_deadline(worker()), UINT64_MAX);
}

/* And it stays there. */
static void set_window(uint32_t window)
{
	worker()->flight.window = worker()->flight.max = window;
	worker()->flight.probing = false;
}

/* Data chunks on the int16 wire whose exponents a head chunk carries: 64 elements share each. */
#define HEAD_CHUNKS   64
#define HEAD_ELEMENTS (2 * RIG_LANES * 64)

static void submit_floats_with_two_head_chunks(void)
{
	static float elements[2 * HEAD_ELEMENTS];
	static uint64_t memory[4096];
	static struct sml_tensor tensor;
	struct sml_tensor_spec spec = {.type = SML_FLOAT32,
				       .op = SML_SUM,
				       .wire = SML_WIRE_INT16,
				       .count = 2 * HEAD_ELEMENTS,
				       .send_count = 2 * HEAD_ELEMENTS,
				       .recv_count = 2 * HEAD_ELEMENTS,
				       .send = elements,
				       .recv = elements};
	const struct sml_shape *shape = &worker()->config.shape;

	assert_true(sml_tensor_memory_bytes(&spec, shape) <= sizeof(memory));
	sml_tensor_init(&tensor, &spec, shape, &rig.ranks[0].sequence, memory);
	assert_true(sml_worker_submit(worker(), &tensor));
}

TEST_WITH(data_are_sent_in_order_even_if_later_exponents_come_first, NULL, end)
{
	struct rig_packet heads[2];

	rig_init(&rig, 1, 2, 2 * HEAD_CHUNKS);
	set_window(2 * HEAD_CHUNKS);
	submit_floats_with_two_head_chunks();
	for (uint32_t i = 0; i < 2; i++)
		heads[i] = sent();
	answer(&heads[1], 3);
	assert_true(sml_tensor_chunk_is_ready(worker()->tensors[0], SML_DATA, HEAD_CHUNKS));
	assert_silent();
	assert_true(sml_worker_is_blocked(worker()));
	answer(&heads[0], 2);
	for (uint32_t i = 0; i < 2 * HEAD_CHUNKS; i++) {
		struct rig_packet packet = sent();

		assert_true(is_data(&packet));
		assert_int_equal(chunk_of(&packet), i);
	}
	assert_silent();
	assert_false(sml_worker_is_blocked(worker()));
}

/* ---- windows ---- */

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

TEST_WITH(lanes_that_are_all_zero_do_not_travel, NULL, end)
{
	struct rig_packet packet, result;
	struct sml_header *header = (struct sml_header *)result.bytes;
	int32_t *elements;

	begin(2, 3);
	worker()->config.omits = true;
	elements = (int32_t *)(void *)rig.ranks[0].calls[0].send.bytes;
	memset(elements, 0, 3 * 4 * RIG_LANES);
	elements[2 * RIG_LANES - 1] = 1; /* the second chunk's last */

	packet = sent();
	assert_int_equal(packet.length, SML_HEADER_BYTES);
	assert_int_equal(header_of(&packet)->lane_kind, SML_LANE_INT32 | SML_LANES_OMITTED);
	assert_int_equal(header_of(&packet)->lanes_be, sml_be16(RIG_LANES));
	/* The same again. */
	rig.now_ns += 1000 * MS;
	sml_worker_expire(worker(), rig.now_ns);
	packet = sent();
	assert_int_equal(packet.length, SML_HEADER_BYTES);
	/* The result may have lanes, or not; but not both. */
	rig_answer(&rig, &packet, 2, &result);
	result.length += 4;
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_IGNORED);
	result.length -= 4;
	elements = (int32_t *)(void *)rig.ranks[0].calls[0].recv.bytes;
	elements[0] = 7;
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_RESULT);
	assert_int_equal(elements[0], 0);

	/* The sum cannot be without lanes if this rank's part is not. */
	packet = sent();
	assert_int_equal(packet.length, SML_HEADER_BYTES + 4 * RIG_LANES);
	rig_answer(&rig, &packet, 3, &result);
	header->lane_kind |= SML_LANES_OMITTED;
	result.length = SML_HEADER_BYTES;
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_IGNORED);
	assert_int_equal(answer(&packet, 3), SML_WORKER_RESULT);

	packet = sent();
	rig_answer(&rig, &packet, 4, &result);
	header->lane_kind = SML_LANE_INT32;
	memset(result.bytes + SML_HEADER_BYTES, 1, 4 * RIG_LANES);
	result.length += 4 * RIG_LANES;
	assert_int_equal(rig_to_rank(&rig, 0, result.bytes, result.length), SML_WORKER_TENSOR);
	assert_int_equal(elements[2 * RIG_LANES], 0x01010101);
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

/* ---- loss ---- */

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

TEST_WITH(an_idle_worker_has_no_deadline, NULL, end)
{
	struct rig_packet packet;

	rig_init(&rig, 1, 1, 1);
	assert_int_equal(sml_worker_deadline(worker()), UINT64_MAX);
	assert_false(sml_worker_is_busy(worker()));
	rig_submit(&rig, 1);
	assert_int_equal(sml_worker_deadline(worker()), UINT64_MAX);
	packet = sent();
	assert_true(sml_worker_is_busy(worker()));
	assert_int_not_equal(sml_worker_deadline(worker()), UINT64_MAX);
	assert_int_equal(answer(&packet, 1), SML_WORKER_TENSOR);
	assert_int_equal(sml_worker_deadline(worker()), UINT64_MAX);
	assert_false(sml_worker_is_busy(worker()));
}

/* ---- switches that lie, and numbers that wrap around ---- */

TEST_WITH(a_chunk_given_to_two_slots_breaks_the_worker, NULL, end)
{
	struct rig_packet packet;

	begin(2, 6);
	packet = sent();
	answer(&packet, 1); /* slot 1 has chunk 1 from the start */
	packet = sent();
	assert_int_equal(chunk_of(&packet), 1);
	assert_false(sml_worker_is_broken(worker()));
	assert_silent();
	assert_true(sml_worker_is_broken(worker()));
	assert_int_equal(answer(&packet, 2), SML_WORKER_IGNORED);
}

TEST_WITH(a_ticket_of_a_finished_tensor_breaks_the_worker, NULL, end)
{
	struct rig_packet packet;

	rig_init(&rig, 1, 1, 1);
	rig_submit(&rig, 1);
	rig_submit(&rig, 1);
	packet = sent();
	assert_int_equal(answer(&packet, 0), SML_WORKER_TENSOR);
	assert_non_null(sml_worker_retire(worker()));
	assert_silent();
	assert_true(sml_worker_is_broken(worker()));
}

TEST_WITH(tickets_never_mean_the_table_again_once_they_have_wrapped_around, NULL, end)
{
	static const uint32_t table[] = {40, 50};
	const struct sml_ticket_map map = {table, 2, 60};

	rig_init(&rig, 1, 1, 1);
	sml_worker_set_map(worker(), SML_DATA, &map, 60);
#define CHUNK_OF(ticket)                                                                           \
	(sml_list_remove(&worker()->streams[SML_DATA].waiting, 1),                                 \
	 sml_worker_assign(worker(), SML_DATA, 1, ticket), worker()->chunks[1])
	assert_int_equal(CHUNK_OF(1), 50);
	assert_int_equal(CHUNK_OF(2), 60);
	assert_int_equal(CHUNK_OF(0x30000000u), 0x30000000u + 58);
	assert_int_equal(CHUNK_OF(0), 40);
	assert_int_equal(CHUNK_OF(0x50000000u), 0x50000000u + 58);
	assert_int_equal(CHUNK_OF(0xffffffffu), 57);
	assert_int_equal(CHUNK_OF(0), 58);
	assert_int_equal(CHUNK_OF(1), 59);
#undef CHUNK_OF
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The end host's state machine: which packets it sends and which results it takes. */
#include <stdbool.h>
#include <string.h>

#include "support/one_worker.h"
#include "support/test.h"

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

/* ---- what is taken: only what answers a packet in flight (tests/fuzz/worker.c) ---- */

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

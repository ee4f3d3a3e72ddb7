/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's worker, whose packets the test takes and answers by hand. Each test begins with
 * begin() or rig_init(), and has end() as its tear-down.
 */
#ifndef SML_TESTS_SUPPORT_ONE_WORKER_H
#define SML_TESTS_SUPPORT_ONE_WORKER_H

#include <stdbool.h>

#include "core/worker_internal.h"
#include "support/rig.h"
#include "support/test.h"

#define MS 1000000ull

static struct rig rig;

static inline struct sml_worker *worker(void)
{
	return &rig.ranks[0].worker;
}

static inline const struct sml_header *header_of(const struct rig_packet *packet)
{
	return (const struct sml_header *)packet->bytes;
}

static inline uint32_t chunk_of(const struct rig_packet *packet)
{
	return sml_be32(header_of(packet)->chunk_be);
}

static inline bool is_data(const struct rig_packet *packet)
{
	return sml_be16(header_of(packet)->slot_be) >= rig.pool.rules.head_slots;
}

static inline struct rig_packet sent(void)
{
	struct rig_packet packet;

	assert_true(rig_send(&rig, 0, &packet));
	return packet;
}

static inline void assert_silent(void)
{
	struct rig_packet packet;

	assert_false(rig_send(&rig, 0, &packet));
}

static inline enum sml_worker_verdict answer(const struct rig_packet *packet, uint32_t ticket)
{
	struct rig_packet result;

	rig_answer(&rig, packet, ticket, &result);
	return rig_to_rank(&rig, 0, result.bytes, result.length);
}

/*
 * One rank. The head chunk of a plain tensor is done, so that the rest is about the data
 * stream only. The head stream's next ticket never becomes due.
 */
static inline void begin(uint16_t data_slots, uint32_t n_chunks)
{
	struct rig_packet head;

	rig_init(&rig, 1, 1, data_slots);
	rig_submit(&rig, n_chunks * RIG_LANES);
	head = sent();
	assert_false(is_data(&head));
	rig.now_ns += MS;
	assert_int_equal(answer(&head, 1), SML_WORKER_RESULT);
}

static inline void end(void)
{
	assert_true(rig_fini(&rig));
}

/* Fix the window at this number of packets: neither results nor losses change it. */
static inline void set_window(uint32_t window)
{
	worker()->flight.window = worker()->flight.max = window;
	worker()->flight.probing = false;
}

#endif

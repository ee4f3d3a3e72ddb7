/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long ranks wait for others at a switch, and the names of verdicts. What becomes of packets is
 * in tests/vectors, in the properties of a slot and of a pool (tests/fuzz), and in simulated jobs.
 */
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "support/packet.h"
#include "support/test.h"

#define LANES	13
#define N_SLOTS 4

struct packet {
	struct sml_header header;
	uint32_t lanes_be[LANES];
};

struct job {
	struct sml_pool pool;
	void *memory;
	uint32_t use[N_SLOTS]; /* the use that each slot is filling */
};

static void open_job(struct job *job, uint8_t n_ranks)
{
	struct sml_pool_rules rules = {
		.job = 9,
		.epoch = 3,
		.head_slots = 1,
		.data_slots = N_SLOTS - 1,
		.lanes = LANES,
		.n_ranks = n_ranks,
		.n_shards = 2,
	};

	memset(job, 0, sizeof(*job));
	job->memory = malloc(sml_pool_memory_bytes(&rules));
	assert_non_null(job->memory);
	sml_pool_init(&job->pool, &rules, job->memory);
}

/* The rank contributes to some slots at this time. Returns how long the others waited for it. */
static uint64_t contribute_at(struct job *job, uint8_t rank, uint16_t slots, uint64_t now_ns)
{
	struct sml_pool_answer answer;
	uint64_t waited_ns = 0;

	for (uint16_t slot = 0; slot < slots; slot++) {
		struct packet packet = {
			.header = packet_header(SML_PACKET_CONTRIBUTION, 9, 3, 0, LANES)};
		enum sml_verdict verdict;

		packet.header.use_be = sml_be32(job->use[slot]);
		packet.header.slot_be = sml_be16(slot);
		packet.header.rank = rank;
		packet.header.shard = slot % 2;
		verdict = sml_pool_receive(&job->pool, &packet, sizeof(packet), &answer);
		waited_ns += sml_pool_waited(&job->pool, verdict, &answer.in, now_ns);
		job->use[slot] += verdict == SML_VERDICT_COMPLETED;
	}
	return waited_ns;
}

TEST(the_others_wait_from_the_half_of_them_to_the_last_one_however_many_slots_wait)
{
	struct job job;

	open_job(&job, 4);
	assert_int_equal(contribute_at(&job, 0, N_SLOTS, 1000), 0);
	assert_int_equal(contribute_at(&job, 3, N_SLOTS, 1100), 0);
	/* They are almost as late as the last one. */
	assert_int_equal(contribute_at(&job, 2, N_SLOTS, 5000), 0);
	assert_int_equal(contribute_at(&job, 2, N_SLOTS, 5050), 0);
	assert_int_equal(contribute_at(&job, 1, N_SLOTS, 5100), 4000);
	/* Nobody waits between calls. */
	assert_int_equal(contribute_at(&job, 1, 1, 9000), 0);
	assert_int_equal(contribute_at(&job, 0, 1, 9001), 0);
	assert_int_equal(contribute_at(&job, 2, 1, 9002), 0);
	assert_int_equal(contribute_at(&job, 3, 1, 9004), 3);
	free(job.memory);
}

TEST(while_other_slots_complete_a_slot_does_not_wait)
{
	struct job job;

	open_job(&job, 2);
	assert_int_equal(contribute_at(&job, 0, N_SLOTS, 1000), 0);
	/* Only one of its packets comes, and later the others, which had been lost. */
	assert_int_equal(contribute_at(&job, 1, 1, 1500), 500);
	assert_int_equal(contribute_at(&job, 1, 1, 1600), 0);
	assert_int_equal(contribute_at(&job, 0, 1, 1700), 100);
	assert_int_equal(contribute_at(&job, 1, N_SLOTS, 2000), 300);
	free(job.memory);
	/* Alone, it waits for nobody. */
	open_job(&job, 1);
	assert_int_equal(contribute_at(&job, 0, 1, 1000), 0);
	assert_int_equal(contribute_at(&job, 0, 1, 2000), 0);
	free(job.memory);
}

TEST(every_verdict_has_a_name_and_a_meaning)
{
	for (unsigned i = 0; i < SML_VERDICTS; i++) {
		assert_true(strlen(sml_verdict_name((enum sml_verdict)i)) > 0);
		assert_true(strlen(sml_verdict_meaning((enum sml_verdict)i)) > 0);
	}
	assert_string_equal(sml_verdict_name(SML_VERDICTS), "unknown");
}

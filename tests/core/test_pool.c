/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot rule in long runs: whole jobs, compared with an oracle that adds in 64 bits, with
 * random repetitions and delays of every packet. tests/vectors covers single packets.
 */
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "support/test.h"

#define LANES	13
#define N_OLD	64
#define ROUNDS	300
#define N_SLOTS 4

struct packet {
	struct sml_header header;
	uint32_t lanes_be[LANES];
};

struct job {
	struct sml_pool pool;
	void *memory;
	uint8_t op, kind;
	uint64_t random;
	uint32_t use[N_SLOTS]; /* the use that each slot is filling */
	struct packet old[N_OLD];
	unsigned n_old;
};

static uint32_t draw(struct job *job, uint32_t n)
{
	job->random = job->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(job->random >> 33) % n;
}

static void open_job(struct job *job, uint8_t n_ranks, uint8_t op, uint8_t kind, uint32_t first_use)
{
	struct sml_pool_rules rules = {
		.tag = 0x1122334455667788u,
		.job = 9,
		.epoch = 3,
		.head_slots = 1,
		.data_slots = N_SLOTS - 1,
		.lanes = LANES,
		.n_ranks = n_ranks,
		.n_shards = 2,
	};

	memset(job, 0, sizeof(*job));
	job->op = op;
	job->kind = kind;
	job->random = n_ranks * 7919u + op * 31u + kind;
	for (unsigned rank = 0; rank < SML_MAX_CHILDREN; rank++)
		rules.cookies[rank] = 1000 + rank;
	job->memory = malloc(sml_pool_memory_bytes(&rules));
	assert_non_null(job->memory);
	sml_pool_init(&job->pool, &rules, job->memory);
	for (unsigned slot = 0; slot < N_SLOTS; slot++) {
		job->use[slot] = first_use;
		/* Set the slots as if they had served all previous uses. */
		for (unsigned b = 0; b < 2 && first_use != 0; b++) {
			job->pool.slots[2 * slot + b].state = SML_SLOT_COMPLETE;
			job->pool.slots[2 * slot + b].use = first_use - 2 + b;
		}
	}
}

static void write_packet(struct job *job, uint8_t rank, uint16_t slot, struct packet *packet)
{
	packet->header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(9),
		.key_be = sml_be64(1000u + rank),
		.epoch_be = sml_be32(3),
		.use_be = sml_be32(job->use[slot]),
		.slot_be = sml_be16(slot),
		.rank = rank,
		.op = job->op,
		.lane_kind = job->kind,
		.shard = slot % 2,
		.lanes_be = sml_be16(LANES),
	};
	for (unsigned i = 0; i < LANES; i++)
		packet->lanes_be[i] = draw(job, 1u << 16) | draw(job, 1u << 16) << 16;
}

static enum sml_verdict receive(struct job *job, const struct packet *packet,
				struct sml_pool_answer *answer)
{
	return sml_pool_receive(&job->pool, packet, sizeof(*packet), answer);
}

/* ---- the oracle ---- */

static uint32_t expected_lane(const struct job *job, const struct packet *packets, unsigned n,
			      unsigned lane)
{
	int64_t whole = 0, high = 0, low = 0, most = INT64_MIN;
	int16_t most_high = INT16_MIN, most_low = INT16_MIN;

	for (unsigned r = 0; r < n; r++) {
		uint32_t bits = sml_be32(packets[r].lanes_be[lane]);

		whole += (int32_t)bits;
		high += (int16_t)(bits >> 16);
		low += (int16_t)bits;
		if ((int32_t)bits > most)
			most = (int32_t)bits;
		if ((int16_t)(bits >> 16) > most_high)
			most_high = (int16_t)(bits >> 16);
		if ((int16_t)bits > most_low)
			most_low = (int16_t)bits;
	}
	if (job->op == SML_LANE_MAX && job->kind == SML_LANE_INT32)
		return (uint32_t)most;
	if (job->op == SML_LANE_MAX)
		return (uint32_t)(uint16_t)most_high << 16 | (uint16_t)most_low;
	if (job->kind == SML_LANE_INT32)
		return (uint32_t)whole;
	return (uint32_t)(uint16_t)high << 16 | (uint16_t)low;
}

static void check_result(const struct job *job, const struct packet *packets, uint32_t use,
			 uint32_t ticket, const struct sml_pool_answer *answer)
{
	const struct packet *result = answer->packet;

	assert_non_null(result);
	assert_int_equal(answer->length, sizeof(*result));
	assert_int_equal(sml_be32(result->header.use_be), use);
	assert_int_equal(sml_be32(result->header.chunk_be), ticket);
	for (unsigned i = 0; i < LANES; i++)
		assert_int_equal(sml_be32(result->lanes_be[i]),
				 expected_lane(job, packets, job->pool.rules.n_ranks, i));
}

/* ---- the network ---- */

/* An old packet arrives once more: whatever its verdict, it must not count. */
static void late_packet(struct job *job)
{
	struct sml_pool_answer answer;
	uint32_t n = job->n_old < N_OLD ? job->n_old : N_OLD;
	enum sml_verdict verdict;

	if (n == 0)
		return;
	verdict = receive(job, &job->old[draw(job, n)], &answer);
	assert_true(verdict == SML_VERDICT_DUPLICATE || verdict == SML_VERDICT_STALE_USE ||
		    verdict == SML_VERDICT_RESEND);
}

static void shuffle(struct job *job, uint8_t *order, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		order[i] = (uint8_t)i;
	for (unsigned i = n; i > 1; i--) {
		unsigned j = draw(job, i);
		uint8_t swapped = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swapped;
	}
}

/* One use of a slot, with ranks in random order and late packets in between. */
static void serve_one_use(struct job *job, uint16_t slot, uint32_t ticket)
{
	struct packet packets[SML_MAX_CHILDREN];
	unsigned n = job->pool.rules.n_ranks;
	struct sml_pool_answer answer;
	uint8_t order[SML_MAX_CHILDREN];

	shuffle(job, order, n);
	for (unsigned i = 0; i < n; i++)
		write_packet(job, (uint8_t)i, slot, &packets[i]);
	for (unsigned i = 0; i < n; i++) {
		enum sml_verdict verdict = receive(job, &packets[order[i]], &answer);

		job->old[job->n_old++ % N_OLD] = packets[order[i]];
		assert_int_equal(verdict, i + 1 < n ? SML_VERDICT_ABSORBED : SML_VERDICT_COMPLETED);
		if (i + 1 < n)
			late_packet(job);
	}
	check_result(job, packets, job->use[slot], ticket, &answer);
	/* A rank that lost the result gets the same bytes again, after any other packets. */
	late_packet(job);
	assert_int_equal(receive(job, &packets[order[0]], &answer), SML_VERDICT_RESEND);
	check_result(job, packets, job->use[slot], ticket, &answer);
	job->use[slot]++;
}

static void run_job(uint8_t n_ranks, uint8_t op, uint8_t kind, uint32_t first_use)
{
	uint32_t tickets[SML_STREAMS] = {1, N_SLOTS - 1};
	struct job job;

	open_job(&job, n_ranks, op, kind, first_use);
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint16_t slot = (uint16_t)draw(&job, N_SLOTS);

		serve_one_use(&job, slot, tickets[slot == 0 ? SML_HEAD : SML_DATA]++);
	}
	free(job.memory);
}

TEST(sums_are_exact_whatever_comes_late)
{
	static const uint8_t worlds[] = {1, 2, 3, 8, 63, 64};

	for (size_t i = 0; i < sizeof(worlds); i++) {
		run_job(worlds[i], SML_LANE_SUM, SML_LANE_INT32, 0);
		run_job(worlds[i], SML_LANE_SUM, SML_LANE_INT16_PAIR, 0);
		run_job(worlds[i], SML_LANE_MAX, SML_LANE_INT32, 0);
		run_job(worlds[i], SML_LANE_MAX, SML_LANE_INT16_PAIR, 0);
	}
}

TEST(uses_wrap_around_without_a_trace)
{
	/* Each slot steps across 2^32 about a third of the way through. */
	run_job(1, SML_LANE_SUM, SML_LANE_INT32, 0u - 24);
	run_job(3, SML_LANE_SUM, SML_LANE_INT32, 0u - 24);
	run_job(64, SML_LANE_SUM, SML_LANE_INT16_PAIR, 0u - 24);
}

TEST(mismatch_leaves_the_sum_as_it_was)
{
	struct packet packets[3], odd;
	struct sml_pool_answer answer;
	struct job job;

	open_job(&job, 3, SML_LANE_SUM, SML_LANE_INT32, 0);
	for (uint8_t rank = 0; rank < 3; rank++)
		write_packet(&job, rank, 2, &packets[rank]);
	assert_int_equal(receive(&job, &packets[0], &answer), SML_VERDICT_ABSORBED);
	odd = packets[1];
	odd.header.digest_be ^= 1;
	assert_int_equal(receive(&job, &odd, &answer), SML_VERDICT_MISMATCH);
	assert_null(answer.packet);
	assert_int_equal(receive(&job, &packets[1], &answer), SML_VERDICT_ABSORBED);
	assert_int_equal(receive(&job, &packets[2], &answer), SML_VERDICT_COMPLETED);
	check_result(&job, packets, 0, N_SLOTS - 1, &answer);
	free(job.memory);
}

/* The rank contributes to some slots at this time. Returns how long the others waited for it. */
static uint64_t contribute_at(struct job *job, uint8_t rank, uint16_t slots, uint64_t now_ns)
{
	struct sml_pool_answer answer;
	struct packet packet;
	uint64_t waited_ns = 0;

	for (uint16_t slot = 0; slot < slots; slot++) {
		enum sml_verdict verdict;

		write_packet(job, rank, slot, &packet);
		verdict = receive(job, &packet, &answer);
		waited_ns += sml_pool_waited(&job->pool, verdict, &answer.in, now_ns);
		job->use[slot] += verdict == SML_VERDICT_COMPLETED;
	}
	return waited_ns;
}

TEST(the_others_wait_from_the_half_of_them_to_the_last_one_however_many_slots_wait)
{
	struct job job;

	open_job(&job, 4, SML_LANE_SUM, SML_LANE_INT32, 0);
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

	open_job(&job, 2, SML_LANE_SUM, SML_LANE_INT32, 0);
	assert_int_equal(contribute_at(&job, 0, N_SLOTS, 1000), 0);
	/* Only one of its packets comes, and later the others, which had been lost. */
	assert_int_equal(contribute_at(&job, 1, 1, 1500), 500);
	assert_int_equal(contribute_at(&job, 1, 1, 1600), 0);
	assert_int_equal(contribute_at(&job, 0, 1, 1700), 100);
	assert_int_equal(contribute_at(&job, 1, N_SLOTS, 2000), 300);
	free(job.memory);
	/* Alone, it waits for nobody. */
	open_job(&job, 1, SML_LANE_SUM, SML_LANE_INT32, 0);
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

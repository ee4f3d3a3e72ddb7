/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/xdp_pair.h"

#include <stdlib.h>
#include <string.h>

#include "support/test.h"

#define LOOPBACK 1 /* where BPF_PROG_TEST_RUN's packets come from */

struct pair pair;
struct sml_xdp_maps *pair_maps;
uint64_t pair_seed = 88172645463325252u;

void pair_load(void)
{
	const struct sml_xdp_config config = {.port = FRAME_PORT, .max_jobs = 2, .max_slots = 64};

	pair_maps = xdp_open_maps(&config);
	assert_int_equal(sml_xdp_maps_start_cleaner(pair_maps), 0);
}

uint32_t pair_draw(uint32_t below)
{
	pair_seed ^= pair_seed << 13;
	pair_seed ^= pair_seed >> 7;
	pair_seed ^= pair_seed << 17;
	return (uint32_t)(pair_seed >> 20) % below;
}

void pair_run(const uint8_t *frame, uint32_t bytes, struct xdp_outcome *out)
{
	xdp_run(sml_xdp_maps_entry_fd(pair_maps), frame, bytes, out);
}

uint32_t pair_renewal(uint8_t rank, uint8_t shard, uint32_t number, uint8_t *frame)
{
	struct sml_header header = frame_header(&pair.pool.rules, rank, 0, number, 0);

	header.kind = SML_PACKET_PROBE;
	header.shard = shard;
	return frame_build(frame, &pair.wrappings[rank], &header, sizeof(header));
}

uint32_t pair_probe(uint8_t rank, uint8_t shard, uint8_t *frame)
{
	return pair_renewal(rank, shard, 0, frame);
}

uint32_t pair_reply(const struct frame_wrapping *host, uint8_t shard, uint8_t *frame)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = sml_pool_probe_up(&pair.pool.rules, shard, 32, 0);

	header.kind = SML_PACKET_PROBE_REPLY;
	header.key_be = sml_be64(pair.pool.rules.parent.tag);
	memcpy(packet, &header, sizeof(header));
	return frame_build(frame, host, packet, SML_HEADER_BYTES + 4 * 32);
}

void pair_learn_parent(void)
{
	struct sml_xdp_peer peer;
	struct xdp_outcome out;
	uint8_t frame[FRAME_BYTES];

	xdp_set_parent(pair_maps, PAIR_JOB, &pair.wrappings[SML_XDP_PARENT]);
	for (uint8_t shard = 0; shard < pair.pool.rules.n_shards; shard++) {
		uint32_t bytes = pair_reply(&pair.wrappings[SML_XDP_PARENT], shard, frame);

		pair_run(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		assert_memory_equal(out.frame, frame, bytes);
		assert_int_equal(
			sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, SML_XDP_PARENT, shard, &peer),
			0);
		assert_int_equal(peer.ifindex, LOOPBACK);
	}
}

/* Every rank's probe, as it arrives at the join. */
static void learn_all(void)
{
	struct sml_xdp_peer peer;
	struct xdp_outcome out;
	uint8_t frame[FRAME_BYTES];

	for (uint8_t rank = 0; rank < pair.pool.rules.n_ranks; rank++)
		for (uint8_t shard = 0; shard < pair.pool.rules.n_shards; shard++) {
			uint32_t bytes = pair_probe(rank, shard, frame);

			pair_run(frame, bytes, &out);
			assert_int_equal(out.action, XDP_PASS);
			assert_memory_equal(out.frame, frame, bytes);
			assert_int_equal(
				sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, rank, shard, &peer), 0);
			assert_int_equal(peer.ifindex, LOOPBACK);
		}
}

void pair_add(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards, bool is_leaf)
{
	struct sml_pool_rules rules = {
		.tag = 0x7a67,
		.job = PAIR_JOB,
		.epoch = 3,
		.head_slots = PAIR_HEAD_SLOTS,
		.data_slots = PAIR_DATA_SLOTS,
		.lanes = lanes,
		.n_ranks = n_ranks,
		.n_shards = n_shards,
		.is_leaf = is_leaf,
		.rounds = true,
		.parent = {.cookie = 0xbeef, .tag = 0x9a7e, .job = PAIR_PARENT_JOB, .rank = 17}};

	memset(&pair, 0, sizeof(pair));
	for (uint8_t rank = 0; rank < n_ranks; rank++) {
		rules.cookies[rank] = 0xc00c1e00u + rank;
		pair.wrappings[rank] = (struct frame_wrapping){
			.rank = rank, .v6 = pair_draw(2), .n_tags = pair_draw(3)};
	}
	pair.wrappings[SML_XDP_PARENT] = (struct frame_wrapping){
		.rank = PAIR_PARENT_HOST, .v6 = pair_draw(2), .n_tags = pair_draw(3)};
	sml_xdp_maps_remove_job(pair_maps, PAIR_JOB); /* left over from a failed test */
	pair.memory = malloc(sml_pool_memory_bytes(&rules));
	sml_pool_init(&pair.pool, &rules, pair.memory);
	xdp_add_job(pair_maps, &rules);
	learn_all();
}

void pair_open(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards)
{
	pair_add(n_ranks, lanes, n_shards, false);
	assert_int_equal(sml_xdp_maps_start_job(pair_maps, PAIR_JOB, 0), 0);
}

void pair_open_leaf(uint8_t n_ranks, uint16_t lanes, uint8_t n_shards)
{
	pair_add(n_ranks, lanes, n_shards, true);
	pair_learn_parent();
	assert_int_equal(sml_xdp_maps_start_job(pair_maps, PAIR_JOB, 0), 0);
}

void pair_close(void)
{
	sml_xdp_maps_remove_job(pair_maps, PAIR_JOB);
	free(pair.memory);
}

void pair_assert_counted(struct sml_xdp_totals *before, uint32_t fate)
{
	struct sml_xdp_totals now;

	sml_xdp_maps_totals(pair_maps, PAIR_JOB, &now);
	before->traffic.fates[fate]++;
	for (uint32_t i = 0; i < SML_XDP_FATES; i++)
		if (now.traffic.fates[i] != before->traffic.fates[i])
			fail_msg("fate %u: %lu counted, not %lu", i,
				 (unsigned long)now.traffic.fates[i],
				 (unsigned long)before->traffic.fates[i]);
	*before = now;
}

uint32_t pair_contribution(uint8_t rank, uint8_t *frame)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = frame_header(&pair.pool.rules, rank, 0, 0, 64);

	memcpy(packet, &header, sizeof(header));
	packet[30] = 0x12345678;
	return frame_build(frame, &pair.wrappings[rank], packet, sizeof(packet));
}

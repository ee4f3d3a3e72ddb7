/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single packets for the loaded XDP program, through BPF_PROG_TEST_RUN: which ones are its own,
 * whose addresses it learns, and what it hands to the daemon. Skipped if BPF is not permitted.
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"
#include "support/xdp_pair.h"

#define DAEMON_KEY 0x1122334455667788u
#define STRANGER   201

static uint8_t frame[FRAME_BYTES];
static struct xdp_outcome out;

static void open_two(void)
{
	pair_open(2, 352, 1);
}

static void close_pair(void)
{
	pair_close();
}

static void assert_passed(uint32_t bytes)
{
	pair_run(frame, bytes, &out);
	assert_int_equal(out.action, XDP_PASS);
	assert_int_equal(out.bytes, bytes);
	assert_memory_equal(out.frame, frame, bytes);
}

TEST_WITH(what_is_not_ours_passes_untouched, open_two, close_pair)
{
	uint32_t bytes;

	pair.wrappings[0] = (struct frame_wrapping){.rank = 0};
	bytes = pair_contribution(0, frame);
	frame[20] = 0x20; /* more fragments follow */
	assert_passed(bytes);
	frame[20] = 0;
	frame[14] = 0x46; /* options */
	assert_passed(bytes);
	frame[14] = 0x45;
	frame[23] = 6; /* TCP */
	assert_passed(bytes);
	frame[23] = 17;
	frame[37]++; /* port */
	assert_passed(bytes);
	frame[37]--;
	frame[39]++; /* length */
	assert_passed(bytes);
	frame[39]--;
	frame[12] = 0x08;
	frame[13] = 0x06; /* ARP */
	assert_passed(bytes);
	for (uint32_t length = 14; length < bytes; length++) {
		pair_contribution(0, frame);
		assert_passed(length);
	}
}

TEST(an_ipv4_sender_may_leave_out_the_checksum_and_pad_the_frame)
{
	struct sml_xdp_totals totals;
	uint32_t bytes;

	pair_open(1, 352, 1);
	pair.wrappings[0] = (struct frame_wrapping){.rank = 0};
	memset(frame, 0, sizeof(frame));
	bytes = pair_contribution(0, frame);
	frame[40] = frame[41] = 0;
	pair_run(frame, bytes + 6, &out);
	assert_int_equal(out.action, XDP_REDIRECT);
	sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
	assert_int_equal(totals.traffic.fates[SML_VERDICT_COMPLETED], 1);
	pair_close();
}

TEST_WITH(an_address_is_learned_with_the_cookie_only_and_stays, open_two, close_pair)
{
	struct sml_xdp_peer before, after;
	uint32_t bytes;

	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &before);
	pair.wrappings[1].rank = 9; /* another address */
	bytes = pair_probe(1, 0, frame);
	pair_run(frame, bytes, &out); /* the job runs already */
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &after);
	assert_memory_equal(&before, &after, sizeof(before));
}

TEST_WITH(a_renewed_address_is_learned_once, open_two, close_pair)
{
	struct sml_xdp_peer before, renewed, after;
	uint32_t bytes;

	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &before);
	assert_int_equal(sml_xdp_maps_renew_peer(pair_maps, PAIR_JOB, 1, 0, 77), 0);
	pair.wrappings[1].rank = 9; /* another address */
	bytes = pair_renewal(1, 0, 78, frame);
	pair_run(frame, bytes, &out);
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &renewed);
	assert_memory_equal(&before, &renewed, sizeof(before));
	bytes = pair_renewal(1, 0, 77, frame);
	pair_run(frame, bytes, &out);
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &renewed);
	assert_memory_not_equal(&before, &renewed, sizeof(before));
	/* A copy of the same probe from elsewhere. */
	pair.wrappings[1].rank = 10;
	bytes = pair_renewal(1, 0, 77, frame);
	pair_run(frame, bytes, &out);
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, 1, 0, &after);
	assert_memory_equal(&renewed, &after, sizeof(after));
}

/* Until the program's clock has gone on by this much. */
static void await_coarse_clock(uint64_t ns)
{
	uint64_t begun_ns = sml_clock_ns(CLOCK_MONOTONIC_COARSE);

	while (sml_clock_ns(CLOCK_MONOTONIC_COARSE) < begun_ns + ns)
		usleep(1000);
}

/* In a leaf, too, where they wait until the sum goes up. */
TEST(the_others_wait_for_the_last_rank)
{
	struct sml_xdp_totals totals;

	for (int leaf = 0; leaf < 2; leaf++) {
		(leaf ? pair_open_leaf : pair_open)(3, 352, 1);
		for (uint8_t rank = 0; rank < 3; rank++) {
			if (rank == 2)
				await_coarse_clock(50000000);
			pair_run(frame, pair_contribution(rank, frame), &out);
		}
		sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
		assert_true(totals.waited_ns[2] >= 50000000);
		assert_true(totals.waited_ns[0] == 0 && totals.waited_ns[1] == 0);
		pair_close();
	}
}

/* Ranks know the tag. The program alone decides what the daemon sends on. */
TEST_WITH(a_rank_cannot_make_results, open_two, close_pair)
{
	static const uint8_t kinds[] = {SML_PACKET_RESULT, SML_PACKET_PROBE_REPLY,
					SML_XDP_KIND_TO_RANK, SML_XDP_KIND_TO_RANK + 1, 0xff};
	struct sml_xdp_totals totals;

	sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
	for (unsigned i = 0; i < 2 * sizeof(kinds); i++) {
		struct sml_header header = frame_header(&pair.pool.rules, 0, 0, 0, 0);

		if (i == sizeof(kinds))
			assert_int_equal(sml_xdp_maps_start_job(pair_maps, PAIR_JOB, DAEMON_KEY),
					 0);
		header.kind = kinds[i % sizeof(kinds)];
		header.key_be = sml_be64(pair.pool.rules.tag);
		pair_run(frame, frame_build(frame, &pair.wrappings[0], &header, sizeof(header)),
			 &out);
		assert_int_equal(out.action, XDP_DROP);
		pair_assert_counted(&totals, SML_VERDICT_MALFORMED);
	}
}

/* Returns the header. The packet is whole, and has the key that no rank knows. */
static struct sml_header assert_for_daemon(uint32_t bytes)
{
	const struct frame_wrapping *wrapping = &pair.wrappings[0];
	struct sml_header header;
	uint8_t sealed[FRAME_BYTES];

	assert_int_equal(out.action, XDP_PASS);
	assert_int_equal(out.bytes, bytes);
	memcpy(&header, out.frame + frame_headers(wrapping), sizeof(header));
	assert_true(header.key_be == sml_be64(DAEMON_KEY));
	memcpy(sealed, out.frame, bytes);
	frame_seal(sealed, wrapping);
	assert_memory_equal(sealed, out.frame, bytes);
	return header;
}

/* For a job whose results the daemon sends; and a leaf's sums for its parent. */
TEST(what_the_daemon_is_to_send_bears_its_key)
{
	for (int leaf = 0; leaf < 2; leaf++) {
		uint32_t bytes;

		(leaf ? pair_open_leaf : pair_open)(1, 352, 1);
		assert_int_equal(sml_xdp_maps_start_job(pair_maps, PAIR_JOB, DAEMON_KEY), 0);
		bytes = pair_contribution(0, frame);
		for (int i = 0; i < 2; i++) { /* completed or full, and again */
			struct sml_header header;

			pair_run(frame, bytes, &out);
			header = assert_for_daemon(bytes);
			if (leaf) {
				assert_int_equal(header.kind,
						 SML_XDP_KIND_TO_RANK + SML_XDP_PARENT);
				assert_int_equal(header.rank, pair.pool.rules.parent.rank);
			} else {
				assert_int_equal(header.kind,
						 i ? SML_XDP_KIND_TO_RANK : SML_PACKET_RESULT);
			}
		}
		pair_close();
	}
}

static bool knows_parent(void)
{
	struct sml_xdp_peer peer;

	assert_int_equal(sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, SML_XDP_PARENT, 0, &peer), 0);
	return peer.ifindex != 0;
}

/* A host that knows the parent's tag, as every rank there does, must not redirect a leaf's sums. */
TEST(only_the_parents_answer_tells_where_it_is)
{
	static const uint8_t fields[] = {0, 2, 4, 8, 16, 37, 39};
	struct sml_xdp_peer before, after;
	struct frame_wrapping host;
	uint32_t bytes;

	pair_add(2, 352, 1, true);
	host = pair.wrappings[SML_XDP_PARENT];
	bytes = pair_reply(&host, 0, frame);
	pair_run(frame, bytes, &out); /* nobody has said where the parent is */
	assert_false(knows_parent());
	xdp_set_parent(pair_maps, PAIR_JOB, &host);
	host.rank = STRANGER;
	pair_run(frame, pair_reply(&host, 0, frame), &out);
	assert_false(knows_parent());
	host.rank = PAIR_PARENT_HOST;
	host.v6 = !host.v6;
	pair_run(frame, pair_reply(&host, 0, frame), &out);
	assert_false(knows_parent());
	host.v6 = !host.v6;
	for (unsigned i = 0; i <= sizeof(fields); i++) {
		pair_reply(&host, 0, frame);
		if (i < sizeof(fields))
			frame[frame_headers(&host) + fields[i]] ^= 0x40;
		else
			frame[bytes - 1] ^= 1; /* the checksum */
		if (i < sizeof(fields))
			frame_seal(frame, &host);
		pair_run(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		assert_false(knows_parent());
	}
	pair_learn_parent();
	assert_int_equal(sml_xdp_maps_start_job(pair_maps, PAIR_JOB, 0), 0);
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, SML_XDP_PARENT, 0, &before);
	bytes = pair_reply(&host, 0, frame);
	frame[6] ^= 4; /* by another way */
	pair_run(frame, bytes, &out);
	sml_xdp_maps_get_peer(pair_maps, PAIR_JOB, SML_XDP_PARENT, 0, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	pair_close();
}

/* The parent's result of the only rank's first contribution, as of any host. */
static uint32_t result_from(const struct frame_wrapping *host, uint64_t tag)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = frame_header(&pair.pool.rules, 0, 0, 0, 64);

	header.kind = SML_PACKET_RESULT;
	header.job_be = sml_be32(PAIR_PARENT_JOB);
	header.key_be = sml_be64(tag);
	memcpy(packet, &header, sizeof(header));
	return frame_build(frame, host, packet, sizeof(packet));
}

TEST(only_the_parents_result_completes_a_leafs_slot)
{
	struct frame_wrapping stranger;
	struct sml_xdp_totals totals;
	struct sml_slot buffers[2];
	uint64_t tag;

	pair_open_leaf(1, 352, 1);
	tag = pair.pool.rules.parent.tag;
	sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
	pair_run(frame, pair_contribution(0, frame), &out);
	pair_assert_counted(&totals, SML_VERDICT_FULL);
	stranger = pair.wrappings[SML_XDP_PARENT];
	stranger.rank = STRANGER;
	pair_run(frame, result_from(&stranger, tag), &out);
	pair_assert_counted(&totals, SML_VERDICT_WRONG_COOKIE);
	assert_int_equal(out.action, XDP_PASS);
	pair_run(frame, result_from(&pair.wrappings[SML_XDP_PARENT], tag + 1), &out);
	pair_assert_counted(&totals, SML_VERDICT_WRONG_COOKIE);
	assert_int_equal(sml_xdp_maps_get_slot(pair_maps, PAIR_JOB, 0, buffers), 0);
	assert_int_equal(buffers[0].state, SML_SLOT_FULL);
	pair_run(frame, result_from(&pair.wrappings[SML_XDP_PARENT], tag), &out);
	pair_assert_counted(&totals, SML_VERDICT_COMPLETED);
	assert_int_equal(out.action, XDP_REDIRECT);
	pair_close();
}

int main(void)
{
	int rc;

	pair_load();
	rc = test_run();
	sml_xdp_maps_close(pair_maps);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loaded XDP program compared with the user-space pool, packet by packet, through
 * BPF_PROG_TEST_RUN. Skipped if BPF is not permitted.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "core/element.h"
#include "support/test.h"
#include "support/xdp_pair.h"
#include "switchml_exit.skel.h"

#define STAMP_RANK offsetof(struct sml_xdp_stamp, rank)

static struct switchml_exit *exits;

/* Mostly a result that a slot waits for, sometimes a late, early, repeated or wrong one. */
static void make_result(void *packet, uint32_t *length)
{
	const struct sml_pool_rules *rules = &pair.pool.rules;
	uint16_t slot = (uint16_t)pair_draw(PAIR_HEAD_SLOTS + PAIR_DATA_SLOTS);
	const struct sml_slot *newest = sml_pool_newest(&pair.pool, slot);
	const struct sml_slot nothing = {0}, *of = newest ? newest : &nothing;
	uint32_t odd = pair_draw(30), use = of->use;
	struct sml_header *header = packet;
	uint16_t lanes = odd == 1 ? (uint16_t)pair_draw(rules->lanes + 2u) : of->lanes;

	if (odd == 2)
		use += pair_draw(5) - 2;
	*header = frame_header(rules, 0, slot, use, lanes);
	header->kind = SML_PACKET_RESULT;
	header->job_be = sml_be32(rules->parent.job);
	header->key_be = sml_be64(rules->parent.tag);
	header->digest_be = sml_be32(odd == 3 ? pair_draw(3) : of->digest);
	header->chunk_be = sml_be32(pair_draw(1u << 30));
	header->rank = pair_draw(2) ? rules->parent.rank : (uint8_t)pair_draw(256);
	header->op = of->op;
	header->lane_kind = odd == 4 ? (uint8_t)pair_draw(4) : of->lane_kind;
	if (odd == 5)
		((uint8_t *)packet)[pair_draw(SML_HEADER_BYTES)] = (uint8_t)pair_draw(256);
	for (uint32_t i = 0; i < lanes; i++)
		((sml_any_u32 *)(header + 1))[i] = (uint32_t)(pair_seed >> 13) + i;
	*length = SML_HEADER_BYTES + 4u * lanes - (odd == 6 ? 4 * pair_draw(lanes + 1u) : 0);
}

/* As many lanes as whole blocks take that are rounded, if there are any in so many. */
static uint16_t whole_blocks(uint8_t lane_kind, uint16_t lanes)
{
	uint32_t width = sml_rounded_width(lane_kind), blocks = sml_rounded_blocks(width, lanes);

	return blocks > 0 ? (uint16_t)sml_rounded_lanes(width, blocks) : lanes;
}

/* Mostly the worker's next packet, sometimes a late, early, repeated or wrong one. */
static void make_packet(void *packet, uint32_t *length)
{
	static const uint16_t widths[] = {0, 1, 7, 8, 9, 16, 64, 351, 352, 832};
	static const uint8_t kinds[] = {
		SML_LANE_INT32, SML_LANE_INT16_PAIR, SML_LANE_INT32, SML_LANE_INT16_ROUNDED,
		SML_LANE_INT32, SML_LANE_INT16_PAIR, SML_LANE_INT32, SML_LANE_INT8_ROUNDED};
	const struct sml_pool_rules *rules = &pair.pool.rules;
	uint8_t rank = (uint8_t)pair_draw(rules->n_ranks);
	uint16_t slot = (uint16_t)pair_draw(PAIR_HEAD_SLOTS + PAIR_DATA_SLOTS);
	uint32_t use = pair.uses[rank][slot], odd = pair_draw(30 + 20u * rules->n_ranks);
	uint16_t lanes =
		widths[(slot + use) % 10] < rules->lanes ? widths[(slot + use) % 10] : rules->lanes;
	uint8_t kind = kinds[(slot + use) % 8];
	struct sml_header *header = packet;
	sml_any_u32 *words = (sml_any_u32 *)(header + 1);

	if (odd == 1 && use > 0)
		use -= 1 + pair_draw(2);
	if (odd == 2)
		use += 1 + pair_draw(3);
	if (sml_lane_is_rounded(kind))
		lanes = whole_blocks(kind, lanes);
	if (odd == 3)
		lanes = (uint16_t)pair_draw(rules->lanes + 1u);
	*header = frame_header(rules, rank, slot, use, lanes);
	header->op = (slot + use) % 4 == 0;
	header->lane_kind = kind;
	header->digest_be = sml_be32(odd == 4 ? pair_draw(3) : 9);
	if (odd == 5)
		((uint8_t *)packet)[pair_draw(SML_HEADER_BYTES)] = (uint8_t)pair_draw(256);
	for (uint32_t i = 0; i < lanes; i++)
		words[i] = pair_draw(8) ? (uint32_t)(pair_seed >> 13) : pair_draw(2) ? 0 : ~0u;
	*length = SML_HEADER_BYTES + 4u * lanes - (odd == 6 ? 4 * pair_draw(lanes + 1u) : 0);
}

/* The clones that left: their receivers, and that each one is whole. Returns their number. */
static unsigned run_exits(const struct xdp_outcome *stamped, uint32_t length, const void *packet,
			  uint64_t *ranks)
{
	struct xdp_outcome out = {.action = XDP_PASS};
	unsigned n = 0;

	for (*ranks = 0; n <= SML_MAX_CHILDREN; n++) {
		uint8_t rank = 0;

		xdp_run(bpf_program__fd(exits->progs.exit_by_loopback), stamped->frame,
			stamped->bytes, &out);
		if (out.action != XDP_PASS)
			break;
		while (rank < pair.pool.rules.n_ranks &&
		       !frame_answers(out.frame, out.bytes, &pair.wrappings[rank], length))
			rank++;
		assert_true(rank < pair.pool.rules.n_ranks);
		assert_memory_equal(out.frame + out.bytes - length, packet, length);
		*ranks |= 1ull << rank;
		if (stamped->frame[STAMP_RANK] != SML_XDP_ALL)
			return 1;
	}
	return n;
}

/* A leaf's sum: one frame, to the parent. */
static void assert_went_up(const struct xdp_outcome *stamped, uint32_t length, const void *packet)
{
	struct xdp_outcome out;

	assert_int_equal(stamped->frame[STAMP_RANK], SML_XDP_PARENT);
	xdp_run(bpf_program__fd(exits->progs.exit_by_loopback), stamped->frame, stamped->bytes,
		&out);
	assert_int_equal(out.action, XDP_PASS);
	assert_true(frame_answers(out.frame, out.bytes, &pair.wrappings[SML_XDP_PARENT], length));
	assert_memory_equal(out.frame + out.bytes - length, packet, length);
}

static void assert_answer(const struct xdp_outcome *out, enum sml_verdict verdict,
			  const struct sml_pool_answer *answer, const struct frame_wrapping *came)
{
	uint64_t all = sml_pool_all_ranks(&pair.pool.rules), ranks;
	bool to_all = verdict == SML_VERDICT_COMPLETED;
	unsigned n;

	assert_int_equal(out->action, XDP_REDIRECT);
	assert_int_equal(out->bytes, frame_headers(came) + answer->length);
	assert_memory_equal(out->frame + frame_headers(came), answer->packet, answer->length);
	if (verdict == SML_VERDICT_FULL || verdict == SML_VERDICT_RESEND_UP) {
		assert_went_up(out, answer->length, answer->packet);
		return;
	}
	n = run_exits(out, answer->length, answer->packet, &ranks);
	assert_int_equal(n, to_all ? pair.pool.rules.n_ranks : 1);
	assert_true(ranks == (to_all ? all : 1ull << answer->in.rank));
}

static void note(enum sml_verdict verdict, const struct sml_pool_answer *answer)
{
	const struct sml_contribution *in = &answer->in;

	if (verdict == SML_VERDICT_RESEND)
		pair.counted.resends[in->rank]++;
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_FULL ||
	    (verdict == SML_VERDICT_COMPLETED && !pair.pool.rules.is_leaf))
		pair.counted.contributions[in->rank]++;
	if (verdict != SML_VERDICT_COMPLETED)
		return;
	for (uint8_t rank = 0; rank < pair.pool.rules.n_ranks; rank++)
		pair.uses[rank][in->slot] = in->use + 1;
}

/* Does the program leave it to the stack? Nobody else makes packets of another kind. */
static bool is_for_the_stack(const struct sml_header *header, enum sml_verdict verdict)
{
	if (header->kind == SML_PACKET_CONTRIBUTION && verdict == SML_VERDICT_MALFORMED)
		return true;
	return verdict >= SML_VERDICT_UNKNOWN_JOB;
}

/* Probes, which are no slot's; and other jobs'. */
static bool is_for_the_job(const struct sml_header *header)
{
	bool is_result = pair.pool.rules.is_leaf && header->kind == SML_PACKET_RESULT;

	return header->kind != SML_PACKET_PROBE && header->kind != SML_PACKET_PROBE_REPLY &&
	       header->job_be == sml_be32(is_result ? PAIR_PARENT_JOB : PAIR_JOB);
}

static void compare_one(struct sml_xdp_totals *totals)
{
	uint32_t packet[FRAME_BYTES / 4], length, bytes;
	struct sml_header *header = (void *)packet;
	uint8_t frame[FRAME_BYTES];
	struct sml_pool_answer answer;
	struct frame_wrapping came;
	enum sml_verdict verdict;
	struct xdp_outcome out;

	if (pair.pool.rules.is_leaf && pair_draw(3) == 0)
		make_result(packet, &length);
	else
		make_packet(packet, &length);
	came = pair.wrappings[header->rank % SML_MAX_CHILDREN];
	came.rank = header->rank;
	if (header->kind == SML_PACKET_RESULT)
		came = pair.wrappings[SML_XDP_PARENT];
	bytes = frame_build(frame, &came, packet, length);
	pair_run(frame, bytes, &out);
	if (!is_for_the_job(header)) {
		sml_xdp_maps_totals(pair_maps, PAIR_JOB, totals);
		assert_true(out.action == XDP_PASS || header->job_be == sml_be32(PAIR_JOB));
		return;
	}
	verdict = sml_pool_receive(&pair.pool, packet, length, &answer);
	pair_assert_counted(totals, verdict);
	if (answer.packet != NULL)
		assert_answer(&out, verdict, &answer, &came);
	else
		assert_int_equal(out.action,
				 is_for_the_stack(header, verdict) ? XDP_PASS : XDP_DROP);
	note(verdict, &answer);
}

static void assert_same_counters(const struct sml_xdp_totals *totals)
{
	const struct sml_job_counters *mine = &pair.counted;

	assert_memory_equal(totals->resends, mine->resends, sizeof(mine->resends));
	assert_memory_equal(totals->contributions, mine->contributions,
			    sizeof(mine->contributions));
}

static void compare_many(bool are_leaves)
{
	static const uint8_t ranks[] = {1, 2, 3, 8, 64};
	static const uint16_t lanes[] = {352, 32, 77, 832, 64};

	for (unsigned turn = 0; turn < 25; turn++) {
		struct sml_xdp_totals totals;
		unsigned i = turn % 5;

		(are_leaves ? pair_open_leaf : pair_open)(ranks[i], lanes[i], (uint8_t)(1 + i % 3));
		sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
		for (unsigned n = 0; n < 5000u + 50u * ranks[i]; n++)
			compare_one(&totals);
		assert_same_counters(&totals);
		assert_true(totals.traffic.fates[SML_VERDICT_COMPLETED] > 3);
		assert_true(!are_leaves || totals.traffic.fates[SML_VERDICT_RESEND_UP] > 3);
		printf("%u ranks: %lu completed, %lu resent, %lu resent up, %lu stale, %lu "
		       "mismatched\n",
		       ranks[i], (unsigned long)totals.traffic.fates[SML_VERDICT_COMPLETED],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_RESEND],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_RESEND_UP],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_STALE_USE],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_MISMATCH]);
		pair_close();
	}
}

TEST(random_packets_have_the_same_verdicts_and_bytes_in_the_kernel)
{
	compare_many(false);
}

TEST(random_packets_at_a_leaf_do_too)
{
	compare_many(true);
}

TEST(a_wrong_bit_anywhere_never_reaches_a_slot)
{
	struct sml_xdp_totals totals;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;

	pair_open(2, 352, 1);
	for (int i = 0; i < 2000; i++) {
		uint32_t bytes = pair_contribution(0, frame), bit = pair_draw(8 * (bytes - 14));

		frame[14 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		pair_run(frame, bytes, &out);
		/*
		 * The stack checks IPv4's own checksum, and a wrong bit there makes no sum wrong.
		 */
		assert_true(out.action == XDP_DROP || out.action == XDP_PASS || bit < 8 * 28);
	}
	sml_xdp_maps_totals(pair_maps, PAIR_JOB, &totals);
	assert_true(totals.traffic.fates[SML_XDP_FATE_BAD_CHECKSUM] > 1000);
	assert_true(totals.traffic.fates[SML_VERDICT_COMPLETED] == 0);
	assert_true(totals.contributions[1] == 0);
	pair_close();
}

/* The exit has the same ranks as the program under test. */
static int share_map(const char *name, struct bpf_map *map)
{
	int fd = xdp_map_of(sml_xdp_maps_exit_fd(pair_maps), name), rc = bpf_map__reuse_fd(map, fd);

	close(fd);
	return rc;
}

static int open_exits(void)
{
	exits = switchml_exit__open();
	if (exits == NULL)
		return -errno;
	bpf_program__set_autoload(exits->progs.sml_entry, false);
	bpf_program__set_autoload(exits->progs.sml_exit, false);
	if (share_map("sml_peers", exits->maps.sml_peers) < 0 ||
	    share_map("sml_ports", exits->maps.sml_ports) < 0)
		return -ENOENT;
	return switchml_exit__load(exits);
}

/* Each CPU has its own counters of clones. */
static void stay_on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

int main(void)
{
	int rc;

	pair_load();
	stay_on_one_cpu();
	rc = open_exits();
	if (rc == 0)
		rc = test_run();
	switchml_exit__destroy(exits);
	sml_xdp_maps_close(pair_maps);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loaded XDP program compared with the user-space pool, packet by packet, through
 * BPF_PROG_TEST_RUN; also its cost. Skipped if BPF is not permitted.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/element.h"
#include "support/test.h"
#include "support/xdp_run.h"
#include "switch/xdp/maps.h"
#include "switchml.skel.h"
#include "switchml_exit.skel.h"

#define JOB	   0x1234507u
#define HEAD_SLOTS 2
#define DATA_SLOTS 3
#define DAEMON_KEY 0x1122334455667788u
/* Of leaves; as switches do not: the parent's number of the job is another one. */
#define PARENT_JOB  0x4321042u
#define PARENT_HOST 200
#define STRANGER    201
#define LOOPBACK    1 /* where BPF_PROG_TEST_RUN's packets come from */

/* Far below the kernel's limit of a million: other compilers' code may cost the verifier more. */
#define MOST_VERIFIED 600000u

struct pair {
	struct sml_xdp_maps *maps;
	struct sml_pool pool;
	void *memory;
	struct frame_wrapping wrappings[SML_MAX_CHILDREN + 1]; /* and SML_XDP_PARENT's */
	struct sml_job_counters counted;		       /* by this test */
	uint32_t uses[SML_MAX_CHILDREN][HEAD_SLOTS + DATA_SLOTS];
};

#define STAMP_RANK offsetof(struct sml_xdp_stamp, rank)

static struct sml_xdp_maps *maps;
static struct switchml_exit *exits;
static uint64_t seed = 88172645463325252u;

static void check_verified(int program, const char *name)
{
	struct bpf_prog_info about = {0};
	uint32_t length = sizeof(about);

	assert_int_equal(bpf_obj_get_info_by_fd(program, &about, &length), 0);
	print_message("%s: the verifier processed %u instructions\n", name, about.verified_insns);
	assert_in_range(about.verified_insns, 1, MOST_VERIFIED);
}

TEST(the_verifier_is_far_from_its_limit)
{
	int entry = sml_xdp_maps_entry_fd(maps), int8_map = xdp_map_of(entry, "sml_int8"), int8;
	uint32_t place = 0, id;

	assert_int_equal(bpf_map_lookup_elem(int8_map, &place, &id), 0);
	int8 = bpf_prog_get_fd_by_id(id);
	assert_true(int8 >= 0);
	check_verified(entry, "sml_entry");
	check_verified(int8, "sml_entry_int8");
	close(int8);
	close(int8_map);
}

/* How an instruction is reached: */
enum reached { UNLOCKED = 1, LOCKED = 2 };

/* Follow instruction i to the next ones. Returns whether that reached anything new. */
static bool follow(const struct bpf_insn *code, uint8_t *reached, size_t i)
{
	uint8_t class = BPF_CLASS(code[i].code), op = BPF_OP(code[i].code), how = reached[i];
	bool jumps = (class == BPF_JMP || class == BPF_JMP32) && op != BPF_CALL && op != BPF_EXIT;
	bool calls = class == BPF_JMP && op == BPF_CALL, falls = true, is_new = false;

	if (calls && code[i].src_reg == BPF_PSEUDO_CALL)
		assert_false(how & LOCKED);
	else if (calls && code[i].imm == BPF_FUNC_spin_lock)
		how = LOCKED;
	else if (calls && code[i].imm == BPF_FUNC_spin_unlock)
		how = UNLOCKED;
	if (class == BPF_JMP && (op == BPF_EXIT || op == BPF_JA))
		falls = false;
	for (int way = 0; way < 2; way++) {
		uint8_t *next = &reached[i + 1] + (way ? code[i].off : 0);

		if (!(way ? jumps : falls))
			continue;
		is_new = is_new || (how & ~*next);
		*next |= how;
	}
	return is_new;
}

static void check_locks(const struct bpf_program *program)
{
	const struct bpf_insn *code = bpf_program__insns(program);
	size_t n = bpf_program__insn_cnt(program), n_locked = 0;
	uint8_t *reached = calloc(n + 1, 1);
	bool goes_on = true;

	reached[0] = UNLOCKED;
	while (goes_on) {
		goes_on = false;
		for (size_t i = 0; i < n; i++)
			goes_on = (reached[i] && follow(code, reached, i)) || goes_on;
	}
	for (size_t i = 0; i < n; i++)
		n_locked += (reached[i] & LOCKED) != 0;
	assert_true(n_locked > 0);
	free(reached);
}

/* Kernels before 6.9 refuse such a program, but not the one that tests it. */
TEST(no_function_is_called_under_a_lock)
{
	struct switchml *opened = switchml__open();

	assert_non_null(opened);
	check_locks(opened->progs.sml_entry);
	check_locks(opened->progs.sml_entry_int8);
	switchml__destroy(opened);
}

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % below;
}

static void run_program(const uint8_t *frame, uint32_t bytes, struct xdp_outcome *out)
{
	xdp_run(sml_xdp_maps_entry_fd(maps), frame, bytes, out);
}

static struct sml_header header_for(const struct sml_pool_rules *rules, uint8_t rank, uint16_t slot,
				    uint32_t use, uint16_t lanes)
{
	return (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(rules->job),
		.key_be = sml_be64(rules->cookies[rank]),
		.epoch_be = sml_be32(rules->epoch),
		.use_be = sml_be32(use),
		.slot_be = sml_be16(slot),
		.rank = rank,
		.shard = (uint8_t)(slot % rules->n_shards),
		.lanes_be = sml_be16(lanes),
	};
}

static uint32_t renewal_from(struct pair *pair, uint8_t rank, uint8_t shard, uint32_t number,
			     uint8_t *frame)
{
	struct sml_header header = header_for(&pair->pool.rules, rank, 0, number, 0);

	header.kind = SML_PACKET_PROBE;
	header.shard = shard;
	return frame_build(frame, &pair->wrappings[rank], &header, sizeof(header));
}

static uint32_t probe_from(struct pair *pair, uint8_t rank, uint8_t shard, uint8_t *frame)
{
	return renewal_from(pair, rank, shard, 0, frame);
}

/* The parent's answer to the leaf's probe, as of any host. */
static uint32_t reply_from(struct pair *pair, const struct frame_wrapping *host, uint8_t shard,
			   uint8_t *frame)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = sml_pool_probe_up(&pair->pool.rules, shard, 32, 0);

	header.kind = SML_PACKET_PROBE_REPLY;
	header.key_be = sml_be64(pair->pool.rules.parent.tag);
	memcpy(packet, &header, sizeof(header));
	return frame_build(frame, host, packet, SML_HEADER_BYTES + 4 * 32);
}

static void learn_parent(struct pair *pair)
{
	struct sml_xdp_peer peer;
	struct xdp_outcome out;
	uint8_t frame[FRAME_BYTES];

	xdp_set_parent(maps, JOB, &pair->wrappings[SML_XDP_PARENT]);
	for (uint8_t shard = 0; shard < pair->pool.rules.n_shards; shard++) {
		uint32_t bytes = reply_from(pair, &pair->wrappings[SML_XDP_PARENT], shard, frame);

		run_program(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		assert_memory_equal(out.frame, frame, bytes);
		assert_int_equal(sml_xdp_maps_get_peer(maps, JOB, SML_XDP_PARENT, shard, &peer), 0);
		assert_int_equal(peer.ifindex, LOOPBACK);
	}
}

/* Every rank's probe, as it arrives at the join. */
static void learn_all(struct pair *pair)
{
	struct sml_xdp_peer peer;
	struct xdp_outcome out;
	uint8_t frame[FRAME_BYTES];

	for (uint8_t rank = 0; rank < pair->pool.rules.n_ranks; rank++)
		for (uint8_t shard = 0; shard < pair->pool.rules.n_shards; shard++) {
			uint32_t bytes = probe_from(pair, rank, shard, frame);

			run_program(frame, bytes, &out);
			assert_int_equal(out.action, XDP_PASS);
			assert_memory_equal(out.frame, frame, bytes);
			assert_int_equal(sml_xdp_maps_get_peer(maps, JOB, rank, shard, &peer), 0);
			assert_int_equal(peer.ifindex, LOOPBACK);
		}
}

/* A job that has not started. */
static void pair_add(struct pair *pair, uint8_t n_ranks, uint16_t lanes, uint8_t n_shards,
		     bool is_leaf)
{
	struct sml_pool_rules rules = {
		.tag = 0x7a67,
		.job = JOB,
		.epoch = 3,
		.head_slots = HEAD_SLOTS,
		.data_slots = DATA_SLOTS,
		.lanes = lanes,
		.n_ranks = n_ranks,
		.n_shards = n_shards,
		.is_leaf = is_leaf,
		.rounds = true,
		.parent = {.cookie = 0xbeef, .tag = 0x9a7e, .job = PARENT_JOB, .rank = 17}};

	memset(pair, 0, sizeof(*pair));
	for (uint8_t rank = 0; rank < n_ranks; rank++) {
		rules.cookies[rank] = 0xc00c1e00u + rank;
		pair->wrappings[rank] =
			(struct frame_wrapping){.rank = rank, .v6 = draw(2), .n_tags = draw(3)};
	}
	pair->wrappings[SML_XDP_PARENT] =
		(struct frame_wrapping){.rank = PARENT_HOST, .v6 = draw(2), .n_tags = draw(3)};
	sml_xdp_maps_remove_job(maps, JOB); /* left over from a failed test */
	pair->memory = malloc(sml_pool_memory_bytes(&rules));
	sml_pool_init(&pair->pool, &rules, pair->memory);
	xdp_add_job(maps, &rules);
	learn_all(pair);
}

static void pair_open(struct pair *pair, uint8_t n_ranks, uint16_t lanes, uint8_t n_shards)
{
	pair_add(pair, n_ranks, lanes, n_shards, false);
	assert_int_equal(sml_xdp_maps_start_job(maps, JOB, 0), 0);
}

static void pair_open_leaf(struct pair *pair, uint8_t n_ranks, uint16_t lanes, uint8_t n_shards)
{
	pair_add(pair, n_ranks, lanes, n_shards, true);
	learn_parent(pair);
	assert_int_equal(sml_xdp_maps_start_job(maps, JOB, 0), 0);
}

static void pair_close(struct pair *pair)
{
	sml_xdp_maps_remove_job(maps, JOB);
	free(pair->memory);
}

/* Mostly a result that a slot waits for, sometimes a late, early, repeated or wrong one. */
static void make_result(struct pair *pair, void *packet, uint32_t *length)
{
	const struct sml_pool_rules *rules = &pair->pool.rules;
	uint16_t slot = (uint16_t)draw(HEAD_SLOTS + DATA_SLOTS);
	const struct sml_slot *newest = sml_pool_newest(&pair->pool, slot);
	const struct sml_slot nothing = {0}, *of = newest ? newest : &nothing;
	uint32_t odd = draw(30), use = of->use;
	struct sml_header *header = packet;
	uint16_t lanes = odd == 1 ? (uint16_t)draw(rules->lanes + 2u) : of->lanes;

	if (odd == 2)
		use += draw(5) - 2;
	*header = header_for(rules, 0, slot, use, lanes);
	header->kind = SML_PACKET_RESULT;
	header->job_be = sml_be32(rules->parent.job);
	header->key_be = sml_be64(rules->parent.tag);
	header->digest_be = sml_be32(odd == 3 ? draw(3) : of->digest);
	header->chunk_be = sml_be32(draw(1u << 30));
	header->rank = draw(2) ? rules->parent.rank : (uint8_t)draw(256);
	header->op = of->op;
	header->lane_kind = odd == 4 ? (uint8_t)draw(4) : of->lane_kind;
	if (odd == 5)
		((uint8_t *)packet)[draw(SML_HEADER_BYTES)] = (uint8_t)draw(256);
	for (uint32_t i = 0; i < lanes; i++)
		((sml_any_u32 *)(header + 1))[i] = (uint32_t)(seed >> 13) + i;
	*length = SML_HEADER_BYTES + 4u * lanes - (odd == 6 ? 4 * draw(lanes + 1u) : 0);
}

/* As many lanes as whole blocks take that are rounded, if there are any in so many. */
static uint16_t whole_blocks(uint8_t lane_kind, uint16_t lanes)
{
	uint32_t width = sml_rounded_width(lane_kind), blocks = sml_rounded_blocks(width, lanes);

	return blocks > 0 ? (uint16_t)sml_rounded_lanes(width, blocks) : lanes;
}

/* Mostly the worker's next packet, sometimes a late, early, repeated or wrong one. */
static void make_packet(struct pair *pair, void *packet, uint32_t *length)
{
	static const uint16_t widths[] = {0, 1, 7, 8, 9, 16, 64, 351, 352, 832};
	static const uint8_t kinds[] = {
		SML_LANE_INT32, SML_LANE_INT16_PAIR, SML_LANE_INT32, SML_LANE_INT16_ROUNDED,
		SML_LANE_INT32, SML_LANE_INT16_PAIR, SML_LANE_INT32, SML_LANE_INT8_ROUNDED};
	const struct sml_pool_rules *rules = &pair->pool.rules;
	uint8_t rank = (uint8_t)draw(rules->n_ranks);
	uint16_t slot = (uint16_t)draw(HEAD_SLOTS + DATA_SLOTS);
	uint32_t use = pair->uses[rank][slot], odd = draw(30 + 20u * rules->n_ranks);
	uint16_t lanes =
		widths[(slot + use) % 10] < rules->lanes ? widths[(slot + use) % 10] : rules->lanes;
	uint8_t kind = kinds[(slot + use) % 8];
	struct sml_header *header = packet;
	sml_any_u32 *words = (sml_any_u32 *)(header + 1);

	if (odd == 1 && use > 0)
		use -= 1 + draw(2);
	if (odd == 2)
		use += 1 + draw(3);
	if (sml_lane_is_rounded(kind))
		lanes = whole_blocks(kind, lanes);
	if (odd == 3)
		lanes = (uint16_t)draw(rules->lanes + 1u);
	*header = header_for(rules, rank, slot, use, lanes);
	header->op = (slot + use) % 4 == 0;
	header->lane_kind = kind;
	header->digest_be = sml_be32(odd == 4 ? draw(3) : 9);
	if (odd == 5)
		((uint8_t *)packet)[draw(SML_HEADER_BYTES)] = (uint8_t)draw(256);
	for (uint32_t i = 0; i < lanes; i++)
		words[i] = draw(8) ? (uint32_t)(seed >> 13) : draw(2) ? 0 : ~0u;
	*length = SML_HEADER_BYTES + 4u * lanes - (odd == 6 ? 4 * draw(lanes + 1u) : 0);
}

/* The kernel must have counted one more of exactly this verdict. */
static void assert_counted(struct sml_xdp_totals *before, uint32_t fate)
{
	struct sml_xdp_totals now;

	sml_xdp_maps_totals(maps, JOB, &now);
	before->traffic.fates[fate]++;
	for (uint32_t i = 0; i < SML_XDP_FATES; i++)
		if (now.traffic.fates[i] != before->traffic.fates[i])
			fail_msg("fate %u: %lu counted, not %lu", i,
				 (unsigned long)now.traffic.fates[i],
				 (unsigned long)before->traffic.fates[i]);
	*before = now;
}

/* The clones that left: their receivers, and that each one is whole. Returns their number. */
static unsigned run_exits(struct pair *pair, const struct xdp_outcome *stamped, uint32_t length,
			  const void *packet, uint64_t *ranks)
{
	struct xdp_outcome out = {.action = XDP_PASS};
	unsigned n = 0;

	for (*ranks = 0; n <= SML_MAX_CHILDREN; n++) {
		uint8_t rank = 0;

		xdp_run(bpf_program__fd(exits->progs.exit_by_loopback), stamped->frame,
			stamped->bytes, &out);
		if (out.action != XDP_PASS)
			break;
		while (rank < pair->pool.rules.n_ranks &&
		       !frame_answers(out.frame, out.bytes, &pair->wrappings[rank], length))
			rank++;
		assert_true(rank < pair->pool.rules.n_ranks);
		assert_memory_equal(out.frame + out.bytes - length, packet, length);
		*ranks |= 1ull << rank;
		if (stamped->frame[STAMP_RANK] != SML_XDP_ALL)
			return 1;
	}
	return n;
}

/* A leaf's sum: one frame, to the parent. */
static void assert_went_up(struct pair *pair, const struct xdp_outcome *stamped, uint32_t length,
			   const void *packet)
{
	struct xdp_outcome out;

	assert_int_equal(stamped->frame[STAMP_RANK], SML_XDP_PARENT);
	xdp_run(bpf_program__fd(exits->progs.exit_by_loopback), stamped->frame, stamped->bytes,
		&out);
	assert_int_equal(out.action, XDP_PASS);
	assert_true(frame_answers(out.frame, out.bytes, &pair->wrappings[SML_XDP_PARENT], length));
	assert_memory_equal(out.frame + out.bytes - length, packet, length);
}

static void assert_answer(struct pair *pair, const struct xdp_outcome *out,
			  enum sml_verdict verdict, const struct sml_pool_answer *answer,
			  const struct frame_wrapping *came)
{
	uint64_t all = sml_pool_all_ranks(&pair->pool.rules), ranks;
	bool to_all = verdict == SML_VERDICT_COMPLETED;
	unsigned n;

	assert_int_equal(out->action, XDP_REDIRECT);
	assert_int_equal(out->bytes, frame_headers(came) + answer->length);
	assert_memory_equal(out->frame + frame_headers(came), answer->packet, answer->length);
	if (verdict == SML_VERDICT_FULL || verdict == SML_VERDICT_RESEND_UP) {
		assert_went_up(pair, out, answer->length, answer->packet);
		return;
	}
	n = run_exits(pair, out, answer->length, answer->packet, &ranks);
	assert_int_equal(n, to_all ? pair->pool.rules.n_ranks : 1);
	assert_true(ranks == (to_all ? all : 1ull << answer->in.rank));
}

static void note(struct pair *pair, enum sml_verdict verdict, const struct sml_pool_answer *answer)
{
	const struct sml_contribution *in = &answer->in;

	if (verdict == SML_VERDICT_RESEND)
		pair->counted.resends[in->rank]++;
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_FULL ||
	    (verdict == SML_VERDICT_COMPLETED && !pair->pool.rules.is_leaf))
		pair->counted.contributions[in->rank]++;
	if (verdict != SML_VERDICT_COMPLETED)
		return;
	for (uint8_t rank = 0; rank < pair->pool.rules.n_ranks; rank++)
		pair->uses[rank][in->slot] = in->use + 1;
}

/* Does the program leave it to the stack? Nobody else makes packets of another kind. */
static bool is_for_the_stack(const struct sml_header *header, enum sml_verdict verdict)
{
	if (header->kind == SML_PACKET_CONTRIBUTION && verdict == SML_VERDICT_MALFORMED)
		return true;
	return verdict >= SML_VERDICT_UNKNOWN_JOB;
}

/* Probes, which are no slot's; and other jobs'. */
static bool is_for_the_job(const struct pair *pair, const struct sml_header *header)
{
	bool is_result = pair->pool.rules.is_leaf && header->kind == SML_PACKET_RESULT;

	return header->kind != SML_PACKET_PROBE && header->kind != SML_PACKET_PROBE_REPLY &&
	       header->job_be == sml_be32(is_result ? PARENT_JOB : JOB);
}

static void compare_one(struct pair *pair, struct sml_xdp_totals *totals)
{
	uint32_t packet[FRAME_BYTES / 4], length, bytes;
	struct sml_header *header = (void *)packet;
	uint8_t frame[FRAME_BYTES];
	struct sml_pool_answer answer;
	struct frame_wrapping came;
	enum sml_verdict verdict;
	struct xdp_outcome out;

	if (pair->pool.rules.is_leaf && draw(3) == 0)
		make_result(pair, packet, &length);
	else
		make_packet(pair, packet, &length);
	came = pair->wrappings[header->rank % SML_MAX_CHILDREN];
	came.rank = header->rank;
	if (header->kind == SML_PACKET_RESULT)
		came = pair->wrappings[SML_XDP_PARENT];
	bytes = frame_build(frame, &came, packet, length);
	run_program(frame, bytes, &out);
	if (!is_for_the_job(pair, header)) {
		sml_xdp_maps_totals(maps, JOB, totals);
		assert_true(out.action == XDP_PASS || header->job_be == sml_be32(JOB));
		return;
	}
	verdict = sml_pool_receive(&pair->pool, packet, length, &answer);
	assert_counted(totals, verdict);
	if (answer.packet != NULL)
		assert_answer(pair, &out, verdict, &answer, &came);
	else
		assert_int_equal(out.action,
				 is_for_the_stack(header, verdict) ? XDP_PASS : XDP_DROP);
	note(pair, verdict, &answer);
}

static void assert_same_counters(const struct pair *pair, const struct sml_xdp_totals *totals)
{
	const struct sml_job_counters *mine = &pair->counted;

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
		struct pair pair;

		(are_leaves ? pair_open_leaf : pair_open)(&pair, ranks[i], lanes[i],
							  (uint8_t)(1 + i % 3));
		sml_xdp_maps_totals(maps, JOB, &totals);
		for (unsigned n = 0; n < 5000u + 50u * ranks[i]; n++)
			compare_one(&pair, &totals);
		assert_same_counters(&pair, &totals);
		assert_true(totals.traffic.fates[SML_VERDICT_COMPLETED] > 3);
		assert_true(!are_leaves || totals.traffic.fates[SML_VERDICT_RESEND_UP] > 3);
		printf("%u ranks: %lu completed, %lu resent, %lu resent up, %lu stale, %lu "
		       "mismatched\n",
		       ranks[i], (unsigned long)totals.traffic.fates[SML_VERDICT_COMPLETED],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_RESEND],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_RESEND_UP],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_STALE_USE],
		       (unsigned long)totals.traffic.fates[SML_VERDICT_MISMATCH]);
		pair_close(&pair);
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

static uint32_t contribution_from(struct pair *pair, uint8_t rank, uint8_t *frame)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = header_for(&pair->pool.rules, rank, 0, 0, 64);

	memcpy(packet, &header, sizeof(header));
	packet[30] = 0x12345678;
	return frame_build(frame, &pair->wrappings[rank], packet, sizeof(packet));
}

TEST(a_wrong_bit_anywhere_never_reaches_a_slot)
{
	struct sml_xdp_totals totals;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	struct pair pair;

	pair_open(&pair, 2, 352, 1);
	for (int i = 0; i < 2000; i++) {
		uint32_t bytes = contribution_from(&pair, 0, frame), bit = draw(8 * (bytes - 14));

		frame[14 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		run_program(frame, bytes, &out);
		/*
		 * The stack checks IPv4's own checksum, and a wrong bit there makes no sum wrong.
		 */
		assert_true(out.action == XDP_DROP || out.action == XDP_PASS || bit < 8 * 28);
	}
	sml_xdp_maps_totals(maps, JOB, &totals);
	assert_true(totals.traffic.fates[SML_XDP_FATE_BAD_CHECKSUM] > 1000);
	assert_true(totals.traffic.fates[SML_VERDICT_COMPLETED] == 0);
	assert_true(totals.contributions[1] == 0);
	pair_close(&pair);
}

static void assert_passed(const uint8_t *frame, uint32_t bytes)
{
	struct xdp_outcome out;

	run_program(frame, bytes, &out);
	assert_int_equal(out.action, XDP_PASS);
	assert_int_equal(out.bytes, bytes);
	assert_memory_equal(out.frame, frame, bytes);
}

TEST(what_is_not_ours_passes_untouched)
{
	uint8_t frame[FRAME_BYTES];
	uint32_t bytes;
	struct pair pair;

	pair_open(&pair, 2, 352, 1);
	pair.wrappings[0] = (struct frame_wrapping){.rank = 0};
	bytes = contribution_from(&pair, 0, frame);
	frame[20] = 0x20; /* more fragments follow */
	assert_passed(frame, bytes);
	frame[20] = 0;
	frame[14] = 0x46; /* options */
	assert_passed(frame, bytes);
	frame[14] = 0x45;
	frame[23] = 6; /* TCP */
	assert_passed(frame, bytes);
	frame[23] = 17;
	frame[37]++; /* port */
	assert_passed(frame, bytes);
	frame[37]--;
	frame[39]++; /* length */
	assert_passed(frame, bytes);
	frame[39]--;
	frame[12] = 0x08;
	frame[13] = 0x06; /* ARP */
	assert_passed(frame, bytes);
	for (uint32_t length = 14; length < bytes; length++) {
		contribution_from(&pair, 0, frame);
		assert_passed(frame, length);
	}
	pair_close(&pair);
}

TEST(an_ipv4_sender_may_leave_out_the_checksum_and_pad_the_frame)
{
	struct sml_xdp_totals totals;
	uint8_t frame[FRAME_BYTES] = {0};
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_open(&pair, 1, 352, 1);
	pair.wrappings[0] = (struct frame_wrapping){.rank = 0};
	bytes = contribution_from(&pair, 0, frame);
	frame[40] = frame[41] = 0;
	run_program(frame, bytes + 6, &out);
	assert_int_equal(out.action, XDP_REDIRECT);
	sml_xdp_maps_totals(maps, JOB, &totals);
	assert_int_equal(totals.traffic.fates[SML_VERDICT_COMPLETED], 1);
	pair_close(&pair);
}

TEST(an_address_is_learned_with_the_cookie_only_and_stays)
{
	struct sml_xdp_peer before, after;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_open(&pair, 2, 352, 1);
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &before);
	pair.wrappings[1].rank = 9; /* another address */
	bytes = probe_from(&pair, 1, 0, frame);
	run_program(frame, bytes, &out); /* the job runs already */
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	pair_close(&pair);
}

TEST(a_renewed_address_is_learned_once)
{
	struct sml_xdp_peer before, renewed, after;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_open(&pair, 2, 352, 1);
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &before);
	assert_int_equal(sml_xdp_maps_renew_peer(maps, JOB, 1, 0, 77), 0);
	pair.wrappings[1].rank = 9; /* another address */
	bytes = renewal_from(&pair, 1, 0, 78, frame);
	run_program(frame, bytes, &out);
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &renewed);
	assert_memory_equal(&before, &renewed, sizeof(before));
	bytes = renewal_from(&pair, 1, 0, 77, frame);
	run_program(frame, bytes, &out);
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &renewed);
	assert_memory_not_equal(&before, &renewed, sizeof(before));
	/* A copy of the same probe from elsewhere. */
	pair.wrappings[1].rank = 10;
	bytes = renewal_from(&pair, 1, 0, 77, frame);
	run_program(frame, bytes, &out);
	sml_xdp_maps_get_peer(maps, JOB, 1, 0, &after);
	assert_memory_equal(&renewed, &after, sizeof(after));
	pair_close(&pair);
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
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	struct pair pair;

	for (int leaf = 0; leaf < 2; leaf++) {
		(leaf ? pair_open_leaf : pair_open)(&pair, 3, 352, 1);
		for (uint8_t rank = 0; rank < 3; rank++) {
			if (rank == 2)
				await_coarse_clock(50000000);
			run_program(frame, contribution_from(&pair, rank, frame), &out);
		}
		sml_xdp_maps_totals(maps, JOB, &totals);
		assert_true(totals.waited_ns[2] >= 50000000);
		assert_true(totals.waited_ns[0] == 0 && totals.waited_ns[1] == 0);
		pair_close(&pair);
	}
}

/* Ranks know the tag. The program alone decides what the daemon sends on. */
TEST(a_rank_cannot_make_results)
{
	static const uint8_t kinds[] = {SML_PACKET_RESULT,	  SML_PACKET_PROBE_REPLY,
					SML_PACKET_GROUP_PROBE,	  SML_XDP_KIND_TO_RANK,
					SML_XDP_KIND_TO_RANK + 1, 0xff};
	struct sml_xdp_totals totals;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	struct pair pair;

	pair_open(&pair, 2, 352, 1);
	sml_xdp_maps_totals(maps, JOB, &totals);
	for (unsigned i = 0; i < 2 * sizeof(kinds); i++) {
		struct sml_header header = header_for(&pair.pool.rules, 0, 0, 0, 0);

		if (i == sizeof(kinds))
			assert_int_equal(sml_xdp_maps_start_job(maps, JOB, DAEMON_KEY), 0);
		header.kind = kinds[i % sizeof(kinds)];
		header.key_be = sml_be64(pair.pool.rules.tag);
		run_program(frame, frame_build(frame, &pair.wrappings[0], &header, sizeof(header)),
			    &out);
		assert_int_equal(out.action, XDP_DROP);
		assert_counted(&totals, SML_VERDICT_MALFORMED);
	}
	pair_close(&pair);
}

/* For a job whose results the daemon sends: whole packets, with a key that no rank knows. */
TEST(results_for_the_daemon_bear_its_key)
{
	uint8_t frame[FRAME_BYTES], sealed[FRAME_BYTES];
	struct sml_header header;
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_open(&pair, 1, 352, 1);
	assert_int_equal(sml_xdp_maps_start_job(maps, JOB, DAEMON_KEY), 0);
	bytes = contribution_from(&pair, 0, frame);
	for (int i = 0; i < 2; i++) { /* completed, and resent */
		run_program(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		assert_int_equal(out.bytes, bytes);
		memcpy(&header, out.frame + frame_headers(&pair.wrappings[0]), sizeof(header));
		assert_int_equal(header.kind, i == 0 ? SML_PACKET_RESULT : SML_XDP_KIND_TO_RANK);
		assert_true(header.key_be == sml_be64(DAEMON_KEY));
		memcpy(sealed, out.frame, bytes);
		frame_seal(sealed, &pair.wrappings[0]);
		assert_memory_equal(sealed, out.frame, bytes);
	}
	pair_close(&pair);
}

/* The same from a leaf: the sum for the parent. */
TEST(a_leafs_sums_for_the_daemon_bear_its_key)
{
	uint8_t frame[FRAME_BYTES], sealed[FRAME_BYTES];
	struct sml_header header;
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_open_leaf(&pair, 1, 352, 1);
	assert_int_equal(sml_xdp_maps_start_job(maps, JOB, DAEMON_KEY), 0);
	bytes = contribution_from(&pair, 0, frame);
	for (int i = 0; i < 2; i++) { /* full, and sent up again */
		run_program(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		memcpy(&header, out.frame + frame_headers(&pair.wrappings[0]), sizeof(header));
		assert_int_equal(header.kind, SML_XDP_KIND_TO_RANK + SML_XDP_PARENT);
		assert_true(header.key_be == sml_be64(DAEMON_KEY));
		assert_int_equal(header.rank, pair.pool.rules.parent.rank);
		memcpy(sealed, out.frame, bytes);
		frame_seal(sealed, &pair.wrappings[0]);
		assert_memory_equal(sealed, out.frame, bytes);
	}
	pair_close(&pair);
}

static bool knows_parent(void)
{
	struct sml_xdp_peer peer;

	assert_int_equal(sml_xdp_maps_get_peer(maps, JOB, SML_XDP_PARENT, 0, &peer), 0);
	return peer.ifindex != 0;
}

/* A host that knows the parent's tag, as every rank there does, must not redirect a leaf's sums. */
TEST(only_the_parents_answer_tells_where_it_is)
{
	static const uint8_t fields[] = {0, 2, 4, 8, 16, 37, 39};
	struct sml_xdp_peer before, after;
	uint8_t frame[FRAME_BYTES];
	struct frame_wrapping host;
	struct xdp_outcome out;
	struct pair pair;
	uint32_t bytes;

	pair_add(&pair, 2, 352, 1, true);
	host = pair.wrappings[SML_XDP_PARENT];
	bytes = reply_from(&pair, &host, 0, frame);
	run_program(frame, bytes, &out); /* nobody has said where the parent is */
	assert_false(knows_parent());
	xdp_set_parent(maps, JOB, &host);
	host.rank = STRANGER;
	run_program(frame, reply_from(&pair, &host, 0, frame), &out);
	assert_false(knows_parent());
	host.rank = PARENT_HOST;
	host.v6 = !host.v6;
	run_program(frame, reply_from(&pair, &host, 0, frame), &out);
	assert_false(knows_parent());
	host.v6 = !host.v6;
	for (unsigned i = 0; i <= sizeof(fields); i++) {
		reply_from(&pair, &host, 0, frame);
		if (i < sizeof(fields))
			frame[frame_headers(&host) + fields[i]] ^= 0x40;
		else
			frame[bytes - 1] ^= 1; /* the checksum */
		if (i < sizeof(fields))
			frame_seal(frame, &host);
		run_program(frame, bytes, &out);
		assert_int_equal(out.action, XDP_PASS);
		assert_false(knows_parent());
	}
	learn_parent(&pair);
	assert_int_equal(sml_xdp_maps_start_job(maps, JOB, 0), 0);
	sml_xdp_maps_get_peer(maps, JOB, SML_XDP_PARENT, 0, &before);
	bytes = reply_from(&pair, &host, 0, frame);
	frame[6] ^= 4; /* by another way */
	run_program(frame, bytes, &out);
	sml_xdp_maps_get_peer(maps, JOB, SML_XDP_PARENT, 0, &after);
	assert_memory_equal(&before, &after, sizeof(before));
	pair_close(&pair);
}

/* The parent's result of the only rank's first contribution, as of any host. */
static uint32_t result_from(struct pair *pair, const struct frame_wrapping *host, uint64_t tag,
			    uint8_t *frame)
{
	uint32_t packet[10 + 64] = {0};
	struct sml_header header = header_for(&pair->pool.rules, 0, 0, 0, 64);

	header.kind = SML_PACKET_RESULT;
	header.job_be = sml_be32(PARENT_JOB);
	header.key_be = sml_be64(tag);
	memcpy(packet, &header, sizeof(header));
	return frame_build(frame, host, packet, sizeof(packet));
}

TEST(only_the_parents_result_completes_a_leafs_slot)
{
	struct frame_wrapping stranger;
	struct sml_xdp_totals totals;
	uint8_t frame[FRAME_BYTES];
	struct sml_slot buffers[2];
	struct xdp_outcome out;
	struct pair pair;
	uint64_t tag;

	pair_open_leaf(&pair, 1, 352, 1);
	tag = pair.pool.rules.parent.tag;
	sml_xdp_maps_totals(maps, JOB, &totals);
	run_program(frame, contribution_from(&pair, 0, frame), &out);
	assert_counted(&totals, SML_VERDICT_FULL);
	stranger = pair.wrappings[SML_XDP_PARENT];
	stranger.rank = STRANGER;
	run_program(frame, result_from(&pair, &stranger, tag, frame), &out);
	assert_counted(&totals, SML_VERDICT_WRONG_COOKIE);
	assert_int_equal(out.action, XDP_PASS);
	run_program(frame, result_from(&pair, &pair.wrappings[SML_XDP_PARENT], tag + 1, frame),
		    &out);
	assert_counted(&totals, SML_VERDICT_WRONG_COOKIE);
	assert_int_equal(sml_xdp_maps_get_slot(maps, JOB, 0, buffers), 0);
	assert_int_equal(buffers[0].state, SML_SLOT_FULL);
	run_program(frame, result_from(&pair, &pair.wrappings[SML_XDP_PARENT], tag, frame), &out);
	assert_counted(&totals, SML_VERDICT_COMPLETED);
	assert_int_equal(out.action, XDP_REDIRECT);
	pair_close(&pair);
}

/* The exit has the same ranks as the program under test. */
static int share_map(const char *name, struct bpf_map *map)
{
	int fd = xdp_map_of(sml_xdp_maps_exit_fd(maps), name), rc = bpf_map__reuse_fd(map, fd);

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
	const struct sml_xdp_config config = {.port = FRAME_PORT, .max_jobs = 2, .max_slots = 64};
	int rc;

	maps = xdp_open_maps(&config);
	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	stay_on_one_cpu();
	rc = open_exits();
	if (rc == 0)
		rc = test_run(NULL, NULL);
	switchml_exit__destroy(exits);
	sml_xdp_maps_close(maps);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slot rule in simple_switch, through the P4 dataplane: the shared vectors as packets, and
 * random packets compared with the user-space slots, verdict by verdict and byte by byte. A build
 * of the staged form that can lose packets between passes gets a test of such losses instead.
 * tests/integration/p4-slot.sh builds the namespace:
 *
 *	this test's raw socket -- workers --|port 1            port 0|-- daemon -- the dataplane's
 *	(all ranks)                         |    simple_switch       |             socket
 *
 * Vectors begin with old slots, which the test writes into registers, as it writes which packets
 * are lost.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/element.h"
#include "support/vectors.h"
#include "support/xdp_frames.h"
#include "switch/p4/dataplane.h"
#include "switch/p4/internal.h"

#define PATIENCE_NS   (60000 * SML_NS_PER_MS)
#define RANDOM_STEPS  3000
#define RANDOM_RANKS  3
#define RANDOM_SLOTS  4
#define RANDOM_WORLDS 3

static const struct sml_dataplane_operations *const operations = &sml_dataplane_p4;
static struct sml_dataplane *dataplane;
static struct frame_wrapping wrapping; /* of rank 0 */
static int raw_fd;
static bool has_job, told_mismatch;
static bool is_staged; /* the form for hardware's stages, which has only int32 lanes */
static uint32_t n_mismatches;
static struct sml_mismatch last_mismatch;
static uint64_t seed;

/* ---- frames ---- */

static struct frame_wrapping wrapping_of(uint8_t rank)
{
	struct frame_wrapping own = wrapping;

	own.rank = rank;
	return own;
}

static void send_frame(const uint8_t *frame, uint32_t bytes)
{
	assert_int_equal(send(raw_fd, frame, bytes, 0), bytes);
}

/* The kernel takes a tag out of a frame, and has it beside the frame. */
static uint32_t restore_tag(uint8_t *frame, uint32_t bytes, struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		struct tpacket_auxdata data;
		uint8_t tag[4] = {0x81, 0};

		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&data, CMSG_DATA(c), sizeof(data));
		if (!(data.tp_status & TP_STATUS_VLAN_VALID))
			continue;
		tag[2] = (uint8_t)(data.tp_vlan_tci >> 8);
		tag[3] = (uint8_t)data.tp_vlan_tci;
		memmove(frame + 16, frame + 12, bytes - 12);
		memcpy(frame + 12, tag, 4);
		return bytes + 4;
	}
	return bytes;
}

/* The next frame with our header, other than the test's own. */
static uint32_t receive_frame(uint8_t frame[FRAME_BYTES], struct sml_header *header)
{
	uint32_t headers = frame_headers(&wrapping);
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	memset(frame, 0, FRAME_BYTES);
	*header = (struct sml_header){.magic_be = 0};
	while (sml_now_ns() < end_ns) {
		struct pollfd fd = {.fd = raw_fd, .events = POLLIN};
		struct sockaddr_ll from;
		char control[256];
		struct iovec iov = {frame, FRAME_BYTES - 4};
		struct msghdr message = {.msg_name = &from,
					 .msg_namelen = sizeof(from),
					 .msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t n;

		if (poll(&fd, 1, 100) <= 0)
			continue;
		n = recvmsg(raw_fd, &message, 0);
		if (n < 14 || from.sll_pkttype == PACKET_OUTGOING)
			continue;
		n = restore_tag(frame, (uint32_t)n, &message);
		if ((size_t)n < headers + sizeof(*header))
			continue;
		memcpy(header, frame + headers, sizeof(*header));
		if (header->magic_be == sml_be16(SML_WIRE_MAGIC))
			return (uint32_t)n;
	}
	fail_msg("no frame has come");
	return 0;
}

/* ---- verdicts ---- */

struct fates {
	uint64_t n[SML_VERDICTS + 1]; /* the last: wrong checksums */
};

static struct fates read_fates(void)
{
	struct sml_dataplane_counters counters;
	struct fates fates;

	operations->counters(dataplane, &counters);
	memcpy(fates.n, counters.verdicts, sizeof(counters.verdicts));
	fates.n[SML_VERDICTS] = counters.bad_checksums;
	return fates;
}

/* The one fate that has been counted since `before`. */
static unsigned await_fate(const struct fates *before)
{
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	while (sml_now_ns() < end_ns) {
		struct fates now = read_fates();

		for (unsigned i = 0; i <= SML_VERDICTS; i++)
			if (now.n[i] != before->n[i]) {
				assert_int_equal(now.n[i] - before->n[i], 1);
				return i;
			}
	}
	fail_msg("the packet was not counted");
	return 0;
}

static const char *fate_name(unsigned fate)
{
	return fate < SML_VERDICTS ? sml_verdict_name((enum sml_verdict)fate) : "bad-checksum";
}

static void note_mismatch(void *context, const struct sml_mismatch *mismatch)
{
	(void)context;
	last_mismatch = *mismatch;
	__atomic_fetch_add(&n_mismatches, 1, __ATOMIC_RELEASE);
}

/* ---- worlds ---- */

static void probe(const struct sml_pool_rules *rules, uint8_t rank, uint8_t shard)
{
	const struct frame_wrapping own = wrapping_of(rank);
	uint8_t frame[FRAME_BYTES], packet[SML_HEADER_BYTES + 4 * VECTOR_LANES] = {0};
	struct sml_header *header = (struct sml_header *)packet, reply;
	uint32_t bytes;

	*header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = SML_PACKET_PROBE,
		.job_be = sml_be32(rules->job),
		.key_be = sml_be64(rules->cookies[rank]),
		.epoch_be = sml_be32(rules->epoch),
		.rank = rank,
		.shard = shard,
		.lanes_be = sml_be16(VECTOR_LANES),
	};
	send_frame(frame, frame_build(frame, &own, packet, sizeof(packet)));
	bytes = receive_frame(frame, &reply);
	assert_int_equal(reply.kind, SML_PACKET_PROBE_REPLY);
	/* The daemon's tag has no priority. */
	if (own.n_tags > 0)
		frame[14] |= 0x20;
	assert_true(reply.key_be == sml_be64(rules->tag));
	assert_true(frame_answers(frame, bytes, &own, sizeof(packet)));
	/* What the program has written for the daemon is gone. */
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = reply.key_be;
	assert_memory_equal(frame + frame_headers(&own), packet, sizeof(packet));
}

static void begin_world(const struct sml_pool_rules *rules)
{
	if (has_job)
		operations->remove_job(dataplane, VECTOR_JOB);
	assert_int_equal(operations->add_job(dataplane, rules), 0);
	has_job = true;
	told_mismatch = false;
	for (uint8_t rank = 0; rank < rules->n_ranks; rank++) {
		assert_non_null(operations->misses_address(dataplane, VECTOR_JOB, rank));
		for (uint8_t shard = 0; shard < rules->n_shards; shard++)
			probe(rules, rank, shard);
		assert_null(operations->misses_address(dataplane, VECTOR_JOB, rank));
	}
	assert_int_equal(operations->start_job(dataplane, VECTOR_JOB), 0);
}

/* A result as the rank gets it: the same bytes as of the user-space slots. */
static uint8_t check_result(const struct sml_pool_answer *answer)
{
	uint32_t headers = frame_headers(&wrapping);
	struct frame_wrapping own;
	uint8_t frame[FRAME_BYTES];
	struct sml_header header;
	uint32_t bytes = receive_frame(frame, &header);

	own = wrapping_of(frame[5]);
	assert_int_equal(bytes, headers + answer->length);
	assert_memory_equal(frame + headers, answer->packet, answer->length);
	assert_true(frame_answers(frame, bytes, &own, answer->length));
	return own.rank;
}

static void check_results(const struct sml_pool_rules *rules, unsigned fate,
			  const struct sml_pool_answer *answer)
{
	uint64_t ranks = 0;

	if (fate == SML_VERDICT_RESEND)
		assert_int_equal(check_result(answer), answer->in.rank);
	if (fate != SML_VERDICT_COMPLETED || rules->n_ranks == 0)
		return;
	for (unsigned i = 0; i < rules->n_ranks; i++)
		ranks |= 1ull << check_result(answer);
	assert_true(ranks == sml_pool_all_ranks(rules));
}

static void check_mismatch(const struct sml_pool *pool, const struct sml_contribution *in,
			   uint32_t before)
{
	const struct sml_slot *slot = &pool->slots[2 * in->slot + (in->use & 1)];
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	while (__atomic_load_n(&n_mismatches, __ATOMIC_ACQUIRE) == before && sml_now_ns() < end_ns)
		;
	assert_int_equal(n_mismatches, before + 1);
	assert_int_equal(last_mismatch.slot, in->slot);
	assert_int_equal(last_mismatch.use, in->use);
	assert_int_equal(last_mismatch.chunk, slot->chunk);
	assert_int_equal(last_mismatch.ranks[1], in->rank);
	assert_true(slot->seen >> last_mismatch.ranks[0] & 1);
}

/*
 * What the P4 switch should do with a packet: what the user-space slots do, but a packet of another
 * length than the program's is out of range.
 */
static unsigned expect(struct sml_pool *pool, const uint8_t *packet, uint32_t length,
		       struct sml_pool_answer *answer)
{
	const struct sml_header *header = (const struct sml_header *)packet;
	enum sml_verdict verdict = sml_pool_check(&pool->rules, header, length, &answer->in);

	/* Dataplanes look for the job first. */
	if (length >= SML_HEADER_BYTES && header->magic_be == sml_be16(SML_WIRE_MAGIC) &&
	    header->version == SML_WIRE_VERSION && header->job_be != sml_be32(pool->rules.job))
		return SML_VERDICT_UNKNOWN_JOB;
	if (verdict != SML_VERDICT_ABSORBED)
		return verdict;
	if (answer->in.lanes != pool->rules.lanes ||
	    (is_staged && answer->in.lane_kind != SML_LANE_INT32))
		return SML_VERDICT_OUT_OF_RANGE;
	return sml_pool_receive(pool, packet, length, answer);
}

/* Both do the same with a packet. */
static unsigned compare(struct sml_pool *pool, const uint8_t *packet, uint32_t length,
			const char *where, unsigned number)
{
	const struct sml_header *header = (const struct sml_header *)packet;
	const struct frame_wrapping own = wrapping_of(header->rank);
	uint32_t mismatches = __atomic_load_n(&n_mismatches, __ATOMIC_ACQUIRE);
	struct fates before = read_fates();
	struct sml_pool_answer answer = {.packet = NULL};
	unsigned expected = expect(pool, packet, length, &answer), fate;
	uint8_t frame[FRAME_BYTES];

	send_frame(frame, frame_build(frame, &own, packet, length));
	fate = await_fate(&before);
	if (fate != expected)
		fail_msg("%s %u: %s, not %s", where, number, fate_name(fate), fate_name(expected));
	check_results(&pool->rules, fate, &answer);
	/* The first one of a job is told. */
	if (fate == SML_VERDICT_MISMATCH && !told_mismatch) {
		check_mismatch(pool, &answer.in, mismatches);
		told_mismatch = true;
	}
	return fate;
}

/* ---- vectors ---- */

/* Through the dataplane's own connection, because a target has one daemon. */
static void write_whole(const char *name, uint32_t index, uint64_t value)
{
	pthread_mutex_lock(&dataplane->target_mutex);
	assert_int_equal(
		dataplane->operations->write_register(dataplane->target, name, index, value), 0);
	pthread_mutex_unlock(&dataplane->target_mutex);
}

static uint64_t read_whole(const char *name, uint32_t index)
{
	uint64_t value;

	pthread_mutex_lock(&dataplane->target_mutex);
	assert_int_equal(
		dataplane->operations->read_registers(dataplane->target, name, 0, index, &value, 1),
		0);
	pthread_mutex_unlock(&dataplane->target_mutex);
	return value;
}

static void write_register(const char *name, uint32_t index, uint64_t value)
{
	char whole[64];

	snprintf(whole, sizeof(whole), "SmlIngress.slot_step.slot_%s", name);
	write_whole(whole, index, value);
}

/* p4/include/staged.p4: a use that is complete is the number after it. */
static void age_staged(uint32_t buffer, uint32_t incarnation, const struct sml_slot *slot)
{
	uint32_t held = slot->use + (slot->state == SML_SLOT_COMPLETE);

	write_register("incarnation", buffer, incarnation);
	write_register("use_lo", buffer, held);
	write_register("use_hi", buffer, incarnation);
	write_register("begins_lo", buffer, held);
	write_register("begins_hi", buffer, incarnation);
	write_register("seen_0", buffer, (uint32_t)slot->seen);
	write_register("seen_1", buffer, slot->seen >> 32);
}

static void age_buffer(uint32_t i, const struct sml_slot *slot)
{
	const struct sml_p4_job *job = sml_p4_job_of(dataplane, VECTOR_JOB);

	if (is_staged) {
		age_staged(job->first_buffer + i, job->incarnation, slot);
		return;
	}
	write_register("incarnation", job->first_buffer + i, job->incarnation);
	write_register("use", job->first_buffer + i, slot->use);
	write_register("seen", job->first_buffer + i, slot->seen);
}

/* A packet that is as long as it says gets zeros up to a full packet's lanes. */
static uint32_t fill_up(struct vector *vector)
{
	struct sml_header *header = (struct sml_header *)vector->packet;

	if (vector->verdict == SML_VERDICT_MALFORMED || vector->verdict == SML_VERDICT_OUT_OF_RANGE)
		return vector->length;
	header->lanes_be = sml_be16(VECTOR_LANES);
	return sizeof(vector->packet);
}

static void check_vector(struct sml_pool *pool, struct vector *vector, uint32_t previous_length,
			 bool leaves_out)
{
	uint32_t length = vector->length;
	unsigned expected = vector->verdict, fate;

	/* Of two ranks' different lengths, one is out of range here. */
	if (expected == SML_VERDICT_MISMATCH && length != previous_length)
		expected = SML_VERDICT_OUT_OF_RANGE;
	else
		length = fill_up(vector);
	fate = compare(pool, vector->packet, length, "line", vector->line);
	/* Without a packet before it, only the user-space slots know the verdict. */
	if (fate != expected && !leaves_out)
		fail_msg("line %u: %s, not %s", vector->line, fate_name(fate), fate_name(expected));
}

static bool has_halves(const struct vector *vector)
{
	const struct sml_header *header = (const struct sml_header *)vector->packet;

	return vector->length >= sizeof(*header) && header->lane_kind == SML_LANE_INT16_PAIR;
}

struct run {
	struct sml_pool pool;
	void *memory; /* the pool's */
	uint32_t previous_length;
	bool leaves_out; /* a packet of this world was left out */
	unsigned n, n_of_leaves, n_of_halves;
};

static void begin_vectors(void *self, struct vector *vector)
{
	struct run *run = self;

	vector->rules.lanes = VECTOR_LANES;
	run->leaves_out = false;
	free(run->memory);
	run->memory = vector_pool_open(&run->pool, &vector->rules);
	if (!vector->rules.is_leaf)
		begin_world(&vector->rules);
}

static void age(void *self, const struct vector *vector)
{
	struct run *run = self;
	uint32_t n = 2u * (run->pool.rules.head_slots + run->pool.rules.data_slots);

	if (run->pool.rules.is_leaf) {
		run->n_of_leaves++;
		return;
	}
	vector_pool_age(&run->pool, vector->age);
	for (uint32_t i = 0; i < n; i++)
		age_buffer(i, &run->pool.slots[i]);
}

static void compare_vector(void *self, struct vector *vector)
{
	struct run *run = self;

	if (run->pool.rules.is_leaf) {
		run->n_of_leaves++;
		return;
	}
	if (is_staged && has_halves(vector)) {
		run->n_of_halves++;
		run->leaves_out = true;
		return;
	}
	check_vector(&run->pool, vector, run->previous_length, run->leaves_out);
	run->previous_length = vector->length;
	run->n++;
}

static void every_vector_gets_its_verdict_and_result_in_simple_switch(void **state)
{
	const struct vector_steps steps = {begin_vectors, age, compare_vector};
	struct run run = {.memory = NULL};

	(void)state;
	vectors_run(&steps, &run);
	free(run.memory);
	print_message("%u vectors; left out: %u of leaves, which the P4 program cannot be", run.n,
		      run.n_of_leaves);
	if (is_staged)
		print_message(", and %u of int16, which its staged form does not have",
			      run.n_of_halves);
	print_message("\n");
	assert_true(run.n > 50);
}

/* ---- random packets ---- */

static uint32_t random_below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

static bool one_in(uint32_t n)
{
	return random_below(n) == 0;
}

/* Most contributions fit; some are late, early, or wrong in one field. */
static uint32_t random_packet(const struct sml_pool *pool, uint8_t *packet)
{
	const struct sml_pool_rules *rules = &pool->rules;
	uint16_t slot = (uint16_t)random_below(RANDOM_SLOTS);
	const struct sml_slot *newest = sml_pool_newest(pool, slot);
	uint32_t use = newest == NULL ? 0 : newest->use + (newest->state == SML_SLOT_COMPLETE);
	uint8_t rank = (uint8_t)random_below(rules->n_ranks);
	uint32_t lanes = one_in(40) ? random_below(VECTOR_LANES + 1) : VECTOR_LANES;
	uint8_t kind = !is_staged && (use >> 1 & 3) == 2; /* of a use, so that ranks agree */
	struct sml_header *header = (struct sml_header *)packet;
	sml_any_u32 *values = (sml_any_u32 *)(header + 1);

	use += one_in(8) ? random_below(6) - 3 : 0;
	*header = (struct sml_header){
		.magic_be = sml_be16(SML_WIRE_MAGIC),
		.version = SML_WIRE_VERSION,
		.kind = one_in(50) ? SML_PACKET_RESULT : SML_PACKET_CONTRIBUTION,
		.job_be = sml_be32(rules->job + (one_in(50) ? 1 : 0)),
		.key_be = sml_be64(rules->cookies[rank] + (one_in(50) ? 1 : 0)),
		.epoch_be = sml_be32(rules->epoch + (one_in(50) ? 1 : 0)),
		.use_be = sml_be32(use),
		.chunk_be = sml_be32(random_below(1000)),
		.digest_be = sml_be32(use + (one_in(40) ? 1 : 0)),
		.slot_be = sml_be16((uint16_t)(slot + (one_in(50) ? RANDOM_SLOTS : 0))),
		.rank = (uint8_t)(rank + (one_in(50) ? RANDOM_RANKS : 0)),
		.op = (use >> 1 & 3) == 1 ? SML_LANE_MAX : SML_LANE_SUM,
		.lane_kind = (uint8_t)(one_in(60) ? random_below(3) : kind),
		.shard = (uint8_t)(slot % rules->n_shards + (one_in(60) ? 1 : 0)),
		.lanes_be = sml_be16((uint16_t)lanes),
	};
	for (uint32_t i = 0; i < lanes; i++)
		values[i] = random_below(1u << 31) ^ random_below(1u << 31) << 1;
	return SML_HEADER_BYTES + 4 * lanes;
}

/* A packet that was changed on its way is counted, and changes nothing. */
static void send_corrupted(const uint8_t *packet, uint32_t length)
{
	const struct frame_wrapping own = wrapping_of(packet[34]);
	struct fates before = read_fates();
	uint8_t frame[FRAME_BYTES];
	uint32_t bytes = frame_build(frame, &own, packet, length);

	frame[frame_headers(&own) + SML_HEADER_BYTES + random_below(4 * VECTOR_LANES)] ^= 0x10;
	send_frame(frame, bytes);
	assert_int_equal(await_fate(&before), SML_VERDICTS);
}

static void run_random_world(unsigned world, uint64_t counts[SML_VERDICTS])
{
	struct sml_pool_rules rules = {
		.tag = 0x7461672d7461672d + world,
		.job = VECTOR_JOB,
		.epoch = VECTOR_EPOCH + world,
		.head_slots = 1,
		.data_slots = RANDOM_SLOTS - 1,
		.lanes = VECTOR_LANES,
		.n_ranks = RANDOM_RANKS,
		.n_shards = (uint8_t)(1 + world),
	};
	uint8_t packet[SML_HEADER_BYTES + 4 * VECTOR_LANES] __attribute__((aligned(8)));
	struct sml_pool_answer answer = {.packet = NULL};
	struct sml_pool pool;
	void *memory;

	for (unsigned rank = 0; rank < rules.n_ranks; rank++)
		rules.cookies[rank] = (uint64_t)random_below(1u << 31) << 32 | rank;
	memory = vector_pool_open(&pool, &rules);
	begin_world(&rules);
	for (unsigned i = 0; i < RANDOM_STEPS / RANDOM_WORLDS; i++) {
		uint32_t length = random_packet(&pool, packet);

		bool has_lanes =
			length == sizeof(packet) &&
			!(is_staged && ((struct sml_header *)packet)->lane_kind != SML_LANE_INT32);

		if (one_in(16) && has_lanes &&
		    sml_pool_check(&rules, (struct sml_header *)packet, length, &answer.in) ==
			    SML_VERDICT_ABSORBED)
			send_corrupted(packet, length);
		counts[compare(&pool, packet, length, "random packet", i)]++;
	}
	free(memory);
}

static void random_packets_get_the_verdicts_and_bytes_of_the_user_space_slots(void **state)
{
	uint64_t counts[SML_VERDICTS] = {0};

	(void)state;
	for (unsigned world = 0; world < RANDOM_WORLDS; world++)
		run_random_world(world, counts);
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		print_message("%s %lu%s", fate_name(v), (unsigned long)counts[v],
			      v + 1 < SML_VERDICTS ? ", " : "\n");
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		if (v != SML_VERDICT_FULL && v != SML_VERDICT_RESEND_UP)
			assert_true(counts[v] > 0);
}

/* ---- losses between the passes of the staged form ---- */

/* The passes of p4/include/staged.p4. */
enum pass { PASS_LOAD = 1, PASS_FINISH, PASS_MISMATCH };

static void lose_next(enum pass pass)
{
	write_whole("SmlIngress.losses", pass, 1);
}

static void await_loss(enum pass pass)
{
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	while (read_whole("SmlIngress.losses", pass) != 0)
		assert_true(sml_now_ns() < end_ns);
}

struct losing {
	struct sml_pool pool;
	uint32_t use;
	uint8_t op;
	uint8_t packets[RANDOM_RANKS][SML_HEADER_BYTES + 4 * VECTOR_LANES]
		__attribute__((aligned(8)));
};

static void make_packets(struct losing *own, uint32_t use)
{
	const struct sml_pool_rules *rules = &own->pool.rules;

	own->use = use;
	own->op = use / (4 * RANDOM_RANKS) % 2 ? SML_LANE_MAX : SML_LANE_SUM;
	for (uint8_t rank = 0; rank < rules->n_ranks; rank++) {
		struct sml_header *header = (struct sml_header *)own->packets[rank];
		sml_any_u32 *values = (sml_any_u32 *)(header + 1);

		*header = (struct sml_header){
			.magic_be = sml_be16(SML_WIRE_MAGIC),
			.version = SML_WIRE_VERSION,
			.kind = SML_PACKET_CONTRIBUTION,
			.job_be = sml_be32(rules->job),
			.key_be = sml_be64(rules->cookies[rank]),
			.epoch_be = sml_be32(rules->epoch),
			.use_be = sml_be32(use),
			.chunk_be = sml_be32(use),
			.digest_be = sml_be32(77 + use),
			.rank = rank,
			.op = own->op,
			.lanes_be = sml_be16(VECTOR_LANES),
		};
		for (uint32_t i = 0; i < VECTOR_LANES; i++)
			values[i] = random_below(1u << 31) ^ random_below(1u << 31) << 1;
	}
}

static void send_packet(const uint8_t *packet)
{
	const struct frame_wrapping own = wrapping_of(((const struct sml_header *)packet)->rank);
	uint8_t frame[FRAME_BYTES];

	send_frame(frame, frame_build(frame, &own, packet, SML_HEADER_BYTES + 4 * VECTOR_LANES));
}

/* Nothing has become of a packet: neither a verdict, nor (the next frame shows it) a result. */
static void lose(const uint8_t *packet, enum pass pass)
{
	struct fates before = read_fates(), after;

	lose_next(pass);
	send_packet(packet);
	await_loss(pass);
	after = read_fates();
	assert_memory_equal(&before, &after, sizeof(before));
}

static unsigned fate_of(const uint8_t *packet)
{
	struct fates before = read_fates();

	send_packet(packet);
	return await_fate(&before);
}

static void next_use_may_not_begin(struct losing *own)
{
	struct sml_header *header = (struct sml_header *)own->packets[0];

	header->use_be = sml_be32(own->use + 2);
	assert_int_equal(fate_of(own->packets[0]), SML_VERDICT_EARLY_USE);
	header->use_be = sml_be32(own->use);
}

/*
 * The last rank's packet is lost before it completes the use, and then the copies of `rank`, if
 * they are lost, too. Its next copy completes the use, for all ranks.
 */
static void lose_the_last(struct losing *own, uint8_t rank, bool load_too, bool finish_too)
{
	uint32_t length = sizeof(own->packets[0]);
	uint8_t expected[sizeof(own->packets[0])] __attribute__((aligned(8)));
	struct sml_pool_answer answer = {.packet = NULL};
	enum sml_verdict verdict;

	for (uint8_t first = 0; first + 1 < RANDOM_RANKS; first++)
		assert_int_equal(compare(&own->pool, own->packets[first], length, "use", own->use),
				 SML_VERDICT_ABSORBED);
	verdict = sml_pool_receive(&own->pool, own->packets[RANDOM_RANKS - 1], length, &answer);
	assert_int_equal(verdict, SML_VERDICT_COMPLETED);
	memcpy(expected, answer.packet, length);
	lose(own->packets[RANDOM_RANKS - 1], PASS_FINISH);
	next_use_may_not_begin(own);
	if (load_too)
		lose(own->packets[rank], PASS_LOAD);
	if (finish_too)
		lose(own->packets[rank], PASS_FINISH);
	/* Who completes the use is its last rank. */
	((struct sml_header *)expected)->rank = rank;
	answer = (struct sml_pool_answer){.packet = expected, .length = length, .in.rank = rank};
	assert_int_equal(fate_of(own->packets[rank]), SML_VERDICT_COMPLETED);
	check_results(&own->pool.rules, SML_VERDICT_COMPLETED, &answer);
	/* It stays complete. A copy that is lost before its FINISH is no harm, either. */
	lose(own->packets[0], PASS_FINISH);
	for (uint8_t again = 0; again < RANDOM_RANKS; again++) {
		answer.in.rank = again;
		assert_int_equal(fate_of(own->packets[again]), SML_VERDICT_RESEND);
		check_results(&own->pool.rules, SML_VERDICT_RESEND, &answer);
	}
}

/* A mismatch that is lost on its way to the daemon is told by the next copy. */
static void lose_a_mismatch(struct losing *own)
{
	uint32_t length = sizeof(own->packets[0]);
	struct sml_header *header = (struct sml_header *)own->packets[1];

	assert_int_equal(compare(&own->pool, own->packets[0], length, "use", own->use),
			 SML_VERDICT_ABSORBED);
	header->digest_be ^= 1;
	lose(own->packets[1], PASS_MISMATCH);
	assert_int_equal(compare(&own->pool, own->packets[1], length, "use", own->use),
			 SML_VERDICT_MISMATCH);
	header->digest_be ^= 1;
	for (uint8_t rank = 1; rank < RANDOM_RANKS; rank++)
		compare(&own->pool, own->packets[rank], length, "use", own->use);
}

static void a_use_whose_last_packet_is_lost_between_passes_is_completed_by_any_copy(void **state)
{
	struct sml_pool_rules rules = {
		.tag = 0x7461672d7461672d,
		.job = VECTOR_JOB,
		.epoch = VECTOR_EPOCH,
		.head_slots = 1,
		.data_slots = 1,
		.lanes = VECTOR_LANES,
		.n_ranks = RANDOM_RANKS,
		.n_shards = 1,
	};
	struct losing own;
	uint32_t use = 0;
	void *memory;

	(void)state;
	assert_true(is_staged);
	for (unsigned rank = 0; rank < rules.n_ranks; rank++)
		rules.cookies[rank] = (uint64_t)random_below(1u << 31) << 32 | rank;
	memory = vector_pool_open(&own.pool, &rules);
	begin_world(&rules);
	/* The first round has sums, and the second one maxima. */
	for (unsigned round = 0; round < 2; round++)
		for (uint8_t rank = 0; rank < RANDOM_RANKS; rank++)
			for (unsigned also = 0; also < 4; also++) {
				make_packets(&own, use++);
				lose_the_last(&own, rank, also & 1, also & 2);
			}
	print_message("%u uses lost their last packet, and were completed by a copy;\n", use);
	make_packets(&own, use++);
	lose_a_mismatch(&own);
	free(memory);
}

/* ---- set-up ---- */

static int open_raw(const char *interface)
{
	struct sockaddr_ll place = {.sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = (int)if_nametoindex(interface)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), one = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&place, sizeof(place)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) < 0) {
		perror(interface);
		exit(1);
	}
	return fd;
}

/*
 * TARGET FAMILY PROGRAM; the family is 4, 6 or tagged. The interface is called "workers". A
 * program whose name ends in -loss.json can lose packets between passes.
 */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_vector_gets_its_verdict_and_result_in_simple_switch),
		cmocka_unit_test(random_packets_get_the_verdicts_and_bytes_of_the_user_space_slots),
	};
	const struct CMUnitTest loss_tests[] = {
		cmocka_unit_test(
			a_use_whose_last_packet_is_lost_between_passes_is_completed_by_any_copy),
	};
	struct sml_dataplane_config config = {
		.port = FRAME_PORT,
		.n_threads = 1,
		.interfaces = "",
		.hosts = "02:00:00:00:00:ff=0,02:00:00:00:00:00=1",
		.max_jobs = 4,
		.max_slots = 1024,
		.on_mismatch = note_mismatch,
	};
	int rc;

	if (argc != 4)
		return 2;
	seed = sml_now_ns();
	print_message("seed %lu\n", (unsigned long)seed);
	wrapping.v6 = strcmp(argv[2], "6") == 0;
	wrapping.n_tags = strcmp(argv[2], "tagged") == 0;
	is_staged = strstr(argv[3], "-staged") != NULL;
	config.target = argv[1];
	config.address = wrapping.v6 ? "fd00::ff" : "10.0.0.255";
	raw_fd = open_raw("workers");
	if (operations->open(&dataplane, &config) < 0) {
		fprintf(stderr, "%s\n", sml_error_last());
		return 1;
	}
	if (strstr(argv[3], "-loss.json") != NULL)
		rc = cmocka_run_group_tests(loss_tests, NULL, NULL);
	else
		rc = cmocka_run_group_tests(tests, NULL, NULL);
	if (has_job)
		operations->remove_job(dataplane, VECTOR_JOB);
	operations->close(dataplane);
	return rc;
}

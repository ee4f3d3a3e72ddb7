/* SPDX-License-Identifier: BSD-3-Clause */
/* A world of the P4 dataplane in simple_switch: see p4_slot.h. */
#include <linux/if_packet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "p4_slot.h"

struct p4_slot_test p4_slot = {.operations = &sml_dataplane_p4};

uint32_t p4_slot_lanes(uint8_t lane_kind)
{
	uint32_t width = sml_rounded_width(lane_kind);

	return sml_lane_is_rounded(lane_kind)
		       ? sml_rounded_lanes(width, sml_rounded_blocks(width, VECTOR_LANES))
		       : VECTOR_LANES;
}

/* ---- frames ---- */

struct frame_wrapping p4_slot_wrapping(uint8_t rank)
{
	struct frame_wrapping own = p4_slot.wrapping;

	own.rank = rank;
	return own;
}

void p4_slot_send(const uint8_t *frame, uint32_t bytes)
{
	assert_int_equal(send(p4_slot.raw_fd, frame, bytes, 0), bytes);
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
	uint32_t headers = frame_headers(&p4_slot.wrapping);
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	memset(frame, 0, FRAME_BYTES);
	*header = (struct sml_header){.magic_be = 0};
	while (sml_now_ns() < end_ns) {
		struct pollfd fd = {.fd = p4_slot.raw_fd, .events = POLLIN};
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
		n = recvmsg(p4_slot.raw_fd, &message, 0);
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

struct fates p4_slot_fates(void)
{
	struct sml_dataplane_counters counters;
	struct fates fates;

	p4_slot.operations->counters(p4_slot.dataplane, &counters);
	memcpy(fates.n, counters.verdicts, sizeof(counters.verdicts));
	fates.n[SML_VERDICTS] = counters.bad_checksums;
	return fates;
}

/* The one fate that has been counted since `before`. */
unsigned p4_slot_await_fate(const struct fates *before)
{
	uint64_t end_ns = sml_now_ns() + PATIENCE_NS;

	while (sml_now_ns() < end_ns) {
		struct fates now = p4_slot_fates();

		for (unsigned i = 0; i <= SML_VERDICTS; i++)
			if (now.n[i] != before->n[i]) {
				assert_int_equal(now.n[i] - before->n[i], 1);
				return i;
			}
	}
	fail_msg("the packet was not counted");
	return 0;
}

const char *p4_slot_fate_name(unsigned fate)
{
	return fate < SML_VERDICTS ? sml_verdict_name((enum sml_verdict)fate) : "bad-checksum";
}

void p4_slot_note_mismatch(void *context, const struct sml_mismatch *mismatch)
{
	(void)context;
	p4_slot.last_mismatch = *mismatch;
	__atomic_fetch_add(&p4_slot.n_mismatches, 1, __ATOMIC_RELEASE);
}

/* ---- worlds ---- */

static void probe(const struct sml_pool_rules *rules, uint8_t rank, uint8_t shard)
{
	const struct frame_wrapping own = p4_slot_wrapping(rank);
	uint8_t frame[FRAME_BYTES], packet[SML_HEADER_BYTES + 4 * VECTOR_LANES] = {0};
	struct sml_header *header = (struct sml_header *)packet, reply;
	uint32_t bytes;

	*header = frame_header(rules, rank, 0, 0, VECTOR_LANES);
	header->kind = SML_PACKET_PROBE;
	header->shard = shard;
	p4_slot_send(frame, frame_build(frame, &own, packet, sizeof(packet)));
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

void p4_slot_begin_world(const struct sml_pool_rules *rules)
{
	if (p4_slot.has_job)
		p4_slot.operations->remove_job(p4_slot.dataplane, VECTOR_JOB);
	assert_int_equal(p4_slot.operations->add_job(p4_slot.dataplane, rules), 0);
	p4_slot.has_job = true;
	p4_slot.told_mismatch = false;
	for (uint8_t rank = 0; rank < rules->n_ranks; rank++) {
		assert_non_null(
			p4_slot.operations->misses_address(p4_slot.dataplane, VECTOR_JOB, rank));
		for (uint8_t shard = 0; shard < rules->n_shards; shard++)
			probe(rules, rank, shard);
		assert_null(
			p4_slot.operations->misses_address(p4_slot.dataplane, VECTOR_JOB, rank));
	}
	assert_int_equal(p4_slot.operations->start_job(p4_slot.dataplane, VECTOR_JOB), 0);
}

/* A result as the rank gets it: the same bytes as of the user-space slots. */
static uint8_t check_result(const struct sml_pool_answer *answer)
{
	uint32_t headers = frame_headers(&p4_slot.wrapping);
	struct frame_wrapping own;
	uint8_t frame[FRAME_BYTES];
	struct sml_header header;
	uint32_t bytes = receive_frame(frame, &header);

	own = p4_slot_wrapping(frame[5]);
	assert_int_equal(bytes, headers + answer->length);
	assert_memory_equal(frame + headers, answer->packet, answer->length);
	assert_true(frame_answers(frame, bytes, &own, answer->length));
	return own.rank;
}

void p4_slot_check_results(const struct sml_pool_rules *rules, unsigned fate,
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

	while (__atomic_load_n(&p4_slot.n_mismatches, __ATOMIC_ACQUIRE) == before &&
	       sml_now_ns() < end_ns)
		;
	assert_int_equal(p4_slot.n_mismatches, before + 1);
	assert_int_equal(p4_slot.last_mismatch.slot, in->slot);
	assert_int_equal(p4_slot.last_mismatch.use, in->use);
	assert_int_equal(p4_slot.last_mismatch.chunk, slot->chunk);
	assert_int_equal(p4_slot.last_mismatch.ranks[1], in->rank);
	assert_true(slot->seen >> p4_slot.last_mismatch.ranks[0] & 1);
}

/*
 * What the P4 switch should do with a packet: what the user-space slots do, but a packet that is
 * not full is out of range.
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
	if (answer->in.lanes != p4_slot_lanes(answer->in.lane_kind) ||
	    (p4_slot.is_staged && answer->in.lane_kind != SML_LANE_INT32))
		return SML_VERDICT_OUT_OF_RANGE;
	return sml_pool_receive(pool, packet, length, answer);
}

/* Both do the same with a packet. */
unsigned p4_slot_compare(struct sml_pool *pool, const uint8_t *packet, uint32_t length,
			 const char *where, unsigned number)
{
	const struct sml_header *header = (const struct sml_header *)packet;
	const struct frame_wrapping own = p4_slot_wrapping(header->rank);
	uint32_t mismatches = __atomic_load_n(&p4_slot.n_mismatches, __ATOMIC_ACQUIRE);
	struct fates before = p4_slot_fates();
	struct sml_pool_answer answer = {.packet = NULL};
	unsigned expected = expect(pool, packet, length, &answer), fate;
	uint8_t frame[FRAME_BYTES];

	p4_slot_send(frame, frame_build(frame, &own, packet, length));
	fate = p4_slot_await_fate(&before);
	if (fate != expected)
		fail_msg("%s %u: %s, not %s", where, number, p4_slot_fate_name(fate),
			 p4_slot_fate_name(expected));
	p4_slot_check_results(&pool->rules, fate, &answer);
	/* The first one of a job is told. */
	if (fate == SML_VERDICT_MISMATCH && !p4_slot.told_mismatch) {
		check_mismatch(pool, &answer.in, mismatches);
		p4_slot.told_mismatch = true;
	}
	return fate;
}

/* ---- registers and random numbers ---- */

/* Through the dataplane's own connection, because a target has one daemon. */
void p4_slot_write_register(const char *name, uint32_t index, uint64_t value)
{
	pthread_mutex_lock(&p4_slot.dataplane->target_mutex);
	assert_int_equal(p4_slot.dataplane->operations->write_register(p4_slot.dataplane->target,
								       name, index, value),
			 0);
	pthread_mutex_unlock(&p4_slot.dataplane->target_mutex);
}

uint64_t p4_slot_read_register(const char *name, uint32_t index)
{
	uint64_t value;

	pthread_mutex_lock(&p4_slot.dataplane->target_mutex);
	assert_int_equal(p4_slot.dataplane->operations->read_registers(p4_slot.dataplane->target,
								       name, 0, index, &value, 1),
			 0);
	pthread_mutex_unlock(&p4_slot.dataplane->target_mutex);
	return value;
}

uint32_t p4_slot_random_below(uint32_t n)
{
	p4_slot.seed = p4_slot.seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(p4_slot.seed >> 33) % n;
}

bool p4_slot_one_in(uint32_t n)
{
	return p4_slot_random_below(n) == 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared test vectors against the XDP program. Skipped where BPF is not permitted. */
#include <bpf/bpf.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"
#include "support/vectors.h"
#include "support/xdp_run.h"
#include "switch/xdp/maps.h"

static struct sml_xdp_maps *maps;

#define LOOPBACK    1	/* all ranks are behind it */
#define PARENT_HOST 200 /* whose address a leaf's parent has */

struct run {
	struct sml_pool_rules rules;
	unsigned n;
};

static void begin_world(void *self, struct vector *vector)
{
	struct run *run = self;
	const struct sml_pool_rules *rules = &run->rules;
	const struct sml_xdp_peer peer = {.ifindex = LOOPBACK};

	run->rules = vector->rules;
	sml_xdp_maps_remove_job(maps, VECTOR_JOB);
	xdp_add_job(maps, rules);
	for (uint8_t rank = 0; rank < rules->n_ranks; rank++)
		assert_int_equal(sml_xdp_maps_set_peer(maps, VECTOR_JOB, rank, 0, &peer), 0);
	if (rules->is_leaf) {
		xdp_set_parent(maps, VECTOR_JOB, &(struct frame_wrapping){.rank = PARENT_HOST});
		assert_int_equal(sml_xdp_maps_set_peer(maps, VECTOR_JOB, SML_XDP_PARENT, 0, &peer),
				 0);
	}
	assert_int_equal(sml_xdp_maps_start_job(maps, VECTOR_JOB, 0), 0);
}

/* Every slot has served the uses before this one. */
static void age(void *self, const struct vector *vector)
{
	const struct run *run = self;
	const struct sml_pool_rules *rules = &run->rules;
	int slots = xdp_map_of(sml_xdp_maps_entry_fd(maps), "sml_slots");
	struct sml_xdp_slot value = {
		.slot = {.seen = sml_pool_all_ranks(rules), .state = SML_SLOT_COMPLETE}};
	struct sml_xdp_job job;

	assert_int_equal(sml_xdp_maps_get_job(maps, VECTOR_JOB, &job), 0);
	for (uint32_t i = 0; i < 2u * (rules->head_slots + rules->data_slots); i++) {
		uint32_t row = job.first_buffer + i;

		value.slot.use = vector->age + (i & 1) - 2;
		assert_int_equal(bpf_map_update_elem(slots, &row, &value, 0), 0);
	}
	close(slots);
}

static void check_result(const struct vector *vector, const struct sml_pool_rules *rules,
			 const struct xdp_outcome *out)
{
	const struct frame_wrapping wrapping = {.rank = 0};
	const uint8_t *payload = out->frame + frame_headers(&wrapping);
	struct sml_header header;
	uint32_t lane;

	assert_int_equal(out->action, XDP_REDIRECT);
	assert_int_equal(out->bytes,
			 frame_headers(&wrapping) + SML_HEADER_BYTES + 4 * vector->n_lanes);
	memcpy(&header, payload, sizeof(header));
	if (!vector_header_is_right(vector, rules, &header))
		fail_msg("line %u: the answer's header is wrong", vector->line);
	for (uint32_t i = 0; i < vector->n_lanes; i++) {
		memcpy(&lane, payload + sizeof(header) + 4 * i, sizeof(lane));
		assert_int_equal((int32_t)sml_be32(lane), (int32_t)vector->lanes[i]);
	}
}

/*
 * What the program leaves to the stack, which may find it malformed or of an unknown job itself.
 * But nobody else makes packets of another kind.
 */
static bool is_for_the_stack(const struct vector *vector)
{
	struct sml_header header = {.kind = SML_PACKET_CONTRIBUTION};
	enum sml_verdict verdict = vector->verdict;

	if (vector->length >= sizeof(header))
		memcpy(&header, vector->packet, sizeof(header));
	if (header.kind != SML_PACKET_CONTRIBUTION && verdict == SML_VERDICT_MALFORMED)
		return false;
	return verdict == SML_VERDICT_MALFORMED || verdict >= SML_VERDICT_UNKNOWN_JOB;
}

static void check_send(const struct vector *vector, const struct sml_pool_rules *rules)
{
	const struct frame_wrapping wrapping = {.rank = vector->is_result ? PARENT_HOST
									  : vector->packet[34]};
	struct sml_xdp_totals before, after;
	uint8_t frame[FRAME_BYTES];
	struct xdp_outcome out;
	uint64_t counted;

	sml_xdp_maps_totals(maps, VECTOR_JOB, &before);
	xdp_run(sml_xdp_maps_entry_fd(maps), frame,
		frame_build(frame, &wrapping, vector->packet, vector->length), &out);
	sml_xdp_maps_totals(maps, VECTOR_JOB, &after);
	counted = after.traffic.fates[vector->verdict] - before.traffic.fates[vector->verdict];
	if (counted != 1 && vector->verdict != SML_VERDICT_MALFORMED &&
	    vector->verdict != SML_VERDICT_UNKNOWN_JOB)
		fail_msg("line %u: %lu counted as %s", vector->line, (unsigned long)counted,
			 sml_verdict_name(vector->verdict));
	if (vector->has_ticket || vector->goes_up)
		check_result(vector, rules, &out);
	else
		assert_int_equal(out.action, is_for_the_stack(vector) ? XDP_PASS : XDP_DROP);
}

static void receive(void *self, struct vector *vector)
{
	struct run *run = self;

	check_send(vector, &run->rules);
	run->n++;
}

TEST(every_vector_gets_its_verdict_and_result_in_the_kernel)
{
	const struct vector_steps steps = {begin_world, age, receive, false};
	struct run run = {.n = 0};

	vectors_run(&steps, &run);
	assert_true(run.n > 50);
}

int main(void)
{
	const struct sml_xdp_config config = {
		.port = FRAME_PORT, .max_jobs = 1, .max_slots = SML_MAX_SLOTS};
	int rc;

	maps = xdp_open_maps(&config);
	assert_int_equal(sml_xdp_maps_start_cleaner(maps), 0);
	rc = test_run();
	sml_xdp_maps_close(maps);
	return rc;
}

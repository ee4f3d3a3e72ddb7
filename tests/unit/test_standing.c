/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of a job that has ended: which are complete on all, and handing over their results. */
#include <string.h>

#include "core/kept.h"
#include "core/standing.h"
#include "support/rig.h"
#include "support/test.h"

/* ---- who has completed what ---- */

#define JOB 7

static struct sml_settlement settlement;

static struct sml_standing standing(uint64_t job, uint32_t first, uint64_t complete)
{
	return (struct sml_standing){.job = job, .first = first, .complete = {complete}};
}

TEST(a_call_is_complete_if_any_member_has_completed_it)
{
	const struct sml_standing all[] = {
		standing(JOB, 4, 0),
		standing(JOB + 1, 9, 0),
		standing(JOB, 4, 1 << 2),
		standing(JOB, 5, 0),
	};

	assert_true(sml_standing_settle(all, 4, 0, &settlement));
	assert_true(sml_settlement_completes(&settlement, 4));
	assert_false(sml_settlement_completes(&settlement, 5));
	assert_true(sml_settlement_completes(&settlement, 6));
	assert_false(sml_settlement_completes(&settlement, 7));
	assert_false(sml_settlement_needs(&settlement, all, 4, 0));
	assert_false(sml_settlement_needs(&settlement, all, 4, 1));
	assert_true(sml_settlement_needs(&settlement, all, 4, 2));
	assert_true(sml_settlement_needs(&settlement, all, 4, 3));
}

TEST(nobody_hands_over_what_all_have_or_none_has)
{
	const struct sml_standing all[] = {standing(JOB, 4, 2), standing(JOB, 4, 2)};

	assert_true(sml_standing_settle(all, 2, 1, &settlement));
	assert_false(sml_settlement_completes(&settlement, 4));
	assert_false(sml_settlement_needs(&settlement, all, 2, 0));
	assert_false(sml_settlement_needs(&settlement, all, 2, 1));
}

TEST(what_has_been_settled_stays_so)
{
	struct sml_standing all[] = {standing(JOB, 4, 0), standing(JOB, 5, 0), standing(JOB, 4, 0)};

	all[2].settled = 1;
	assert_true(sml_standing_settle(all, 3, 0, &settlement));
	assert_false(sml_settlement_completes(&settlement, 4));
	assert_false(sml_settlement_needs(&settlement, all, 3, 1));
	/* The other way round, the one that has settled it hands it on. */
	sml_standing_add(&all[2], 4);
	assert_true(sml_standing_settle(all, 3, 0, &settlement));
	assert_true(sml_settlement_completes(&settlement, 4));
	assert_true(sml_settlement_needs(&settlement, all, 3, 2));
	assert_false(sml_settlement_needs(&settlement, all, 3, 1));
}

TEST(numbers_of_calls_wrap_around)
{
	const struct sml_standing all[] = {standing(JOB, UINT32_MAX, 0), standing(JOB, 1, 0)};

	assert_true(sml_standing_settle(all, 2, 1, &settlement));
	assert_true(sml_settlement_completes(&settlement, UINT32_MAX));
	assert_true(sml_settlement_completes(&settlement, 0));
	assert_false(sml_settlement_completes(&settlement, 1));
	assert_true(sml_settlement_needs(&settlement, all, 2, 1));
}

/* All calls that a worker holds are complete on one member, and the oldest is not on another. */
TEST(members_are_as_far_apart_as_a_worker_holds_calls_and_no_further)
{
	struct sml_standing all[] = {standing(JOB, 0, 0),
				     standing(JOB, SML_WORKER_TENSORS, ~(uint64_t)0)};

	all[1].complete[SML_STANDING_CALLS / 64 - 1] = (uint64_t)1 << 63;
	assert_true(sml_standing_settle(all, 2, 0, &settlement));
	assert_true(sml_settlement_completes(&settlement, 0));
	assert_true(sml_settlement_completes(&settlement, 2 * SML_STANDING_CALLS - 1));
	assert_true(sml_settlement_needs(&settlement, all, 2, 1));
	all[1].first++;
	assert_false(sml_standing_settle(all, 2, 0, &settlement));
}

/* ---- results ---- */

static struct rig rig;
static uint8_t kept[4096];

static int end(void **state)
{
	(void)state;
	return rig_fini(&rig) ? 0 : -1;
}

/* Both contribute to a call of two chunks, and only rank 0 gets the results. Returns their bytes.
 */
static size_t complete_on_rank_0(void)
{
	struct sml_pool_answer answer;
	struct rig_packet packet;

	rig_init(&rig, 2, 1, 2);
	rig_submit(&rig, 2 * RIG_LANES);
	for (uint32_t rank = 2; rank-- > 0;)
		while (rig_send(&rig, rank, &packet))
			if (rig_to_switch(&rig, &packet, &answer) == SML_VERDICT_COMPLETED)
				(void)rig_to_rank(&rig, 0, answer.packet, answer.length);
	for (uint32_t rank = 0; rank < 2; rank++)
		sml_worker_freeze(&rig.ranks[rank].worker);
	assert_true(sml_tensor_is_done(&rig.ranks[0].calls[0].tensor));
	assert_int_equal(sml_kept_bytes(&rig.ranks[1].worker), 0);
	assert_ptr_equal(sml_kept_write(&rig.ranks[0].worker, kept),
			 kept + sml_kept_bytes(&rig.ranks[0].worker));
	return sml_kept_bytes(&rig.ranks[0].worker);
}

TEST_WITH(kept_results_complete_the_call_where_they_are_lacking, NULL, end)
{
	size_t bytes = complete_on_rank_0();
	struct rig_call *late = &rig.ranks[1].calls[0];
	struct sml_tensor *tensors[] = {&late->tensor};

	assert_int_equal(bytes, sml_kept_size(0) + 2 * sml_kept_size(RIG_LANES));
	/* Of any part of them, whole results are taken. */
	for (size_t part = 0; part < bytes; part++) {
		sml_kept_take(kept, part, tensors, 1);
		assert_false(sml_tensor_is_done(&late->tensor));
	}
	sml_kept_take(kept, bytes, tensors, 1);
	assert_true(sml_tensor_is_done(&late->tensor));
	assert_memory_equal(late->recv.bytes, rig.ranks[0].calls[0].recv.bytes,
			    2 * RIG_LANES * sizeof(int32_t));
	/* Once more changes nothing. */
	sml_kept_take(kept, bytes, tensors, 1);
}

TEST_WITH(results_that_do_not_fit_are_left_out, NULL, end)
{
	static const uint32_t lanes[SML_MAX_LANES];
	struct rig_call *late = &rig.ranks[1].calls[0];
	struct sml_tensor *tensors[] = {&late->tensor};
	uint8_t *end_of_kept = kept;

	(void)complete_on_rank_0();
	end_of_kept = sml_kept_put(end_of_kept, SML_DATA, late->tensor.window[SML_DATA].first + 2,
				   lanes, RIG_LANES);
	end_of_kept = sml_kept_put(end_of_kept, SML_DATA, late->tensor.window[SML_DATA].first,
				   lanes, RIG_LANES + 1);
	end_of_kept =
		sml_kept_put(end_of_kept, SML_HEAD, late->tensor.window[SML_HEAD].first, lanes, 1);
	sml_kept_take(kept, (size_t)(end_of_kept - kept), tensors, 1);
	assert_int_equal(late->tensor.left, 3);
	/* No such stream, and more lanes than any packet has. */
	memset(kept, 0xff, sizeof(kept));
	sml_kept_take(kept, sizeof(kept), tensors, 1);
	assert_int_equal(late->tensor.left, 3);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/control/client.h"

static void add(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

struct sml_embedded_stripe *sml_embedded_stripe_new(const struct sml_pool_rules *rules,
						    uint8_t rank, struct sml_control *control)
{
	struct sml_embedded_stripe *own = calloc(1, sizeof(*own));

	if (own) {
		own->memory = malloc(sml_pool_memory_bytes(rules));
		own->completed = calloc(2u * ((size_t)rules->head_slots + rules->data_slots),
					sizeof(*own->completed));
	}
	if (own == NULL || own->memory == NULL || own->completed == NULL) {
		sml_embedded_stripe_free(own);
		sml_error_set(-ENOMEM, "no memory for the slots of this rank's stripe");
		return NULL;
	}
	sml_pool_init(&own->pool, rules, own->memory);
	own->rank = rank;
	own->control = control;
	own->n_job_ranks = rules->n_ranks;
	for (unsigned i = 0; i < rules->n_ranks; i++)
		own->members[i] = (uint64_t)1 << i;
	return own;
}

void sml_embedded_stripe_free(struct sml_embedded_stripe *own)
{
	if (own == NULL)
		return;
	free(own->memory);
	free(own->completed);
	free(own);
}

/* The one that sends for the others. */
static uint16_t job_rank(const struct sml_embedded_stripe *own, unsigned rank)
{
	return (uint16_t)__builtin_ctzll(own->members[rank]);
}

static void report_mismatch(struct sml_embedded_stripe *own, const struct sml_contribution *in)
{
	const struct sml_slot *slot = &own->pool.slots[2u * in->slot + (in->use & 1u)];
	const struct sml_disagreement found = {
		.slot = in->slot,
		.use = in->use,
		.chunk = slot->chunk,
		.ranks = {job_rank(own, (unsigned)__builtin_ctzll(slot->seen)),
			  job_rank(own, in->rank)},
	};

	sml_control_mismatch(own->control, &found);
}

/*
 * Its result may be lost, or this is an old duplicate that waited in the socket with the first one.
 */
static void consider_resend(struct sml_embedded_stripe *own, uint32_t round,
			    struct sml_pool_answer *answer)
{
	if (own->completed[2u * answer->in.slot + (answer->in.use & 1u)] == round)
		answer->packet = NULL;
	else
		add(&own->resends[answer->in.rank], 1);
}

enum sml_verdict sml_embedded_stripe_receive(struct sml_embedded_stripe *own, const void *packet,
					     uint32_t length, uint32_t round, uint64_t now_ns,
					     struct sml_pool_answer *answer)
{
	enum sml_verdict verdict = sml_pool_receive(&own->pool, packet, length, answer);

	uint64_t waited_ns = sml_pool_waited(&own->pool, verdict, &answer->in, now_ns);

	add(&own->verdicts[verdict], 1);
	if (waited_ns > 0)
		add(&own->waited_ns[answer->in.rank], waited_ns);
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_COMPLETED)
		add(&own->contributions[answer->in.rank], 1);
	if (verdict == SML_VERDICT_COMPLETED) {
		own->completed[2u * answer->in.slot + (answer->in.use & 1u)] = round;
	} else if (verdict == SML_VERDICT_RESEND) {
		consider_resend(own, round, answer);
	} else if (verdict == SML_VERDICT_MISMATCH) {
		report_mismatch(own, &answer->in);
	}
	return verdict;
}

void sml_embedded_stripe_status(const struct sml_embedded_stripe *own,
				SmlControl__StripeStatus *status,
				uint64_t waited_ms[SML_MAX_CHILDREN])
{
	status->stripe = job_rank(own, own->rank);
	status->completed =
		__atomic_load_n(&own->verdicts[SML_VERDICT_COMPLETED], __ATOMIC_RELAXED);
	status->waited_ms = waited_ms;
	status->n_waited_ms = own->n_job_ranks;
	memset(waited_ms, 0, own->n_job_ranks * sizeof(*waited_ms));
	for (unsigned rank = 0; rank < own->pool.rules.n_ranks; rank++) {
		status->contributions +=
			__atomic_load_n(&own->contributions[rank], __ATOMIC_RELAXED);
		status->resends += __atomic_load_n(&own->resends[rank], __ATOMIC_RELAXED);
		waited_ms[job_rank(own, rank)] =
			__atomic_load_n(&own->waited_ns[rank], __ATOMIC_RELAXED) / SML_NS_PER_MS;
	}
	status->duplicates =
		__atomic_load_n(&own->verdicts[SML_VERDICT_DUPLICATE], __ATOMIC_RELAXED);
}

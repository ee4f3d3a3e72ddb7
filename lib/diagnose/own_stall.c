/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the slots of this rank's own stripe are waiting for: each belongs to a
 * thread, which is asked, unless it has stopped.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/context/context.h"

/* A thread that does not answer by then is in a system call that lasts. */
#define ANSWER_NS (100 * SML_NS_PER_MS)

static void look_at_shard(const struct sml_own_stripe *own, unsigned shard,
			  struct sml_stall_report *report)
{
	const struct sml_pool_rules *rules = &own->pool.rules;

	sml_assert(rules->n_ranks >= 1 && rules->n_shards >= 1);
	for (uint32_t slot = shard; slot < report->n_slots; slot += rules->n_shards) {
		const struct sml_slot *newest = sml_pool_newest(&own->pool, slot);
		uint64_t missing;

		if (newest == NULL)
			continue;
		sml_assert(rules->n_ranks > 0);
		missing = sml_pool_all_ranks(rules) & ~newest->seen;
		report->slots[slot] = (struct sml_stall_slot){missing, newest->use, true};
		for (unsigned rank = 0; rank < rules->n_ranks; rank++)
			report->n_missing[rank] += (uint32_t)(missing >> rank & 1);
	}
}

static struct sml_stall_report *new_report(const struct sml_own_stripe *own)
{
	const struct sml_pool_rules *rules = &own->pool.rules;
	uint32_t n = (uint32_t)rules->head_slots + rules->data_slots;
	struct sml_stall_report *report = calloc(1, sizeof(*report) + n * sizeof(report->slots[0]));

	if (report)
		report->n_slots = n;
	return report;
}

void sml_own_stripe_answer(struct sml_progress *progress)
{
	struct sml_context *context = progress->context;
	struct sml_own_stripe *own = context->own;
	uint32_t number = __atomic_load_n(&own->question.number, __ATOMIC_SEQ_CST);

	if (number == progress->question_seen)
		return;
	pthread_mutex_lock(&context->lock);
	progress->question_seen = number;
	if (own->question.report) {
		look_at_shard(own, progress->index, own->question.report);
		own->question.n_answered++;
		pthread_cond_broadcast(&context->changed);
	}
	pthread_mutex_unlock(&context->lock);
}

/* The lock is held. False: not all have answered. */
static bool wait_for_answers(struct sml_context *context)
{
	struct timespec until = sml_timespec(sml_now_ns() + ANSWER_NS);
	struct sml_own_stripe *own = context->own;
	int late = 0;

	while (own->question.n_answered < context->n_threads &&
	       context->n_stopped < context->n_threads && !late)
		late = pthread_cond_timedwait(&context->changed, &context->lock, &until);
	return own->question.n_answered == context->n_threads ||
	       context->n_stopped == context->n_threads;
}

struct sml_stall_report *sml_own_stripe_ask(struct sml_context *context)
{
	struct sml_own_stripe *own = context->own;
	struct sml_stall_report *report = own ? new_report(own) : NULL;
	bool answered;

	if (report == NULL)
		return NULL;
	pthread_mutex_lock(&context->lock);
	own->question.report = report;
	own->question.n_answered = 0;
	__atomic_add_fetch(&own->question.number, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < context->n_threads; i++)
		sml_progress_wake(context->threads[i]);
	answered = wait_for_answers(context);
	own->question.report = NULL;
	if (own->question.n_answered == 0 && context->n_stopped == context->n_threads)
		for (unsigned i = 0; i < context->n_threads; i++)
			look_at_shard(own, i, report);
	pthread_mutex_unlock(&context->lock);
	if (answered)
		return report;
	free(report);
	return NULL;
}

const struct sml_stall_report *sml_own_stripe_last(struct sml_context *context,
						   const struct sml_stall_report *names)
{
	struct sml_own_stripe *own = context->own;

	if (own->last == NULL) {
		own->last = sml_own_stripe_ask(context);
		if (own->last && names)
			memcpy(own->last->ranks, names->ranks, sizeof(names->ranks));
	}
	return own->last;
}

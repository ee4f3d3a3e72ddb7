/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lib/control/stall_report.h"
#include "lib/host/slots.h"
#include "lib/progress/crew.h"
#include "lib/progress/own_stripe.h"

/* A thread that does not answer by then is in a long system call. */
#define ANSWER_NS (100 * SML_NS_PER_MS)

static uint64_t job_ranks(const struct sml_host *host, uint64_t ranks)
{
	uint64_t of_job = 0;

	for (unsigned rank = 0; rank < host->memory.terms.n_ranks; rank++)
		if (ranks >> rank & 1)
			of_job |= (uint64_t)1 << host->job_ranks[rank];
	return of_job;
}

static void count_missing(struct sml_stall_report *report)
{
	memset(report->n_missing, 0, sizeof(report->n_missing));
	for (uint32_t i = 0; i < report->n_slots; i++)
		for (unsigned rank = 0; report->slots[i].known && rank < SML_MAX_CHILDREN; rank++)
			report->n_missing[rank] += (uint32_t)(report->slots[i].missing >> rank & 1);
}

/* Where ranks share the slots, any thread of any rank can look at any time. */
static struct sml_stall_report *look_at_host(const struct sml_host *host)
{
	uint32_t n = sml_host_slots(&host->memory.terms);
	struct sml_stall_report *report = calloc(1, sizeof(*report) + n * sizeof(report->slots[0]));

	if (report == NULL)
		return NULL;
	report->n_slots = n;
	for (uint32_t i = 0; i < n; i++) {
		struct sml_stall_slot *slot = &report->slots[i];

		slot->known = sml_host_newest(host, i, &slot->use, &slot->missing);
		slot->missing = job_ranks(host, slot->missing);
	}
	count_missing(report);
	return report;
}

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

void sml_question_answer(struct sml_crew *crew, unsigned thread, uint32_t *seen)
{
	struct sml_own_stripe *own = crew->own;
	uint32_t number = __atomic_load_n(&own->question.number, __ATOMIC_SEQ_CST);

	if (number == *seen)
		return;
	pthread_mutex_lock(&crew->lock);
	*seen = number;
	if (own->question.report) {
		look_at_shard(own, thread, own->question.report);
		own->question.n_answered++;
		pthread_cond_broadcast(&crew->changed);
	}
	pthread_mutex_unlock(&crew->lock);
}

/* The lock is held. False: not all have answered. */
static bool wait_for_answers(struct sml_crew *crew)
{
	struct timespec until = sml_timespec(sml_now_ns() + ANSWER_NS);
	struct sml_own_stripe *own = crew->own;
	int late = 0;

	while (own->question.n_answered < crew->n_threads && crew->n_stopped < crew->n_threads &&
	       !late)
		late = pthread_cond_timedwait(&crew->changed, &crew->lock, &until);
	return own->question.n_answered == crew->n_threads || crew->n_stopped == crew->n_threads;
}

struct sml_stall_report *sml_question_ask(struct sml_crew *crew)
{
	struct sml_own_stripe *own = crew->own;
	struct sml_stall_report *report;
	bool answered;

	if (crew->host)
		return look_at_host(crew->host);
	report = own ? new_report(own) : NULL;
	if (report == NULL)
		return NULL;
	pthread_mutex_lock(&crew->lock);
	own->question.report = report;
	own->question.n_answered = 0;
	__atomic_add_fetch(&own->question.number, 1, __ATOMIC_SEQ_CST);
	sml_crew_wake(crew);
	answered = wait_for_answers(crew);
	own->question.report = NULL;
	if (own->question.n_answered == 0 && crew->n_stopped == crew->n_threads)
		for (unsigned i = 0; i < crew->n_threads; i++)
			look_at_shard(own, i, report);
	pthread_mutex_unlock(&crew->lock);
	if (answered)
		return report;
	free(report);
	return NULL;
}

/* ours: as the host's memory shows the slot. It becomes what is known of it altogether. */
static void merge(struct sml_stall_slot *ours, const struct sml_stall_slot *told, uint64_t group)
{
	bool knows_use = told->known && !sml_serial_before(told->use, ours->use);

	/* Also if all ranks are in, and only their sum is not there. */
	if (!ours->known || ours->missing == 0 || (knows_use && told->use != ours->use)) {
		*ours = *told;
		return;
	}
	if (knows_use)
		ours->missing |= told->missing & ~group;
}

const struct sml_stall_report *sml_question_refine(struct sml_crew *crew,
						   const struct sml_stall_report *told)
{
	const struct sml_host *host = crew->host;

	if (host == NULL || !host->memory.terms.goes_up || told == NULL || told == crew->last)
		return told;
	free(crew->last);
	crew->last = look_at_host(host);
	if (crew->last == NULL)
		return told;
	for (uint32_t i = 0; i < crew->last->n_slots && i < told->n_slots; i++)
		merge(&crew->last->slots[i], &told->slots[i], job_ranks(host, UINT64_MAX));
	count_missing(crew->last);
	memcpy(crew->last->ranks, told->ranks, sizeof(told->ranks));
	return crew->last;
}

const struct sml_stall_report *sml_question_last(struct sml_crew *crew,
						 const struct sml_stall_report *names)
{
	if (crew->last == NULL) {
		crew->last = sml_question_ask(crew);
		if (crew->last && names)
			memcpy(crew->last->ranks, names->ranks, sizeof(names->ranks));
	}
	return crew->last;
}

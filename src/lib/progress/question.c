/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdlib.h>

#include "base/clock.h"
#include "lib/control/stall_report.h"
#include "lib/host/slots.h"
#include "lib/progress/line.h"
#include "lib/progress/threads.h"

/* A thread that does not answer by then is in a long system call. */
#define ANSWER_NS (100 * SML_NS_PER_MS)

/* The job's ranks, from those of the host. */
static void add_job_ranks(const struct sml_host *host, uint64_t ranks, struct sml_ranks *of_job)
{
	for (unsigned rank = 0; rank < host->memory.terms.n_ranks; rank++)
		if (ranks >> rank & 1)
			sml_ranks_add(of_job, host->job_ranks[rank]);
}

/* The job has at least this many ranks. */
static unsigned known_ranks(const struct sml_host *host)
{
	return host->job_ranks[host->memory.terms.n_ranks - 1u] + 1u;
}

/* Where ranks share the slots, any thread of any rank can look at any time. */
static struct sml_stall_report *look_at_host(const struct sml_host *host, unsigned n_ranks)
{
	uint32_t n = sml_host_slots(&host->memory.terms), use;
	struct sml_stall_report *report = sml_stall_report_open(n, n_ranks);
	uint64_t missing;

	for (uint32_t i = 0; report && i < n; i++) {
		struct sml_ranks ranks = {{0}};

		if (!sml_host_newest(host, i, &use, &missing))
			continue;
		add_job_ranks(host, missing, &ranks);
		sml_waits_note(&report->waits, i, use, &ranks);
	}
	return report;
}

static struct sml_stall_report *look_at_stripe(const struct sml_threads *threads, unsigned stripe)
{
	const struct sml_host *host = &threads->host[stripe];

	return look_at_host(host, known_ranks(host));
}

static void look_at_shard(const struct sml_embedded_stripe *own, unsigned shard,
			  struct sml_stall_report *report)
{
	const struct sml_pool_rules *rules = &own->pool.rules;

	sml_assert(rules->n_ranks >= 1 && rules->n_shards >= 1);
	for (uint32_t slot = shard; slot < report->waits.n_slots; slot += rules->n_shards) {
		const struct sml_slot *newest = sml_pool_newest(&own->pool, slot);
		struct sml_ranks missing = {{0}};

		if (newest == NULL)
			continue;
		/* Such a job has few ranks. */
		for (uint64_t who = sml_pool_all_ranks(rules) & ~newest->seen; who; who &= who - 1)
			missing.words[0] |= own->members[__builtin_ctzll(who)];
		sml_waits_note(&report->waits, slot, newest->use, &missing);
	}
}

static struct sml_stall_report *new_report(const struct sml_embedded_stripe *own)
{
	const struct sml_pool_rules *rules = &own->pool.rules;

	return sml_stall_report_open((uint32_t)rules->head_slots + rules->data_slots,
				     own->n_job_ranks);
}

void sml_question_answer(struct sml_threads *threads, unsigned thread, uint32_t *seen)
{
	struct sml_embedded_stripe *own = threads->own;
	uint32_t number = __atomic_load_n(&own->question.number, __ATOMIC_SEQ_CST);

	if (number == *seen)
		return;
	pthread_mutex_lock(&threads->lock);
	*seen = number;
	if (own->question.report) {
		look_at_shard(own, thread, own->question.report);
		own->question.n_answered++;
		pthread_cond_broadcast(&threads->changed);
	}
	pthread_mutex_unlock(&threads->lock);
}

/* The lock is held. */
static void wait_for_answers(struct sml_threads *threads)
{
	struct timespec until = sml_timespec(sml_now_ns() + ANSWER_NS);
	struct sml_embedded_stripe *own = threads->own;
	int late = 0;

	while (own->question.n_answered < threads->n_threads &&
	       threads->n_stopped < threads->n_threads && !late)
		late = pthread_cond_timedwait(&threads->changed, &threads->lock, &until);
}

/*
 * The lock is held. No thread answers any more: some may have done so before they stopped, and the
 * slots of others are looked at here.
 */
static void note_unanswered(const struct sml_threads *threads, struct sml_stall_report *report)
{
	if (threads->own->question.n_answered == threads->n_threads)
		return;
	if (threads->n_stopped < threads->n_threads) {
		report->waits.is_partial = true;
		return;
	}
	for (unsigned i = 0; i < threads->n_threads; i++)
		look_at_shard(threads->own, i, report);
}

struct sml_stall_report *sml_question_query(struct sml_threads *threads, unsigned stripe)
{
	struct sml_embedded_stripe *own = threads->own;
	struct sml_stall_report *report;

	/* All are on one host, or a switch has what these slots add up. */
	if (own == NULL)
		return threads->host ? look_at_stripe(threads, stripe) : NULL;
	report = new_report(own);
	if (report == NULL)
		return NULL;
	pthread_mutex_lock(&threads->lock);
	/* Another thread asks, too: while the job goes on, and because it has failed. */
	while (own->question.report)
		pthread_cond_wait(&threads->changed, &threads->lock);
	own->question.report = report;
	own->question.n_answered = 0;
	__atomic_add_fetch(&own->question.number, 1, __ATOMIC_SEQ_CST);
	sml_threads_wake(threads);
	wait_for_answers(threads);
	own->question.report = NULL;
	note_unanswered(threads, report);
	pthread_cond_broadcast(&threads->changed);
	pthread_mutex_unlock(&threads->lock);
	return report;
}

/*
 * ours: as the host's memory shows the slot. It becomes what is known of it altogether. group: the
 * ranks of the host.
 */
static void merge(struct sml_waits *ours, const struct sml_waits *told, uint32_t slot,
		  const struct sml_ranks *group)
{
	uint32_t use = told->slots[slot].use;
	struct sml_ranks missing, others;
	bool knows_use;

	if (!sml_waits_knows(told, slot)) {
		/* All ranks are in, and their sum is not there. */
		ours->slots[slot].known &= !sml_waits_is_complete(ours, slot);
		return;
	}
	knows_use = sml_waits_knows(ours, slot) && !sml_serial_before(use, ours->slots[slot].use);
	sml_waits_get(told, slot, &others);
	if (!sml_waits_knows(ours, slot) || sml_waits_is_complete(ours, slot) ||
	    (knows_use && use != ours->slots[slot].use)) {
		sml_waits_note(ours, slot, use, &others);
	} else if (knows_use) {
		sml_waits_get(ours, slot, &missing);
		sml_ranks_subtract(&others, group);
		sml_ranks_unite(&missing, &others);
		sml_waits_note(ours, slot, use, &missing);
	}
}

/* NULL: no memory. */
static struct sml_stall_report *merge_all(const struct sml_host *host,
					  const struct sml_stall_report *told)
{
	struct sml_stall_report *whole = look_at_host(host, told->n_ranks);
	struct sml_ranks group = {{0}};

	add_job_ranks(host, UINT64_MAX, &group);
	for (uint32_t i = 0; whole && i < whole->waits.n_slots && i < told->waits.n_slots; i++)
		merge(&whole->waits, &told->waits, i, &group);
	if (whole)
		whole->waits.is_partial |= told->waits.is_partial;
	return whole;
}

/* NULL: there is nothing to add, or no memory. */
static struct sml_stall_report *look_here(struct sml_threads *threads, unsigned stripe,
					  const struct sml_stall_report *told, bool failed)
{
	const struct sml_host *host = threads->host;

	if (host == NULL)
		return !told && failed && threads->own && stripe == threads->own->rank
			       ? sml_question_query(threads, stripe)
			       : NULL;
	if (host->memory.terms.goes_up && told)
		return merge_all(&host[stripe], told);
	if (host->memory.terms.goes_up ? failed : !told || told->waits.is_partial)
		return look_at_stripe(threads, stripe);
	return NULL;
}

struct sml_stall_report *sml_question_complete(struct sml_threads *threads, unsigned stripe,
					       struct sml_stall_report *told,
					       const struct sml_stall_report *names, bool failed)
{
	struct sml_stall_report *whole = look_here(threads, stripe, told, failed);

	if (whole == NULL)
		return sml_stall_report_hold(told);
	if (told || names)
		sml_stall_report_name(whole, told ? told : names);
	return whole;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/diagnose/diagnose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "lib/progress/progress.h"
#include "lib/transport/interface.h"

/* Ranks that get a line each, and those whose hosts are named in one. */
#define NAMED_RANKS 3
#define NAMED_HOSTS 4
/* From then on, a rank is silent: each of them says something once a second. */
#define SILENT_MS 3000

/* ---- this rank's slots ---- */

static enum sml_stall_cause find_cause(const struct sml_stall_report *report, unsigned own_rank,
				       bool mismatch, struct sml_stalled *stalled)
{
	const struct sml_slot_waits *slot;
	struct sml_ranks missing;

	if (mismatch && stalled->sends > 0)
		return SML_STALL_MISMATCH;
	if (stalled->sends == 0 || report == NULL || stalled->slot >= report->waits.n_slots)
		return SML_STALL_UNKNOWN;
	slot = &report->waits.slots[stalled->slot];
	if (!slot->known && report->waits.is_partial)
		return SML_STALL_UNKNOWN;
	if (!slot->known || sml_serial_before(slot->use, stalled->use))
		return SML_STALL_NOT_ARRIVED;
	if (slot->use != stalled->use || slot->set == 0)
		return SML_STALL_RESULT_LOST;
	sml_waits_get(&report->waits, stalled->slot, &missing);
	if (sml_ranks_has(&missing, own_rank))
		return SML_STALL_NOT_ARRIVED;
	stalled->missing = missing;
	return SML_STALL_RANKS;
}

/* False: no call waits in this slot. */
static bool look_at_slot(const struct sml_stall_cursor *cursor, struct sml_worker *worker,
			 uint16_t slot, struct sml_stalled *stalled)
{
	const struct sml_worker_slot *state = &worker->slots[slot];
	enum sml_stream_id stream = sml_worker_stream_of(worker, slot);
	struct sml_tensor *tensor;
	uint32_t index;

	tensor = sml_worker_find(worker, stream, worker->chunks[slot], &index);
	if (tensor == NULL || sml_tensor_chunk_is_done(tensor, stream, index))
		return false;
	*stalled = (struct sml_stalled){
		.stream = stream,
		.place = (enum sml_slot_queue)state->place,
		.stripe = worker->config.stripe,
		.shard = worker->config.shard,
		/* Other ranks of this host have it. */
		.sends = state->place == SML_GATHERING ? 1 : state->sends,
		.slot = sml_worker_slot_number(worker, slot),
		.use = state->use,
		.chunk = sml_worker_stream_chunk(worker, worker->chunks[slot]),
		.call = tensor->number,
		.lacks_exponents = stream == SML_DATA && state->place == SML_WAITING &&
				   sml_worker_is_blocked(worker),
		.first_sent_ns = state->first_sent_ns,
	};
	stalled->cause = find_cause(cursor->snapshot->reports.of[stalled->stripe],
				    worker->config.shape.rank, cursor->snapshot->mismatch, stalled);
	return true;
}

bool sml_stall_next(struct sml_stall_cursor *cursor, struct sml_stalled *stalled)
{
	const struct sml_snapshot *snapshot = cursor->snapshot;

	for (; cursor->stripe < snapshot->n_stripes; cursor->stripe++, cursor->shard = 0) {
		const struct sml_snapshot_stripe *stripe = &snapshot->stripes[cursor->stripe];

		for (; cursor->shard < stripe->n_shards; cursor->shard++, cursor->slot = 0) {
			struct sml_worker *worker = &stripe->shards[cursor->shard]->worker;

			while (cursor->slot < worker->n_slots)
				if (look_at_slot(cursor, worker, cursor->slot++, stalled))
					return true;
		}
	}
	return false;
}

/* ---- and all of them together ---- */

/* Packets of this rank, and results, that are lost on the way to a stripe and back. */
struct losses {
	uint32_t n_not_arrived, n_result_lost;
};

struct summary {
	uint32_t n_sent, n_blocked, n_mismatched;
	uint32_t n_queued; /* calls that no slot serves yet */
	struct losses losses[SML_MAX_STRIPES];
	struct sml_stalled first; /* of the chunks that were sent: the oldest */
	bool broken;
};

static uint32_t count_queued(struct sml_progress *thread)
{
	uint32_t n = 0;

	pthread_mutex_lock(&thread->queue_lock);
	for (const struct sml_request *r = thread->queue_first; r; r = r->queued[thread->index])
		n++;
	pthread_mutex_unlock(&thread->queue_lock);
	return n;
}

static bool is_any_broken(const struct sml_snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->n_stripes; i++)
		for (unsigned s = 0; s < snapshot->stripes[i].n_shards; s++)
			if (sml_worker_is_broken(&snapshot->stripes[i].shards[s]->worker))
				return true;
	return false;
}

static void summarize(const struct sml_snapshot *snapshot, struct summary *summary)
{
	struct sml_stall_cursor cursor = {.snapshot = snapshot};
	struct sml_stalled stalled;

	*summary = (struct summary){0};
	while (sml_stall_next(&cursor, &stalled)) {
		struct losses *losses = &summary->losses[stalled.stripe];

		summary->n_blocked += stalled.lacks_exponents;
		if (stalled.sends == 0)
			continue;
		if (summary->n_sent++ == 0 || stalled.first_sent_ns < summary->first.first_sent_ns)
			summary->first = stalled;
		summary->n_mismatched += stalled.cause == SML_STALL_MISMATCH;
		losses->n_not_arrived += stalled.cause == SML_STALL_NOT_ARRIVED;
		losses->n_result_lost += stalled.cause == SML_STALL_RESULT_LOST;
	}
	summary->broken = is_any_broken(snapshot);
	if (snapshot->threads->n_threads > 0)
		summary->n_queued = count_queued(snapshot->threads->threads[0]);
}

/* ---- which ranks are late ---- */

void sml_stall_gather(const struct sml_stall_reports *reports, unsigned n_ranks,
		      struct sml_stall_lacking *lacking)
{
	*lacking = (struct sml_stall_lacking){.n_ranks = n_ranks};
	for (unsigned i = 0; i < SML_MAX_STRIPES; i++) {
		const struct sml_stall_report *report = reports->of[i];

		if (report)
			lacking->n_slots += sml_waits_count(&report->waits, lacking->n_missing);
		for (unsigned rank = 0; report && rank < report->n_ranks; rank++)
			if (lacking->about[rank] == NULL || report->ranks[rank].host[0])
				lacking->about[rank] = &report->ranks[rank];
	}
}

static bool is_silent(const struct sml_stall_rank *about)
{
	return about && about->heard && about->last_heard_ms >= SILENT_MS;
}

/*
 * A rank that waits as this one does may not have made later calls that another rank has made. So
 * the ranks that all slots wait for are the late ones, if there are any. If no slot waits, a rank
 * that has stopped may have to pass the results on.
 */
void sml_stall_find_late(const struct sml_stall_lacking *lacking, unsigned own_rank,
			 struct sml_ranks *late)
{
	uint32_t least = 1;

	*late = (struct sml_ranks){{0}};
	for (unsigned rank = 0; rank < lacking->n_ranks; rank++)
		if (lacking->n_missing[rank] == lacking->n_slots)
			least = lacking->n_slots;
	for (unsigned rank = 0; rank < lacking->n_ranks; rank++)
		if (lacking->n_slots > 0 ? lacking->n_missing[rank] >= least
					 : is_silent(lacking->about[rank]))
			sml_ranks_add(late, rank);
	sml_ranks_remove(late, own_rank);
}

static size_t name_host(const struct sml_stall_rank *about, bool first, char *text, size_t bytes)
{
	char silent[48] = "";

	if (is_silent(about))
		snprintf(silent, sizeof(silent), ", not heard for %" PRIu64 " s",
			 about->last_heard_ms / 1000);
	return (size_t)snprintf(text, bytes, "%s%.63s, pid %" PRIu32 "%s", first ? " (" : "; ",
				about->host, about->pid, silent);
}

void sml_stall_name_hosts(const struct sml_stall_lacking *lacking, const struct sml_ranks *late,
			  char text[SML_STALL_HOSTS_BYTES])
{
	size_t length = 0;
	unsigned n = 0;

	text[0] = '\0';
	for (unsigned rank = sml_ranks_next(late, 0); rank < lacking->n_ranks && n <= NAMED_HOSTS;
	     rank = sml_ranks_next(late, rank + 1)) {
		const struct sml_stall_rank *about = lacking->about[rank];

		if (about && about->heard && about->host[0] && n++ < NAMED_HOSTS)
			length += name_host(about, n == 1, text + length,
					    SML_STALL_HOSTS_BYTES - length);
	}
	if (n > 0)
		snprintf(text + length, SML_STALL_HOSTS_BYTES - length, "%s)",
			 n > NAMED_HOSTS ? "; ..." : "");
}

/* ---- in words ---- */

/* The place of the next line; if there is no room, the last line is overwritten. */
static char *next_line(struct sml_stall_lines *lines)
{
	const unsigned most = sizeof(lines->text) / sizeof(lines->text[0]);

	return lines->text[lines->n < most ? lines->n++ : most - 1];
}

/* What a report says of a rank that has not contributed: what counted that is a report. */
static const struct sml_stall_rank *about_of(const struct sml_stall_lacking *lacking, unsigned rank)
{
	sml_assert(lacking->about[rank] != NULL);
	return lacking->about[rank];
}

static void describe_rank(const struct sml_stall_lacking *lacking, unsigned rank,
			  struct sml_stall_lines *lines)
{
	const struct sml_stall_rank *about = about_of(lacking, rank);
	uint32_t n = lacking->n_missing[rank];
	char who[160] = "", heard[64] = "";

	if (about->host[0])
		snprintf(who, sizeof(who), " (host %.100s, pid %" PRIu32 ")", about->host,
			 about->pid);
	if (about->heard)
		snprintf(heard, sizeof(heard), "%slast heard %.1f s ago",
			 about->connected ? "; " : ", ", (double)about->last_heard_ms / 1e3);
	snprintf(next_line(lines), SML_STALL_LINE_BYTES,
		 "rank %u%s has not contributed to %" PRIu32 " slot%s%s%s", rank, who, n,
		 sml_plural(n),
		 about->host[0] && !about->connected ? "; its connection has ended" : "", heard);
}

/* Does the job wait for a rank that is gone? Then the others need no excuse. */
static bool is_any_gone(const struct sml_stall_lacking *lacking)
{
	for (unsigned rank = 0; rank < lacking->n_ranks; rank++)
		if (lacking->n_missing[rank] > 0 && about_of(lacking, rank)->host[0] &&
		    !about_of(lacking, rank)->connected)
			return true;
	return false;
}

/* Of these ranks, the one that most slots wait for; it is none of them any more. */
static unsigned take_worst(const struct sml_stall_lacking *lacking, struct sml_ranks *ranks)
{
	unsigned worst = sml_ranks_next(ranks, 0);

	for (unsigned rank = worst; rank < SML_MAX_WORLD; rank = sml_ranks_next(ranks, rank + 1))
		if (lacking->n_missing[rank] > lacking->n_missing[worst])
			worst = rank;
	sml_ranks_remove(ranks, worst);
	return worst;
}

/*
 * The ranks that most slots wait for, of those that are gone if any is; other lines describe this
 * rank itself.
 */
static void describe_ranks(const struct sml_stall_lacking *lacking, unsigned own_rank,
			   struct sml_stall_lines *lines)
{
	bool only_gone = is_any_gone(lacking);
	struct sml_ranks to_tell = {{0}};
	unsigned n_ranks;

	for (unsigned rank = 0; rank < lacking->n_ranks; rank++)
		if (rank != own_rank && lacking->n_missing[rank] > 0 &&
		    !(only_gone && about_of(lacking, rank)->connected))
			sml_ranks_add(&to_tell, rank);
	n_ranks = sml_ranks_count(&to_tell);
	for (unsigned i = 0; i < n_ranks && i < NAMED_RANKS; i++)
		describe_rank(lacking, take_worst(lacking, &to_tell), lines);
	if (n_ranks > NAMED_RANKS)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "%u more ranks have not contributed either", n_ranks - NAMED_RANKS);
}

/* "the switch", or, if there are several, "stripe 1 (10.0.0.2:28500)". */
static void name_switch(const struct sml_snapshot *snapshot, unsigned stripe, char *name,
			size_t bytes)
{
	if (snapshot->n_stripes == 1)
		snprintf(name, bytes, "the switch");
	else
		snprintf(name, bytes, "stripe %u (%.80s)", stripe, snapshot->stripes[stripe].name);
}

void sml_stall_narrow_text(struct sml_shard *const *shards, unsigned n_shards,
			   char text[SML_NARROW_BYTES])
{
	uint32_t narrow = 0;

	for (unsigned i = 0; i < n_shards && narrow == 0; i++)
		narrow = __atomic_load_n(&shards[i]->renewal.narrow, __ATOMIC_RELAXED);
	text[0] = '\0';
	if (narrow > 0)
		snprintf(text, SML_NARROW_BYTES,
			 "; those of %" PRIu32 " bytes pass, and full ones of %" PRIu32
			 " do not: the path's MTU has become smaller: restore it, or set "
			 "SWITCHML_MTU=%" PRIu32 " on all ranks",
			 narrow,
			 (uint32_t)SML_HEADER_BYTES + 4u * shards[0]->worker.config.shape.lanes,
			 narrow + SML_HEADERS_MOST);
}

static void describe_paths(const struct sml_snapshot *snapshot, const struct summary *summary,
			   struct sml_stall_lines *lines)
{
	char name[128], narrow[SML_NARROW_BYTES];

	for (unsigned i = 0; i < snapshot->n_stripes; i++) {
		const struct losses *losses = &summary->losses[i];

		name_switch(snapshot, i, name, sizeof(name));
		sml_stall_narrow_text(snapshot->stripes[i].shards, snapshot->stripes[i].n_shards,
				      narrow);
		if (narrow[0] != '\0')
			snprintf(next_line(lines), SML_STALL_LINE_BYTES,
				 "packets are lost between this rank and %.38s%s", name, narrow);
		if (losses->n_not_arrived > 0)
			snprintf(next_line(lines), SML_STALL_LINE_BYTES,
				 "%" PRIu32 " packet%s of this rank did not reach %s, of %" PRIu32
				 " that await an answer",
				 losses->n_not_arrived, sml_plural(losses->n_not_arrived), name,
				 summary->n_sent);
		if (losses->n_result_lost > 0)
			snprintf(next_line(lines), SML_STALL_LINE_BYTES,
				 "%" PRIu32 " result%s from %s did not reach this rank",
				 losses->n_result_lost, sml_plural(losses->n_result_lost), name);
	}
}

static void describe_own(const struct summary *summary, struct sml_stall_lines *lines)
{
	const struct sml_stalled *first = &summary->first;

	if (summary->n_mismatched > 0)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "%" PRIu32 " packet%s of this rank got no result, because other ranks "
			 "made another call",
			 summary->n_mismatched, sml_plural(summary->n_mismatched));
	if (summary->broken)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "this rank gave up: the switch broke the protocol (it gave out a chunk "
			 "twice)");
	if (summary->n_sent > 0)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "this rank is waiting for %" PRIu32
			 " result%s, first for one of call %" PRIu32 ", sent %u time%s in %.1f s",
			 summary->n_sent, sml_plural(summary->n_sent), first->call, first->sends,
			 sml_plural(first->sends),
			 (double)(sml_now_ns() - first->first_sent_ns) / 1e9);
	else if (summary->n_blocked > 0)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "%" PRIu32 " slots are waiting for exponents, and nothing was sent",
			 summary->n_blocked);
	if (summary->n_queued > 0)
		snprintf(next_line(lines), SML_STALL_LINE_BYTES,
			 "%" PRIu32 " call%s of this rank had not started", summary->n_queued,
			 sml_plural(summary->n_queued));
}

void sml_stall_describe(struct sml_snapshot *snapshot)
{
	struct sml_stall_lacking lacking;
	struct summary summary;

	summarize(snapshot, &summary);
	sml_stall_gather(&snapshot->reports, snapshot->settings->world_size, &lacking);
	/* Ranks lack in slots because others made other calls. */
	if (!snapshot->mismatch)
		describe_ranks(&lacking, snapshot->settings->rank, &snapshot->lines);
	describe_paths(snapshot, &summary, &snapshot->lines);
	describe_own(&summary, &snapshot->lines);
}

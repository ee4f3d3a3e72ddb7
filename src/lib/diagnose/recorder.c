/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/diagnose/diagnose.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/thread.h"
#include "lib/progress/progress.h"

/* ---- the whole record ---- */

static double ms_since(uint64_t then_ns, uint64_t now_ns)
{
	return then_ns < now_ns ? (double)(now_ns - then_ns) / 1e6 : 0;
}

static void write_switches(FILE *out, const struct sml_snapshot *snapshot)
{
	for (unsigned i = 0; i < snapshot->n_stripes; i++) {
		const struct sml_snapshot_stripe *stripe = &snapshot->stripes[i];

		fprintf(out, "switch  %s, epoch %" PRIu32, stripe->name, stripe->epoch);
		if (snapshot->n_stripes > 1)
			fprintf(out, ", stripe %u of %u", i, snapshot->n_stripes);
		putc('\n', out);
	}
}

static void write_head(FILE *out, const struct sml_recorder *recorder)
{
	const struct sml_settings *settings = recorder->snapshot.settings;
	char host[256] = "?", when[32] = "?";
	struct timespec now;
	struct tm utc;

	gethostname(host, sizeof(host) - 1);
	clock_gettime(CLOCK_REALTIME, &now);
	if (gmtime_r(&now.tv_sec, &utc))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &utc);
	fprintf(out, "SwitchML flight record 1\n");
	fprintf(out, "time    %s.%03ldZ\n", when, now.tv_nsec / 1000000);
	fprintf(out, "rank    %u of %u, host %s, pid %d\n", settings->rank, settings->world_size,
		host, (int)getpid());
	fprintf(out, "job     %s\n", settings->config.job);
	write_switches(out, &recorder->snapshot);
	fprintf(out, "error   %d %s\n", recorder->error, sml_strerror(recorder->error));
	fprintf(out, "text    %s\n", recorder->text);
	fprintf(out, "report  %s%s\n",
		recorder->snapshot.reports.complete ? "of the switch"
		: recorder->snapshot.reports.any    ? "of some stripes: "
						    : "",
		recorder->snapshot.reports.complete ? "" : recorder->snapshot.reports.why);
}

static void write_ranks(FILE *out, const struct sml_recorder *recorder)
{
	struct sml_stall_lacking lacking;

	sml_stall_gather(&recorder->snapshot.reports, recorder->snapshot.settings->world_size,
			 &lacking);
	if (lacking.about[0] == NULL)
		return;
	fprintf(out, "\nranks, and for how many slots the job waits for each\n"
		     "rank slots connected heard_ms_ago        pid host\n");
	for (unsigned rank = 0; rank < lacking.n_ranks; rank++) {
		const struct sml_stall_rank *about = lacking.about[rank];
		char heard[24] = "?";

		/* Of many ranks, the switch tells of those that matter. */
		if (about == NULL || (lacking.n_ranks > SML_MAX_CHILDREN && !about->heard &&
				      lacking.n_missing[rank] == 0))
			continue;
		if (about->heard)
			snprintf(heard, sizeof(heard), "%" PRIu64, about->last_heard_ms);
		fprintf(out, "%4u %5" PRIu32 " %9s %12s %10" PRIu32 " %s\n", rank,
			lacking.n_missing[rank], about->connected ? "yes" : "no", heard, about->pid,
			about->host);
	}
}

/* The ranks of a slot that are named. */
#define NAMED_RANKS 64

/* "1,3": at most 64 of them; "1,3,+7": there are 7 more. */
static void write_rank_list(FILE *out, const struct sml_ranks *ranks)
{
	unsigned n = sml_ranks_count(ranks), rank = sml_ranks_next(ranks, 0), i;

	for (i = 0; i < n && i < NAMED_RANKS; i++) {
		fprintf(out, "%s%u", i ? "," : "", rank);
		rank = sml_ranks_next(ranks, rank + 1);
	}
	if (i < n)
		fprintf(out, ",+%u", n - i);
}

static const char *name_of_place(enum sml_slot_queue place)
{
	switch (place) {
	case SML_WAITING:
		return "waiting";
	case SML_GATHERING:
	case SML_IN_FLIGHT:
		return "sent";
	case SML_LOST:
		return "lost";
	}
	return "?";
}

static const char *name_of_cause(enum sml_stall_cause cause)
{
	switch (cause) {
	case SML_STALL_UNKNOWN:
		break;
	case SML_STALL_RANKS:
		return "ranks ";
	case SML_STALL_NOT_ARRIVED:
		return "packet-lost";
	case SML_STALL_RESULT_LOST:
		return "result-lost";
	case SML_STALL_MISMATCH:
		return "mismatch";
	}
	return "?";
}

static void write_slot(FILE *out, const struct sml_stalled *stalled, uint64_t now_ns)
{
	fprintf(out, "%6u %5u %6s %5u %10" PRIu32 " %10" PRIu32 " %10" PRIu32 " %7s",
		stalled->stripe, stalled->shard, stalled->stream == SML_HEAD ? "head" : "data",
		stalled->slot, stalled->use, stalled->chunk, stalled->call,
		name_of_place(stalled->place));
	if (stalled->sends == 0) {
		/* Its turn, or its exponents, have not come. */
		fprintf(out, " %10s %6s %s\n", "-", "-",
			stalled->lacks_exponents ? "exponents" : "window");
		return;
	}
	fprintf(out, " %10.1f %6u %s", ms_since(stalled->first_sent_ns, now_ns),
		stalled->sends - 1u, name_of_cause(stalled->cause));
	write_rank_list(out, &stalled->missing);
	putc('\n', out);
}

static void write_slots(FILE *out, const struct sml_recorder *recorder)
{
	struct sml_stall_cursor cursor = {.snapshot = &recorder->snapshot};
	uint64_t now_ns = sml_now_ns();
	struct sml_stalled stalled;

	fprintf(out, "\nslots of this rank that are not done\n"
		     "stripe shard stream  slot        use      chunk       call   place    "
		     "ms_since resent waits_for\n");
	while (sml_stall_next(&cursor, &stalled))
		write_slot(out, &stalled, now_ns);
}

static void write_job_slots(FILE *out, const struct sml_stall_report *report, unsigned stripe)
{
	if (report == NULL)
		return;
	fprintf(out, "\nslots of stripe %u with missing ranks\n slot        use ranks\n", stripe);
	for (uint32_t i = 0; i < report->waits.n_slots; i++) {
		struct sml_ranks missing;

		sml_waits_get(&report->waits, i, &missing);
		if (sml_ranks_is_empty(&missing))
			continue;
		fprintf(out, "%5" PRIu32 " %10" PRIu32 " ", i, report->waits.slots[i].use);
		write_rank_list(out, &missing);
		putc('\n', out);
	}
}

static void write_call(FILE *out, const struct sml_snapshot *snapshot,
		       const struct sml_tensor *tensor)
{
	char call[160];

	if (sml_tensor_is_done(tensor))
		return;
	sml_history_text(snapshot->history, SML_HEAD, tensor->window[SML_HEAD].first, call,
			 sizeof(call));
	fprintf(out, "%11" PRIu32 " %s\n", tensor->left, call);
}

static void write_calls(FILE *out, const struct sml_snapshot *snapshot)
{
	struct sml_progress *thread = snapshot->threads->threads[0];
	const struct sml_worker *worker = &snapshot->stripes[0].shards[0]->worker;

	fprintf(out, "\ncalls that have not ended\nchunks_left call\n");
	pthread_mutex_lock(snapshot->history_lock);
	for (uint32_t i = worker->oldest; i != worker->newest; i++)
		write_call(out, snapshot, worker->tensors[i % SML_WORKER_TENSORS]);
	for (const struct sml_request *r = thread->queue_first; r; r = r->queued[thread->index])
		write_call(out, snapshot, &r->tensor);
	pthread_mutex_unlock(snapshot->history_lock);
}

static void write_record(FILE *out, void *self)
{
	const struct sml_recorder *recorder = self;
	const struct sml_snapshot *snapshot = &recorder->snapshot;

	write_head(out, recorder);
	write_ranks(out, recorder);
	write_calls(out, snapshot);
	write_slots(out, recorder);
	for (unsigned i = 0; i < snapshot->n_stripes; i++)
		write_job_slots(out, snapshot->reports.of[i], i);
	fprintf(out, "\nend of record\n\n");
}

/* ---- when ---- */

static void log_record(const struct sml_settings *settings, int error)
{
	if (error)
		sml_log(&settings->log, SML_LOG_WARN,
			"the flight record cannot be written to %s, which must be a regular file "
			"and not a link: %s",
			settings->files[SML_RECORD_FAILURE], strerrordesc_np(-error));
	else
		sml_log(&settings->log, SML_LOG_WARN, "the flight record is in %s",
			settings->files[SML_RECORD_FAILURE]);
}

static void *record_main(void *self)
{
	struct sml_recorder *recorder = self;
	const struct sml_settings *settings = recorder->snapshot.settings;
	size_t n;
	char *bytes = sml_file_compose(write_record, recorder, &n);

	log_record(settings, bytes ? sml_file_append(settings->files[SML_RECORD_FAILURE], bytes, n)
				   : -ENOMEM);
	free(bytes);
	pthread_mutex_lock(&recorder->lock);
	recorder->done = true;
	pthread_cond_broadcast(&recorder->changed);
	pthread_mutex_unlock(&recorder->lock);
	return NULL;
}

static void record_in_file(struct sml_recorder *recorder)
{
	struct timespec until = sml_timespec(sml_now_ns() + SML_RECORD_NS);
	int error, late = 0;

	error = sml_thread_start(&recorder->thread, "sml-recorder", record_main, recorder);
	if (error) {
		log_record(recorder->snapshot.settings, error);
		return;
	}
	pthread_mutex_lock(&recorder->lock);
	recorder->started = true;
	while (!recorder->done && !late)
		late = pthread_cond_timedwait(&recorder->changed, &recorder->lock, &until);
	pthread_mutex_unlock(&recorder->lock);
}

void sml_recorder_record(struct sml_recorder *recorder, const struct sml_snapshot *snapshot,
			 int error, const char *text)
{
	const struct sml_log *log = &snapshot->settings->log;
	const struct sml_stall_lines *lines = &snapshot->lines;

	recorder->snapshot = *snapshot;
	/* The job failed while no call was in progress: there is nothing to explain. */
	if (lines->n == 0)
		return;
	/* Do not repeat lines that the text already has. */
	for (unsigned i = 0; i < lines->n; i++)
		if (!strstr(text, lines->text[i]))
			sml_log(log, SML_LOG_WARN, "at the failure: %s", lines->text[i]);
	if (!snapshot->reports.complete && !strstr(text, snapshot->reports.why))
		sml_log(log, SML_LOG_WARN,
			"at the failure: it is not known which ranks are missing: %s",
			snapshot->reports.why);
	if (snapshot->settings->files[SML_RECORD_FAILURE] == NULL)
		return;
	recorder->error = error;
	recorder->text = text;
	record_in_file(recorder);
}

void sml_recorder_init(struct sml_recorder *recorder)
{
	*recorder = (struct sml_recorder){.started = false};
	pthread_mutex_init(&recorder->lock, NULL);
	sml_cond_init(&recorder->changed);
}

void sml_recorder_fini(struct sml_recorder *recorder)
{
	if (recorder->started)
		pthread_join(recorder->thread, NULL);
	sml_stall_reports_close(&recorder->snapshot.reports);
	pthread_cond_destroy(&recorder->changed);
	pthread_mutex_destroy(&recorder->lock);
}

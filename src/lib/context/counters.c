/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a context: sums and maxima over the shards of its stripes, for the program and
 * for the file of SWITCHML_RECORD=metrics.
 */
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sized.h"
#include "base/thread.h"
#include "control/text.h"
#include "lib/context/context.h"

#define PERIOD_NS (5 * SML_NS_PER_SEC)

#define MEMBER(member, ...)                                                                        \
	{                                                                                          \
		offsetof(struct sml_counters, member), __VA_ARGS__                                 \
	}

/* How values of shards, stripes and memberships become one. A gauge has no past. */
enum kind { SUM, SUM_OF_GAUGES, LARGEST_NS };

/*
 * The members, and what they are in the file: without a name, nothing. Series with the same name
 * stand together: those after the first need no help.
 */
static const struct member {
	size_t offset;
	enum kind kind;
	const char *name, *labels, *help;
} members[] = {
	MEMBER(tensors, SUM, "switchml_worker_calls_total", "",
	       "Collective calls that have ended."),
	MEMBER(packets_sent, SUM, "switchml_worker_sent_packets_total", "", "Packets sent."),
	MEMBER(packets_received, SUM, "switchml_worker_received_packets_total", "",
	       "Packets received."),
	MEMBER(bytes_sent, SUM, "switchml_worker_sent_bytes_total", "", "UDP payload sent."),
	MEMBER(bytes_received, SUM, "switchml_worker_received_bytes_total", "",
	       "UDP payload received."),
	MEMBER(retransmits_timeout, SUM, "switchml_worker_retransmitted_packets_total",
	       ",cause=\"timeout\"",
	       "Packets sent again: the timer fired, or later packets were answered."),
	MEMBER(retransmits_fast, SUM, "switchml_worker_retransmitted_packets_total",
	       ",cause=\"overtaken\"", NULL),
	MEMBER(packets_ignored, SUM, "switchml_worker_ignored_packets_total", "",
	       "Packets received that were stale, duplicates or foreign."),
	MEMBER(stalls, SUM, "switchml_worker_stalls_total", "",
	       "Times that nothing arrived for a whole timeout."),
	MEMBER(send_blocked, SUM, "switchml_worker_blocked_sends_total", "",
	       "Times that the socket was full."),
	MEMBER(rtt_ns, LARGEST_NS, "switchml_worker_rtt_seconds", "", "Smoothed round-trip time."),
	MEMBER(rtt_min_ns, LARGEST_NS, NULL, NULL, NULL),
	MEMBER(window, SUM_OF_GAUGES, "switchml_worker_window_packets", "",
	       "Packets allowed in flight."),
};

#define N_MEMBERS (sizeof(members) / sizeof(members[0]))

static void combine(const struct sml_stripe *stripe, size_t offset, bool largest, uint64_t *result)
{
	for (unsigned i = 0; i < stripe->n_shards; i++) {
		const char *of_shard = (const char *)&stripe->shards[i]->counters;
		uint64_t value = __atomic_load_n(
			(const uint64_t *)(const void *)(of_shard + offset), __ATOMIC_RELAXED);

		if (!largest)
			*result += value;
		else if (value > *result)
			*result = value;
	}
}

static uint64_t *member_of(struct sml_counters *counters, size_t offset)
{
	return (uint64_t *)(void *)((char *)counters + offset);
}

/* Of the stripes [first, end). */
static void fill_counters(const struct sml_context *context, unsigned first, unsigned end,
			  struct sml_counters *counters)
{
	for (size_t i = 0; i < N_MEMBERS; i++) {
		uint64_t *value = member_of(counters, members[i].offset);

		*value = 0;
		for (unsigned s = first; s < end; s++)
			combine(&context->stripes[s], members[i].offset,
				members[i].kind == LARGEST_NS, value);
	}
}

void sml_context_count(const struct sml_context *context, struct sml_counters *counters)
{
	fill_counters(context, 0, context->n_stripes, counters);
}

void sml_context_count_stripe(const struct sml_context *context, unsigned stripe,
			      struct sml_counters *counters)
{
	fill_counters(context, stripe, stripe + 1, counters);
}

static void add_before(const struct sml_context *context, struct sml_counters *counters)
{
	struct sml_counters before = context->before;

	for (size_t i = 0; i < N_MEMBERS; i++) {
		uint64_t *value = member_of(counters, members[i].offset);

		if (members[i].kind == SUM)
			*value += *member_of(&before, members[i].offset);
	}
}

void sml_context_keep_counters(struct sml_context *context)
{
	struct sml_counters counters = {.size = sizeof(counters)};

	sml_context_count(context, &counters);
	add_before(context, &counters);
	context->before = counters;
}

static int give(struct sml_counters *counters, const struct sml_counters *own)
{
	static const struct sml_sized kind = {sizeof(*own), "struct sml_counters",
					      "begin with SML_COUNTERS_INIT", -EINVAL};

	return sml_sized_write(&kind, counters, own);
}

static int check_stripe(const struct sml_context *context, int stripe)
{
	if (stripe >= 0 && (unsigned)stripe < context->n_stripes)
		return 0;
	if (context->n_stripes == 0)
		return sml_error_set(-EINVAL, "this context has no job, and so no stripes");
	return sml_error_set(-EINVAL, "stripe %d does not exist: this job's stripes are 0 to %u",
			     stripe, context->n_stripes - 1);
}

int sml_get_counters(const struct sml_context *context, int stripe, struct sml_counters *counters,
		     const char **name)
{
	struct sml_counters own;
	int error;

	if (context == NULL)
		return sml_error_set(-EINVAL, "the context is NULL");
	error = sml_context_begin_reading(context);
	if (error)
		return error;
	error = stripe == -1 ? 0 : check_stripe(context, stripe);
	if (error == 0) {
		if (stripe == -1) {
			sml_context_count(context, &own);
			add_before(context, &own);
		} else {
			sml_context_count_stripe(context, (unsigned)stripe, &own);
		}
		error = give(counters, &own);
		if (name)
			*name = stripe == -1 ? NULL : sml_stripe_name(&context->stripes[stripe]);
	}
	sml_context_end_reading(context);
	return error;
}

/* ---- what is in the file ---- */

static void write_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* is_ns: it is written in seconds. */
static void write_value(FILE *out, const struct sml_settings *settings, const char *name,
			const char *labels, bool is_ns, uint64_t value)
{
	fprintf(out, "%s{", name);
	sml_text_write_label(out, "job_name", settings->config.job);
	fprintf(out, ",rank=\"%u\"%s} ", settings->rank, labels);
	if (is_ns)
		fprintf(out, "%.9f\n", (double)value / 1e9);
	else
		fprintf(out, "%" PRIu64 "\n", value);
}

static void write_counters(FILE *out, const struct sml_context *context)
{
	struct sml_counters counters = {.size = sizeof(counters)};

	sml_context_count(context, &counters);
	for (const struct member *member = members; member < members + N_MEMBERS; member++) {
		if (member->help)
			write_head(out, member->name, member->kind == SUM ? "counter" : "gauge",
				   member->help);
		if (member->name)
			write_value(out, &context->settings, member->name, member->labels,
				    member->kind == LARGEST_NS,
				    *member_of(&counters, member->offset));
	}
	write_head(out, "switchml_worker_busy_seconds_total", "counter",
		   "Time for which any collective call was under way.");
	write_value(out, &context->settings, "switchml_worker_busy_seconds_total", "", true,
		    sml_usage_busy_ns(&context->usage, sml_now_ns()));
}

/* Each bucket has those before it, too. */
static void write_times(FILE *out, struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	const struct sml_call_times *times = &context->requests.times;
	uint64_t n[SML_CALL_TIMES + 1], sum = 0;
	char le[64];

	write_head(out, "switchml_worker_call_seconds", "histogram",
		   "Time of a collective call, until it and those before it had ended.");
	for (unsigned i = 0; i <= SML_CALL_TIMES; i++)
		n[i] = __atomic_load_n(&times->n[i], __ATOMIC_RELAXED);
	for (unsigned i = 0; i <= SML_CALL_TIMES; i++) {
		snprintf(le, sizeof(le), ",le=\"%.9g\"", (double)SML_CALL_TIME_NS(i) / 1e9);
		if (i == SML_CALL_TIMES)
			snprintf(le, sizeof(le), ",le=\"+Inf\"");
		write_value(out, settings, "switchml_worker_call_seconds_bucket", le, false,
			    sum += n[i]);
	}
	write_value(out, settings, "switchml_worker_call_seconds_count", "", false, sum);
	write_value(out, settings, "switchml_worker_call_seconds_sum", "", true,
		    __atomic_load_n(&times->ns, __ATOMIC_RELAXED));
}

static void write_metrics(FILE *out, void *self)
{
	write_counters(out, self);
	write_times(out, self);
}

/* 0 or -errno. */
static int write_file(struct sml_context *context)
{
	size_t n;
	char *bytes = sml_file_compose(write_metrics, context, &n);
	int rc = bytes ? sml_file_replace(context->metrics_file.path, bytes, n) : -ENOMEM;

	free(bytes);
	return rc;
}

/* ---- when it is written ---- */

/* True: the thread must end. */
static bool wait_a_period(struct sml_metrics_file *file)
{
	const struct timespec until = sml_timespec(sml_now_ns() + PERIOD_NS);
	bool stops;
	int rc = 0;

	pthread_mutex_lock(&file->lock);
	while (!file->stops && rc == 0)
		rc = pthread_cond_timedwait(&file->changed, &file->lock, &until);
	stops = file->stops;
	pthread_mutex_unlock(&file->lock);
	return stops;
}

static void *write_until_stopped(void *argument)
{
	struct sml_context *context = argument;
	struct sml_metrics_file *file = &context->metrics_file;
	/* The application's locale may have other numbers. */
	locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
	int last = 0, rc;

	if (plain)
		uselocale(plain);
	do {
		rc = write_file(context);
		/* Once, until it works again. */
		if (rc != 0 && rc != last)
			sml_log(&context->settings.log, SML_LOG_WARN,
				"the metrics cannot be written to %s (SWITCHML_RECORD): %s",
				file->path, strerrordesc_np(-rc));
		last = rc;
	} while (!wait_a_period(file));
	(void)unlink(file->path);
	if (plain) {
		uselocale(LC_GLOBAL_LOCALE);
		freelocale(plain);
	}
	return NULL;
}

void sml_metrics_file_init(struct sml_metrics_file *file)
{
	pthread_mutex_init(&file->lock, NULL);
	sml_cond_init(&file->changed);
}

int sml_metrics_file_start(struct sml_context *context)
{
	struct sml_metrics_file *file = &context->metrics_file;
	static unsigned n_contexts;
	int rc;

	if (context->settings.files[SML_RECORD_METRICS] == NULL)
		return 0;
	if (file->number == 0)
		file->number = __atomic_add_fetch(&n_contexts, 1, __ATOMIC_RELAXED);
	file->path =
		sml_path_of_nth(context->settings.files[SML_RECORD_METRICS], file->number, ".prom");
	if (file->path == NULL)
		return sml_error_set(-ENOMEM, "no memory for the metrics' file");
	__atomic_store_n(&context->requests.times.wanted, true, __ATOMIC_RELAXED);
	rc = sml_thread_start(&file->thread, "sml-metrics", write_until_stopped, context);
	if (rc < 0)
		return sml_error_set(rc, "the metrics' thread cannot be started: %s",
				     strerrordesc_np(-rc));
	file->runs = true;
	return 0;
}

void sml_metrics_file_stop(struct sml_metrics_file *file)
{
	pthread_mutex_lock(&file->lock);
	file->stops = true;
	pthread_cond_signal(&file->changed);
	pthread_mutex_unlock(&file->lock);
	if (file->runs)
		pthread_join(file->thread, NULL);
	file->runs = file->stops = false;
	free(file->path);
	file->path = NULL;
}

void sml_metrics_file_fini(struct sml_metrics_file *file)
{
	pthread_cond_destroy(&file->changed);
	pthread_mutex_destroy(&file->lock);
}

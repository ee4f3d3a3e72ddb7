/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/context.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "control/text.h"

#define PERIOD_NS (5 * SML_NS_PER_SEC)

/* ---- what is in it ---- */

struct series {
	const char *name, *type, *labels, *help;
	uint64_t value;
	bool is_ns; /* written in seconds */
};

static void write_one(FILE *out, const struct sml_settings *settings, const struct series *series)
{
	/* Two series with the same name stand together: the second needs no head. */
	if (series->help != NULL)
		fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", series->name, series->help,
			series->name, series->type);
	fprintf(out, "%s{", series->name);
	sml_text_write_label(out, "job_name", settings->config.job);
	fprintf(out, ",rank=\"%u\"%s} ", settings->rank, series->labels);
	if (series->is_ns)
		fprintf(out, "%.9f\n", (double)series->value / 1e9);
	else
		fprintf(out, "%" PRIu64 "\n", series->value);
}

static void write_series(FILE *out, const struct sml_context *context)
{
	struct sml_counters c = {.size = sizeof(c)};

	sml_context_count(context, &c);
	const uint64_t busy_ns = sml_usage_busy_ns(&context->usage, sml_now_ns());
	const struct series all[] = {
		{"switchml_worker_calls_total", "counter", "", "Collective calls that have ended.",
		 c.tensors, false},
		{"switchml_worker_busy_seconds_total", "counter", "",
		 "Time for which any collective call was under way.", busy_ns, true},
		{"switchml_worker_sent_packets_total", "counter", "", "Packets sent.",
		 c.packets_sent, false},
		{"switchml_worker_received_packets_total", "counter", "", "Packets received.",
		 c.packets_received, false},
		{"switchml_worker_sent_bytes_total", "counter", "", "UDP payload sent.",
		 c.bytes_sent, false},
		{"switchml_worker_received_bytes_total", "counter", "", "UDP payload received.",
		 c.bytes_received, false},
		{"switchml_worker_retransmitted_packets_total", "counter", ",cause=\"timeout\"",
		 "Packets sent again: the timer fired, or later packets were answered.",
		 c.retransmits_timeout, false},
		{"switchml_worker_retransmitted_packets_total", "counter", ",cause=\"overtaken\"",
		 NULL, c.retransmits_fast, false},
		{"switchml_worker_ignored_packets_total", "counter", "",
		 "Packets received that were stale, duplicates or foreign.", c.packets_ignored,
		 false},
		{"switchml_worker_stalls_total", "counter", "",
		 "Times that nothing arrived for a whole timeout.", c.stalls, false},
		{"switchml_worker_blocked_sends_total", "counter", "",
		 "Times that the socket was full.", c.send_blocked, false},
		{"switchml_worker_rtt_seconds", "gauge", "", "Smoothed round-trip time.", c.rtt_ns,
		 true},
		{"switchml_worker_window_packets", "gauge", "", "Packets allowed in flight.",
		 c.window, false},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		write_one(out, &context->settings, &all[i]);
}

/* Each bucket has those before it, too. */
static void write_times(FILE *out, struct sml_context *context)
{
	struct sml_call_times *times = &context->requests.times;
	uint64_t n[SML_CALL_TIMES + 1], sum = 0;
	char le[64];
	struct series series = {"switchml_worker_call_seconds_bucket", NULL, le, NULL, 0, false};

	fputs("# HELP switchml_worker_call_seconds Time of a collective call, until it and those "
	      "before it had ended.\n# TYPE switchml_worker_call_seconds histogram\n",
	      out);
	for (unsigned i = 0; i <= SML_CALL_TIMES; i++)
		n[i] = __atomic_load_n(&times->n[i], __ATOMIC_RELAXED);
	for (unsigned i = 0; i <= SML_CALL_TIMES; i++) {
		snprintf(le, sizeof(le), ",le=\"%.9g\"", (double)SML_CALL_TIME_NS(i) / 1e9);
		if (i == SML_CALL_TIMES)
			snprintf(le, sizeof(le), ",le=\"+Inf\"");
		series.value = sum += n[i];
		write_one(out, &context->settings, &series);
	}
	series = (struct series){"switchml_worker_call_seconds_count", NULL, "", NULL, sum, false};
	write_one(out, &context->settings, &series);
	series = (struct series){"switchml_worker_call_seconds_sum",
				 NULL,
				 "",
				 NULL,
				 __atomic_load_n(&times->ns, __ATOMIC_RELAXED),
				 true};
	write_one(out, &context->settings, &series);
}

/* 0 or -errno. */
static int write_file(struct sml_context *context)
{
	char *bytes = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&bytes, &n);
	int rc;

	if (out == NULL)
		return -ENOMEM;
	write_series(out, context);
	write_times(out, context);
	rc = ferror(out) ? -ENOMEM : 0;
	if (fclose(out) != 0)
		rc = -ENOMEM;
	if (rc == 0)
		rc = sml_file_replace(context->metrics_file.path, bytes, n);
	free(bytes);
	return rc;
}

/* ---- when ---- */

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

/* A process may have several contexts, at once or in turn, and the environment names one file. */
static char *own_path(const char *path, unsigned *context_number)
{
	static unsigned n_contexts;
	char number[16];
	unsigned n;

	if (*context_number == 0)
		*context_number = __atomic_add_fetch(&n_contexts, 1, __ATOMIC_RELAXED);
	n = *context_number;

	snprintf(number, sizeof(number), ".%u", n);
	return n == 1 ? strdup(path) : sml_path_insert(path, number, ".prom");
}

void sml_metrics_file_init(struct sml_metrics_file *file)
{
	pthread_mutex_init(&file->lock, NULL);
	sml_cond_init(&file->changed);
}

int sml_metrics_file_start(struct sml_context *context)
{
	struct sml_metrics_file *file = &context->metrics_file;
	int rc;

	if (context->settings.files[SML_RECORD_METRICS] == NULL)
		return 0;
	file->path = own_path(context->settings.files[SML_RECORD_METRICS], &file->number);
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

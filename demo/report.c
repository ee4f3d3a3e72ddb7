/* SPDX-License-Identifier: BSD-3-Clause */
/* Only rank 0 shows progress and summaries. Every rank shows its own errors. */
#include "demo/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double demo_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void demo_error(int rank, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	/* The cursor may be on a progress line, so end that line before the error. */
	if (rank < 0)
		fprintf(stderr, "%s" DEMO_NAME ": %s\n", isatty(2) ? "\r\033[K" : "", text);
	else
		fprintf(stderr, "%s" DEMO_NAME ": rank %d: %s\n", isatty(2) ? "\r\033[K" : "", rank,
			text);
}

void demo_progress(bool last, const char *format, ...)
{
	static double shown = -1;
	bool terminal = isatty(STDOUT_FILENO);
	double now = demo_now();
	va_list arguments;

	if (!last && shown >= 0 && now - shown < (terminal ? 0.1 : 2.0))
		return;
	shown = last ? -1 : now;
	if (terminal)
		fputs("\r", stdout);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	fputs(terminal ? "\033[K" : "", stdout);
	fputs(terminal && !last ? "" : "\n", stdout);
	fflush(stdout);
}

static bool has_learned(const struct demo_results *results)
{
	return results->steps < DEMO_LEARNED_STEPS || results->accuracy >= DEMO_LEARNED_ACCURACY;
}

bool demo_results_good(const struct demo_results *results)
{
	bool same = has_learned(results) && results->same;

	if (results->gloo)
		return same;
	return same && demo_check_holds(&results->sum) && results->solo &&
	       demo_check_holds(&results->drift);
}

static const char *verdict(bool good)
{
	return good ? "ok    " : "FAILED";
}

double demo_link_share(const struct demo_options *options, const struct demo_results *results)
{
	/* 358 lanes of 4 bytes, and headers: 40 of SwitchML, UDP 8, IPv4 20, Ethernet 14. */
	double payload = 4.0 * 358 / (4.0 * 358 + 40 + 8 + 20 + 14);
	double number = options->wire == SML_WIRE_INT16 ? 2 : 4;
	double bytes = number * (double)results->n_parameters * results->steps;

	return 8 * bytes / results->reducing / (1e6 * options->link_mbit * payload);
}

static void show_training(const struct demo_results *r)
{
	printf("\n%d worker%s, %d steps of %zu parameters%s: test accuracy %.2f %%", r->world,
	       r->world == 1 ? "" : "s", r->steps, r->n_parameters,
	       r->gloo ? ", over Gloo's ring" : "", 100 * r->accuracy);
	if (r->solo)
		printf(" (in one process: %.2f %%)", 100 * r->solo_accuracy);
	printf("\n");
	if (!has_learned(r))
		printf("  FAILED: at least %.0f %% were to be expected\n",
		       100 * DEMO_LEARNED_ACCURACY);
}

static void show_traffic(const struct demo_options *options, const struct demo_results *r)
{
	printf("  all-reduce  %.1f MB/s of gradients while under way; %llu of %llu packets sent "
	       "again\n",
	       4e-6 * (double)r->n_parameters * r->steps / r->reducing,
	       (unsigned long long)r->traffic.retransmits,
	       (unsigned long long)r->traffic.packets_sent);
	if (options->link_mbit)
		printf("  link        %.0f %% of what %d Mbit/s can carry at MTU 1500, in that "
		       "time\n",
		       100 * demo_link_share(options, r), options->link_mbit);
}

/* Error and bound are those of the closest call. */
static void show_proofs(const struct demo_results *r)
{
	if (!r->gloo)
		printf("  %s sums: %llu averages of %d steps are the mean of all gradients, within "
		       "%.2g (bound %.2g)\n",
		       verdict(demo_check_holds(&r->sum)), (unsigned long long)r->sum.compared,
		       r->samples, r->sum.error, r->sum.bound);
	printf("  %s equal: all workers have the same parameters, %s\n", verdict(r->same),
	       r->same ? "bit for bit" : "but NOT bit for bit");
	if (r->solo)
		printf("  %s alone: one process ends at the same parameters, within %.2g of the "
		       "way "
		       "that training has moved them (allowed %.2g)\n",
		       verdict(demo_check_holds(&r->drift)), r->drift.error, r->drift.bound);
}

void demo_summary(const struct demo_options *options, const struct demo_results *results)
{
	show_training(results);
	if (!results->gloo)
		show_traffic(options, results);
	show_proofs(results);
	fflush(stdout);
}

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

bool demo_results_learned(const struct demo_results *results)
{
	return results->steps < DEMO_LEARNED_STEPS || results->accuracy >= DEMO_LEARNED_ACCURACY;
}

bool demo_results_good(const struct demo_results *results)
{
	return demo_results_learned(results) && demo_check_holds(&results->sum) &&
	       demo_check_holds(&results->batch) && results->same && results->spread == 0 &&
	       results->solo && demo_check_holds(&results->drift);
}

static const char *verdict(bool good)
{
	return good ? "ok    " : "FAILED";
}

static double ring_bytes(const struct demo_results *results)
{
	double n = results->world;

	return 2 * (n - 1) / n * 4 * (double)results->n_parameters * results->steps;
}

double demo_link_share(const struct demo_options *options, const struct demo_results *results)
{
	/* 352 lanes of 4 bytes, and headers: 40 of SwitchML, UDP 8, IPv4 20, Ethernet 14. */
	double payload = 4.0 * 352 / (4.0 * 352 + 40 + 8 + 20 + 14);
	double number = options->wire == SML_WIRE_INT16 ? 2 : 4;
	double bytes = number * (double)results->n_parameters * results->steps;

	return 8 * bytes / results->reducing / (1e6 * options->link_mbit * payload);
}

static void show_training(const struct demo_options *options, const struct demo_results *r)
{
	printf("\n%d workers, %d steps of %zu parameters: %.1f s, %.0f steps/s; "
	       "alone, one process: %.1f s\n",
	       r->world, r->steps, r->n_parameters, r->seconds, r->steps / r->seconds,
	       r->solo_seconds);
	printf("  test accuracy    %.2f %% (alone: %.2f %%), training loss %.4f\n",
	       100 * r->accuracy, 100 * r->solo_accuracy, r->loss);
	if (!demo_results_learned(r))
		printf("  FAILED: at least %.0f %% were to be expected\n",
		       100 * DEMO_LEARNED_ACCURACY);
	printf("  all-reduce       %.0f %% of the time waited for it; "
	       "%.1f MB/s of gradients while under way\n",
	       100 * r->waiting / r->seconds,
	       4e-6 * (double)r->n_parameters * r->steps / r->reducing);
	if (options->link_mbit)
		printf("  link             %.0f %% of what %d Mbit/s can carry at MTU 1500, in "
		       "that "
		       "time\n",
		       100 * demo_link_share(options, r), options->link_mbit);
}

static void show_traffic(const struct demo_results *r)
{
	double sent = (double)r->traffic.bytes_sent;

	printf("  sent by a worker %.1f MB at most, headers, repeats and a switch's results "
	       "included;\n                   a ring: %.1f MB of bare float32\n",
	       1e-6 * sent, 1e-6 * ring_bytes(r));
	printf("  retransmissions  %llu of %llu packets, all workers together\n",
	       (unsigned long long)r->traffic.retransmits,
	       (unsigned long long)r->traffic.packets_sent);
}

static void show_proofs(const struct demo_results *r)
{
	printf("proofs\n");
	printf("  %s sums: at %d steps, %llu averages against the float64 mean of all ranks' "
	       "gradients;\n         closest call: off by %.2g, derived bound there %.2g\n",
	       verdict(demo_check_holds(&r->sum)), r->samples, (unsigned long long)r->sum.compared,
	       r->sum.error, r->sum.bound);
	printf("  %s batch: the same against one float64 gradient of the whole batch;\n"
	       "         closest call: off by %.2g, derived bound there %.2g\n",
	       verdict(demo_check_holds(&r->batch)), r->batch.error, r->batch.bound);
	printf("  %s equal: largest difference of a parameter between workers %g; bits %s\n",
	       verdict(r->same && r->spread == 0), r->spread, r->same ? "equal" : "DIFFER");
	printf("  %s alone: parameters differ by %.2g (rms; largest %.2g) from a run in one "
	       "process,\n         allowed %.2g: 10 times what rounding alone made of a control "
	       "run "
	       "(%.2g)\n",
	       verdict(demo_check_holds(&r->drift)), r->drift.error, r->drift_largest,
	       r->drift.bound, r->control_rms);
}

void demo_summary(const struct demo_options *options, const struct demo_results *results)
{
	show_training(options, results);
	show_traffic(results);
	show_proofs(results);
	if (options->json && strcmp(options->json, "-") != 0)
		printf("written to %s\n", options->json);
	fflush(stdout);
}

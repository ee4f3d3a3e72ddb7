/* SPDX-License-Identifier: BSD-3-Clause */
/* Only rank 0 shows progress and summaries. Every rank shows its own errors. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "demo/train.h"

/* The digits are easy: a run of this many steps with a lower accuracy has not learned. */
#define LEARNED_STEPS	 110
#define LEARNED_ACCURACY 0.95

double demo_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void demo_die(const char *what, const char *why)
{
	/* The cursor may be on a progress line, so end that line before the error. */
	fprintf(stderr, "%sswitchml-demo: %s: %s\n", isatty(2) ? "\r\033[K" : "", what, why);
	exit(EXIT_FAILURE);
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

static bool proof(bool holds, const char *what)
{
	printf("  %s %s", holds ? "ok    " : "FAILED", what);
	return holds;
}

/* Several times what rounding makes in 2,000 steps (alone.c). */
static double allowed_drift(enum sml_wire wire)
{
	return wire == SML_WIRE_INT16 ? 0.05 : 0.002;
}

static bool show_proofs(const struct demo_trainer *t)
{
	bool good = proof(t->same, "equal: all workers have the same parameters, ");

	printf("%s\n", t->same ? "bit for bit" : "but NOT bit for bit");
	if (t->gloo)
		return good;
	good &= proof(t->drift <= allowed_drift(t->wire),
		      "alone: one process ends at the same parameters, ");
	if (t->drift == 0)
		printf("bit for bit\n");
	else
		printf("within %.2g of the way that training has moved them (allowed %.2g)\n",
		       t->drift, allowed_drift(t->wire));
	return good;
}

static bool show(const struct demo_trainer *t)
{
	bool learned = t->n_steps < LEARNED_STEPS || t->accuracy >= LEARNED_ACCURACY;

	printf("\n%d worker%s, %d steps of %zu parameters%s: test accuracy %.2f %%\n", t->world,
	       t->world == 1 ? "" : "s", t->n_steps, t->model.n_parameters,
	       t->gloo ? ", over Gloo's ring" : "", 100 * t->accuracy);
	if (!learned)
		printf("  FAILED: at least %.0f %% were to be expected\n", 100 * LEARNED_ACCURACY);
	if (!t->gloo)
		printf("  all-reduce  %.1f MB/s of gradients while under way\n",
		       4e-6 * (double)t->model.n_parameters * t->n_steps / t->reducing);
	return show_proofs(t) && learned;
}

static void write_json(const struct demo_trainer *t, bool good)
{
	char hash[17];
	json_t *root;

	snprintf(hash, sizeof(hash), "%016" PRIx64, (uint64_t)t->hash);
	root = json_pack("{s:b, s:b, s:i, s:i, s:I, s:f, s:f, s:f, s:I, s:I, s:b, s:s, s:f}",
			 "good", good, "gloo", t->gloo != NULL, "workers", t->world, "steps",
			 t->n_steps, "parameters", (json_int_t)t->model.n_parameters, "loss",
			 (double)t->loss, "accuracy", t->accuracy, "seconds", t->seconds,
			 "link_bytes_sent", (json_int_t)t->sent, "link_bytes_received",
			 (json_int_t)t->received, "parameters_same", t->same, "parameters_hash",
			 hash, "drift", t->drift);
	/* JSON has no infinite numbers: of a training that ended in one, there is no object. */
	if (!root || json_dump_file(root, t->json, JSON_INDENT(2)) < 0)
		demo_die("cannot write the summary", t->json);
	json_decref(root);
}

bool demo_report(const struct demo_trainer *trainer)
{
	bool good = show(trainer);

	fflush(stdout);
	if (trainer->json)
		write_json(trainer, good);
	return good;
}

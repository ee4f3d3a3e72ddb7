/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml status`: what a running switch is doing. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/ask.h"
#include "cmd/commands.h"

#define TIMEOUT_MS 5000

struct options {
	const char *address;
	bool json;
};

static const struct argp_option option_list[] = {
	{"switch", 's', "HOST[:PORT]", 0, "Which switch (SWITCHML_SWITCH, 127.0.0.1:28500)", 0},
	{"json", 'j', NULL, 0, "Print JSON, for programs", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case 's':
		options->address = text;
		break;
	case 'j':
		options->json = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* ---- JSON ---- */

static json_t *counters_json(SmlControl__Counter **counters, size_t n)
{
	json_t *object = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(object, counters[i]->name,
				    json_integer((json_int_t)counters[i]->value));
	return object;
}

static json_t *worker_json(const SmlControl__WorkerStatus *worker)
{
	return json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:I}", "rank", (int)worker->rank, "host",
			 worker->host, "pid", (int)worker->pid, "state", worker->state,
			 "last_seen_ms", (json_int_t)worker->last_seen_ms, "contributions",
			 (json_int_t)worker->contributions, "resends", (json_int_t)worker->resends);
}

static json_t *job_json(const SmlControl__JobStatus *job)
{
	json_t *workers = json_array();

	for (size_t i = 0; i < job->n_workers; i++)
		json_array_append_new(workers, worker_json(job->workers[i]));
	return json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:s, s:o, s:o}", "job", job->job,
			 "job_number", (json_int_t)job->job_number, "epoch", (int)job->epoch,
			 "world_size", (int)job->world_size, "lanes", (int)job->lanes, "slots",
			 (int)job->slots, "state", job->state, "workers", workers, "counters",
			 counters_json(job->counters, job->n_counters));
}

static int print_json(const SmlControl__Status *status)
{
	json_t *jobs = json_array(), *whole;

	for (size_t i = 0; i < status->n_jobs; i++)
		json_array_append_new(jobs, job_json(status->jobs[i]));
	whole = json_pack("{s:s, s:s, s:I, s:i, s:i, s:i, s:o, s:o}", "version", status->version,
			  "dataplane", status->dataplane, "uptime_ms",
			  (json_int_t)status->uptime_ms, "slots", (int)status->slots,
			  "slots_in_use", (int)status->slots_in_use, "max_jobs",
			  (int)status->max_jobs, "jobs", jobs, "counters",
			  counters_json(status->counters, status->n_counters));
	if (whole == NULL || json_dumpf(whole, stdout, JSON_INDENT(2)) < 0) {
		fprintf(stderr, "switchml status: no memory to print JSON\n");
		json_decref(whole);
		return 1;
	}
	putchar('\n');
	json_decref(whole);
	return 0;
}

/* ---- for people ---- */

static void print_counters(SmlControl__Counter **counters, size_t n, const char *indent)
{
	for (size_t i = 0; i < n; i++)
		if (counters[i]->value != 0)
			printf("%s%-18s %" PRIu64 "\n", indent, counters[i]->name,
			       counters[i]->value);
}

static void print_job(const SmlControl__JobStatus *job)
{
	printf("\njob \"%s\": %s, %u ranks, epoch %u, %u slots of %u lanes\n", job->job, job->state,
	       job->world_size, job->epoch, job->slots, job->lanes);
	printf("  %4s  %-20s %8s  %-8s %10s %14s %10s\n", "rank", "host", "pid", "state",
	       "last seen", "contributions", "resends");
	for (size_t i = 0; i < job->n_workers; i++) {
		const SmlControl__WorkerStatus *worker = job->workers[i];

		printf("  %4u  %-20s %8u  %-8s %7" PRIu64 " ms %14" PRIu64 " %10" PRIu64 "\n",
		       worker->rank, worker->host, worker->pid, worker->state, worker->last_seen_ms,
		       worker->contributions, worker->resends);
	}
	print_counters(job->counters, job->n_counters, "  ");
}

static void print_text(const SmlControl__Status *status)
{
	printf("switchml %s, %s dataplane, up %.1f s: %u of %u slots in use, %zu of %u jobs\n",
	       status->version, status->dataplane, (double)status->uptime_ms / 1e3,
	       status->slots_in_use, status->slots, status->n_jobs, status->max_jobs);
	print_counters(status->counters, status->n_counters, "  ");
	for (size_t i = 0; i < status->n_jobs; i++)
		print_job(status->jobs[i]);
}

int sml_command_status(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse,
		.doc = "Show a running switch's jobs, workers, slots in use and counters. Counters "
		       "that are zero are left out (--json has all).",
	};
	const char *environment = getenv("SWITCHML_SWITCH");
	struct options options = {.address = environment && environment[0] ? environment
									   : "127.0.0.1"};
	SmlControl__Envelope *answer;
	struct sml_ask ask;
	int rc;

	argp_parse(&parser, argc, argv, 0, NULL, &options);
	signal(SIGPIPE, SIG_IGN);
	rc = sml_ask_open(&ask, options.address, TIMEOUT_MS);
	if (rc < 0)
		fprintf(stderr, "switchml status: %s\n", ask.text);
	else if ((rc = sml_ask_status(&ask, &answer)) < 0)
		fprintf(stderr, "switchml status: %s: %s\n", options.address, ask.text);
	sml_ask_close(&ask);
	if (rc < 0)
		return 1;
	rc = 0;
	if (options.json)
		rc = print_json(answer->status);
	else
		print_text(answer->status);
	sml_control__envelope__free_unpacked(answer, NULL);
	return rc;
}

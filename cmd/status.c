/* SPDX-License-Identifier: BSD-3-Clause */
/* `switchml status`: what a running switch is doing. */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/ask.h"
#include "cmd/commands.h"
#include "switchml.h"

#define TIMEOUT_MS 5000

struct options {
	const char *address;
	bool json;
};

static const struct argp_option option_list[] = {
	{"switch", 's', "HOST[:PORT],…", 0,
	 "The switch, or several (SWITCHML_SWITCH; if it is not set, rank 0 of the job)", 0},
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
	return json_pack("{s:i, s:s, s:i, s:s, s:I, s:I, s:I, s:b}", "rank", (int)worker->rank,
			 "host", worker->host, "pid", (int)worker->pid, "state", worker->state,
			 "last_seen_ms", (json_int_t)worker->last_seen_ms, "contributions",
			 (json_int_t)worker->contributions, "resends", (json_int_t)worker->resends,
			 "by_multicast", (int)worker->by_group);
}

static json_t *stripe_json(const SmlControl__StripeStatus *served)
{
	return json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I}", "stripe", (int)served->stripe,
			 "where", served->where, "contributions", (json_int_t)served->contributions,
			 "resends", (json_int_t)served->resends, "duplicates",
			 (json_int_t)served->duplicates, "bytes_received",
			 (json_int_t)served->bytes_received, "bytes_sent",
			 (json_int_t)served->bytes_sent);
}

static json_t *job_json(const SmlControl__JobStatus *job)
{
	json_t *workers = json_array(), *stripes = json_array();

	for (size_t i = 0; i < job->n_workers; i++)
		json_array_append_new(workers, worker_json(job->workers[i]));
	for (size_t i = 0; i < job->n_served; i++)
		json_array_append_new(stripes, stripe_json(job->served[i]));
	return json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:s, s:i, s:s, s:o, s:o, s:o}", "job",
			 job->job, "job_number", (json_int_t)job->job_number, "epoch",
			 (int)job->epoch, "world_size", (int)job->world_size, "lanes",
			 (int)job->lanes, "slots", (int)job->slots, "state", job->state, "stripes",
			 (int)job->stripes, "multicast", job->group, "served", stripes, "workers",
			 workers, "counters", counters_json(job->counters, job->n_counters));
}

static json_t *status_json(const char *address, const SmlControl__Status *status)
{
	json_t *jobs = json_array();

	for (size_t i = 0; i < status->n_jobs; i++)
		json_array_append_new(jobs, job_json(status->jobs[i]));
	return json_pack("{s:s, s:n, s:s, s:s, s:i, s:I, s:i, s:i, s:i, s:o, s:o}", "address",
			 address, "error", "version", status->version, "dataplane",
			 status->dataplane, "data_port", (int)status->data_port, "uptime_ms",
			 (json_int_t)status->uptime_ms, "slots", (int)status->slots, "slots_in_use",
			 (int)status->slots_in_use, "max_jobs", (int)status->max_jobs, "jobs", jobs,
			 "counters", counters_json(status->counters, status->n_counters));
}

/* For a switch that cannot be asked. */
static json_t *error_json(const char *address, const char *text)
{
	return json_pack("{s:s, s:s}", "address", address, "error", text);
}

static int print_json(const json_t *all)
{
	if (all == NULL || json_dumpf(all, stdout, JSON_INDENT(2)) < 0) {
		fprintf(stderr, "switchml status: no memory to print JSON\n");
		return 1;
	}
	putchar('\n');
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

/* The traffic of each stripe, if there are several; it shows a slow or lossy one. */
static void print_stripes(const SmlControl__JobStatus *job)
{
	/* The workers' lines show a switch's own stripe. */
	if (job->n_served == 0 || !job->served[0]->where[0])
		return;
	printf("  %6s  %-36s %14s %10s %10s %12s %12s\n", "stripe", "where", "contributions",
	       "resends", "duplicates", "MB received", "MB sent");
	for (size_t i = 0; i < job->n_served; i++) {
		const SmlControl__StripeStatus *served = job->served[i];

		printf("  %6u  %-36s %14" PRIu64 " %10" PRIu64 " %10" PRIu64 " %12.1f %12.1f\n",
		       served->stripe, served->where, served->contributions, served->resends,
		       served->duplicates, (double)served->bytes_received / 1e6,
		       (double)served->bytes_sent / 1e6);
	}
}

static void print_form(const SmlControl__JobStatus *job)
{
	bool by_ranks = job->n_served > 0 && job->served[0]->where[0];

	if (by_ranks && job->stripes == job->world_size)
		printf(", a stripe in every rank");
	else if (by_ranks)
		printf(", %u stripe%s in the first ranks", job->stripes,
		       job->stripes == 1 ? "" : "s");
	else if (job->stripes > 1 && job->n_served > 0)
		printf(", stripe %u of %u", job->served[0]->stripe, job->stripes);
}

/* The ranks that the group reaches, and the ranks that get results by unicast. */
static void print_group(const SmlControl__JobStatus *job)
{
	size_t n = 0;

	for (size_t i = 0; i < job->n_workers; i++)
		n += job->workers[i]->by_group ? 1 : 0;
	printf(", results by multicast to %zu (group %s)", n, job->group);
	if (n == job->n_workers)
		return;
	printf(" and one by one to rank%s", job->n_workers - n == 1 ? "" : "s");
	for (size_t i = 0; i < job->n_workers; i++)
		if (!job->workers[i]->by_group)
			printf(" %u", job->workers[i]->rank);
}

static void print_job(const SmlControl__JobStatus *job)
{
	printf("\njob \"%s\": %s, %u ranks", job->job, job->state, job->world_size);
	print_form(job);
	if (job->group[0] && strcmp(job->state, "running") == 0)
		print_group(job);
	printf(", epoch %u, %u slots of %u lanes\n", job->epoch, job->slots, job->lanes);
	printf("  %4s  %-20s %8s  %-8s %10s %14s %10s\n", "rank", "host", "pid", "state",
	       "last seen", "contributions", "resends");
	for (size_t i = 0; i < job->n_workers; i++) {
		const SmlControl__WorkerStatus *worker = job->workers[i];

		printf("  %4u  %-20s %8u  %-8s %7" PRIu64 " ms %14" PRIu64 " %10" PRIu64 "\n",
		       worker->rank, worker->host, worker->pid, worker->state, worker->last_seen_ms,
		       worker->contributions, worker->resends);
	}
	print_stripes(job);
	print_counters(job->counters, job->n_counters, "  ");
}

static void print_text(const char *address, const SmlControl__Status *status)
{
	printf("%s: switchml %s, %s dataplane, up %.1f s: %u of %u slots in use, %zu of %u jobs\n",
	       address, status->version, status->dataplane, (double)status->uptime_ms / 1e3,
	       status->slots_in_use, status->slots, status->n_jobs, status->max_jobs);
	print_counters(status->counters, status->n_counters, "  ");
	for (size_t i = 0; i < status->n_jobs; i++)
		print_job(status->jobs[i]);
}

/* ---- which switch to ask ---- */

/* If the ranks embed the switch, rank 0 has the control port. */
static bool is_embedded(const char *address)
{
	return address == NULL || *address == '\0' || strcasecmp(address, "embedded") == 0;
}

/* Rank 0's control port, as the ranks find it. False: the environment is invalid. */
static bool master_address(char *address, size_t bytes)
{
	struct sml_config config;

	if (sml_config_init(&config) < 0) {
		fprintf(stderr, "switchml status: %s\n", sml_error_text(NULL));
		return false;
	}
	snprintf(address, bytes, strchr(config.master_address, ':') ? "[%s]:%d" : "%s:%d",
		 config.master_address, config.master_port);
	return true;
}

/* One switch of the list. 0, or 1 when it cannot be asked. */
static int ask_one(const char *address, bool is_rank_0, json_t *all)
{
	SmlControl__Envelope *answer = NULL;
	struct sml_ask ask;
	bool is_open = sml_ask_open(&ask, address, TIMEOUT_MS) == 0;
	int rc = is_open ? sml_ask_status(&ask, &answer) : -1;

	if (rc < 0) {
		fprintf(stderr, "switchml status: %s%s%s%s\n", is_open ? address : "",
			is_open ? ": " : "", ask.text,
			is_rank_0
				? " (for a job without a switch, status asks rank 0, at its master "
				  "port)"
				: "");
		if (all)
			json_array_append_new(all, error_json(address, ask.text));
	} else {
		if (all)
			json_array_append_new(all, status_json(address, answer->status));
		else
			print_text(address, answer->status);
		sml_control__envelope__free_unpacked(answer, NULL);
	}
	sml_ask_close(&ask);
	return rc < 0;
}

static int ask_all(const char *list, json_t *all)
{
	char address[320];
	int rc = 0;

	if (is_embedded(list))
		return master_address(address, sizeof(address)) ? ask_one(address, true, all) : 1;
	while (sml_ask_next(&list, address, sizeof(address)))
		rc |= ask_one(address, false, all);
	return rc;
}

int sml_command_status(int argc, char **argv)
{
	static const struct argp parser = {
		.options = option_list,
		.parser = parse,
		.doc = "Show the jobs, workers, slots in use and counters of a running "
		       "switch, or of each switch of a list. Counters that are zero are "
		       "left out (--json has all). If a job has no switch, rank 0 is asked "
		       "at its master port.",
	};
	struct options options = {.address = getenv("SWITCHML_SWITCH")};
	json_t *all = NULL;
	int rc;

	argp_parse(&parser, argc, argv, 0, NULL, &options);
	signal(SIGPIPE, SIG_IGN);
	if (options.json)
		all = json_array();
	rc = ask_all(options.address, all);
	if (options.json)
		rc |= print_json(all);
	json_decref(all);
	return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics.h. docs/monitoring.md lists the metrics for people. A family's samples are
 * together, so a family is a row of a table, with the field that it is, or with a function that
 * writes its samples.
 */
#include "cmd/switch/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cmd/shared/fields.h"
#include "control/text.h"
#include "core/pool.h"
#include "job/switch.h"

/* What has one sample of a family, or some. */
enum scope { OF_SWITCH, OF_LEAF, OF_JOB, OF_BRANCH, OF_RANK };

/* Where a family's samples go, and of which jobs. */
struct writer {
	FILE *out;
	bool open_metrics;
	const SmlControl__Status *status;
	const SmlControl__JobStatus *jobs[SML_METRICS_JOBS]; /* those that have series */
	size_t n_jobs;
	const struct family *family;
	const char *name; /* of the family, with its suffix */
};

/* One of what a family is about. */
struct sample {
	const SmlControl__JobStatus *job; /* NULL: the switch, or one of its leaves */
	const void *object;		  /* the message of this scope */
};

struct family {
	const char *name, *type, *unit, *help;
	enum scope scope;
	/* Either a field of the scope's message, or a function. */
	const char *field;
	void (*write)(const struct writer *writer, const struct sample *sample);
};

/* ---- labels and values ---- */

static uint32_t stripe_of(const SmlControl__JobStatus *job)
{
	return job->n_served > 0 ? job->served[0]->stripe : 0;
}

/* The beginning of a sample with its labels; more labels may follow, unless it is the switch's. */
static void begin_sample(const struct writer *writer, const struct sample *sample)
{
	const SmlControl__WorkerStatus *worker = sample->object;
	const SmlControl__BranchStatus *branch = sample->object;
	const SmlControl__LeafStatus *leaf = sample->object;
	const enum scope scope = writer->family->scope;

	fprintf(writer->out, scope == OF_SWITCH ? "%s" : "%s{", writer->name);
	if (sample->job != NULL) {
		sml_text_write_label(writer->out, "job_name", sample->job->job);
		fprintf(writer->out, ",stripe=\"%" PRIu32 "\"", stripe_of(sample->job));
	}
	if (scope == OF_LEAF)
		sml_text_write_label(writer->out, "leaf", leaf->name);
	if (scope == OF_BRANCH) {
		fputc(',', writer->out);
		sml_text_write_label(writer->out, "leaf", branch->leaf);
	}
	if (scope == OF_RANK)
		fprintf(writer->out, ",rank=\"%" PRIu32 "\"", worker->rank);
}

/* The rest of a sample that begin_sample() has begun. */
static void end(const struct writer *writer, uint64_t value)
{
	fprintf(writer->out, "%s %" PRIu64 "\n", writer->family->scope == OF_SWITCH ? "" : "}",
		value);
}

/* A sample that has one more label. */
static void write_with(const struct writer *writer, const struct sample *sample, const char *label,
		       const char *value, uint64_t count)
{
	begin_sample(writer, sample);
	fputc(writer->family->scope == OF_SWITCH ? '{' : ',', writer->out);
	sml_text_write_label(writer->out, label, value);
	fprintf(writer->out, "} %" PRIu64 "\n", count);
}

static uint64_t of_switch(const struct writer *writer, const char *name)
{
	const SmlControl__Status *status = writer->status;

	for (size_t i = 0; i < status->n_counters; i++)
		if (strcmp(status->counters[i]->name, name) == 0)
			return status->counters[i]->value;
	return 0;
}

/* A field, unless its value is unknown. Milliseconds become seconds, and an array its length. */
static void write_field(const struct writer *writer, const struct sml_field *field,
			const struct sample *sample)
{
	const void *at = sml_field_at(field, sample->object);

	if (at == NULL)
		return;
	begin_sample(writer, sample);
	if (field->type == SML_FIELD_MS)
		fprintf(writer->out, "%s %.3f\n", writer->family->scope == OF_SWITCH ? "" : "}",
			(double)*(const uint64_t *)at / 1e3);
	else if (field->type == SML_FIELD_U64)
		end(writer, *(const uint64_t *)at);
	else if (field->type == SML_FIELD_RECORDS)
		end(writer, *(const size_t *)((const char *)sample->object + field->count));
	else
		end(writer, *(const uint32_t *)at);
}

/* ---- samples that are more than one field ---- */

static void write_build(const struct writer *writer, const struct sample *sample)
{
	(void)sample;
	fprintf(writer->out, "%s{", writer->name);
	sml_text_write_label(writer->out, "version", writer->status->version);
	fputc(',', writer->out);
	sml_text_write_label(writer->out, "dataplane", writer->status->dataplane);
	fprintf(writer->out, "} 1\n");
}

static void write_unlisted(const struct writer *writer, const struct sample *sample)
{
	begin_sample(writer, sample);
	end(writer, writer->status->n_jobs - writer->n_jobs);
}

static void write_dropped(const struct writer *writer, const struct sample *sample)
{
	static const char *const reasons[][2] = {{"receive-buffer", "socket-drops"},
						 {"send-buffer", "send-drops"},
						 {"checksum", "bad-checksums"}};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		write_with(writer, sample, "reason", reasons[i][0],
			   of_switch(writer, reasons[i][1]));
}

static void write_verdicts(const struct writer *writer, const struct sample *sample)
{
	for (unsigned i = 0; i < SML_VERDICTS; i++) {
		const char *name = sml_verdict_name((enum sml_verdict)i);

		write_with(writer, sample, "verdict", name, of_switch(writer, name));
	}
}

static void write_attached(const struct writer *writer, const struct sample *sample)
{
	if (writer->status->parent[0] != '\0')
		write_with(writer, sample, "parent", writer->status->parent,
			   writer->status->attached ? 1 : 0);
}

static void write_job_state(const struct writer *writer, const struct sample *sample)
{
	for (int s = 0; s < SML_JOB_STATES; s++) {
		const char *state = sml_job_state_name((enum sml_job_state)s);

		write_with(writer, sample, "state", state, strcmp(sample->job->state, state) == 0);
	}
}

static void write_job_verdicts(const struct writer *writer, const struct sample *sample)
{
	for (size_t c = 0; c < sample->job->n_counters; c++)
		write_with(writer, sample, "verdict", sample->job->counters[c]->name,
			   sample->job->counters[c]->value);
}

static void write_rank_info(const struct writer *writer, const struct sample *sample)
{
	const SmlControl__WorkerStatus *worker = sample->object;

	begin_sample(writer, sample);
	fputc(',', writer->out);
	sml_text_write_label(writer->out, "host", worker->host);
	if (worker->leaf[0] != '\0') {
		fputc(',', writer->out);
		sml_text_write_label(writer->out, "leaf", worker->leaf);
	}
	if (worker->sender > 0)
		fprintf(writer->out, ",sent_by=\"%" PRIu32 "\"", worker->sender - 1);
	end(writer, 1);
}

static bool is_connected(const SmlControl__WorkerStatus *worker)
{
	return strcmp(worker->state, "missing") != 0;
}

static void write_rank_connected(const struct writer *writer, const struct sample *sample)
{
	begin_sample(writer, sample);
	end(writer, is_connected(sample->object));
}

static void write_rank_silence(const struct writer *writer, const struct sample *sample)
{
	if (is_connected(sample->object))
		write_field(writer, sml_field_find(&sml_worker_record, "last_seen_ms"), sample);
}

static void write_rank_retransmits(const struct writer *writer, const struct sample *sample)
{
	const SmlControl__Traffic *traffic =
		((const SmlControl__WorkerStatus *)sample->object)->traffic;

	if (traffic == NULL)
		return;
	write_with(writer, sample, "cause", "timeout", traffic->retransmits_timeout);
	write_with(writer, sample, "cause", "overtaken", traffic->retransmits_fast);
}

static void write_rank_link(const struct writer *writer, const struct sample *sample)
{
	const SmlControl__Traffic *traffic =
		((const SmlControl__WorkerStatus *)sample->object)->traffic;

	if (traffic == NULL || traffic->link_mbits == 0)
		return;
	begin_sample(writer, sample);
	end(writer, traffic->link_mbits * 125000ull);
}

/* ---- all ---- */

static const struct family families[] = {
	{"switchml_build_info", "gauge", "", "The switch's version and dataplane.", OF_SWITCH, NULL,
	 write_build},
	{"switchml_uptime_seconds", "gauge", "seconds", "Time since the switch started.", OF_SWITCH,
	 "uptime_ms", NULL},
	{"switchml_slots", "gauge", "", "Slots that the switch has.", OF_SWITCH, "slots", NULL},
	{"switchml_slots_in_use", "gauge", "", "Slots that jobs hold.", OF_SWITCH, "slots_in_use",
	 NULL},
	{"switchml_jobs", "gauge", "", "Jobs at the switch.", OF_SWITCH, "jobs", NULL},
	{"switchml_jobs_kept", "gauge", "", "Places that jobs keep while their members change.",
	 OF_SWITCH, "kept_jobs", NULL},
	{"switchml_jobs_limit", "gauge", "", "The most jobs and kept places at once.", OF_SWITCH,
	 "max_jobs", NULL},
	{"switchml_jobs_unlisted", "gauge", "", "Jobs that have no series here.", OF_SWITCH, NULL,
	 write_unlisted},
	{"switchml_received_packets", "counter", "packets", "Packets that the switch has received.",
	 OF_SWITCH, "packets-received", NULL},
	{"switchml_sent_packets", "counter", "packets", "Packets that the switch has sent.",
	 OF_SWITCH, "packets-sent", NULL},
	{"switchml_received_bytes", "counter", "bytes", "UDP payload that the switch has received.",
	 OF_SWITCH, "bytes-received", NULL},
	{"switchml_sent_bytes", "counter", "bytes", "UDP payload that the switch has sent.",
	 OF_SWITCH, "bytes-sent", NULL},
	{"switchml_waiting_processes", "gauge", "",
	 "Processes that ask to be in the next membership of a job, up to 64.", OF_SWITCH,
	 "waiting", NULL},
	{"switchml_probes", "counter", "", "Probes that the switch has received.", OF_SWITCH,
	 "probes", NULL},
	{"switchml_dropped_packets", "counter", "packets",
	 "Packets that were lost at the switch, by reason.", OF_SWITCH, NULL, write_dropped},
	{"switchml_packet_verdicts", "counter", "",
	 "Packets that the switch has received, by what became of them.", OF_SWITCH, NULL,
	 write_verdicts},
	{"switchml_connections_refused", "counter", "", "Control connections that were refused.",
	 OF_SWITCH, "connections-refused", NULL},
	{"switchml_connections_evicted", "counter", "",
	 "Control connections that were closed to make room.", OF_SWITCH, "connections-evicted",
	 NULL},
	{"switchml_tree_level", "gauge", "",
	 "The switch's level in a tree of switches: 0 for a root, and for a switch without a tree.",
	 OF_SWITCH, "level", NULL},
	{"switchml_parent_attached", "gauge", "", "1 if this leaf's parent has accepted it.",
	 OF_SWITCH, NULL, write_attached},
	{"switchml_leaf_ranks", "gauge", "", "Ranks behind the leaf.", OF_LEAF, "ranks", NULL},
	{"switchml_leaf_slots", "gauge", "", "Slots that the leaf has.", OF_LEAF, "slots", NULL},
	{"switchml_leaf_slots_in_use", "gauge", "", "Slots of the leaf that jobs hold.", OF_LEAF,
	 "slots_in_use", NULL},
	{"switchml_leaf_silence_seconds", "gauge", "seconds",
	 "Time since the leaf's last control message.", OF_LEAF, "last_seen_ms", NULL},
	{"switchml_job_ranks", "gauge", "", "Ranks of the job.", OF_JOB, "world_size", NULL},
	{"switchml_job_state", "gauge", "", "1 for the state that the job is in.", OF_JOB, NULL,
	 write_job_state},
	{"switchml_job_epoch", "gauge", "",
	 "The job's epoch: 1 plus the switches that it has lost.", OF_JOB, "epoch", NULL},
	{"switchml_job_membership_changes", "counter", "",
	 "How often the members of an elastic job have changed: the jobs that it follows.", OF_JOB,
	 "changes", NULL},
	{"switchml_job_ranks_joined", "gauge", "",
	 "Ranks of the job that were not in the one that it follows.", OF_JOB, "joined", NULL},
	{"switchml_job_ranks_left", "gauge", "",
	 "Ranks of the job that it follows that are not in this one.", OF_JOB, "left", NULL},
	{"switchml_job_waiting", "gauge", "", "Processes that wait to join the job.", OF_JOB,
	 "waiting", NULL},
	{"switchml_job_slots", "gauge", "", "Slots that the job holds.", OF_JOB, "slots", NULL},
	{"switchml_job_lanes", "gauge", "", "32-bit lanes of the job's full packets.", OF_JOB,
	 "lanes", NULL},
	{"switchml_job_packet_verdicts", "counter", "",
	 "Packets of the job, by what became of them.", OF_JOB, NULL, write_job_verdicts},
	{"switchml_job_leaf_ranks", "gauge", "", "Ranks of the job behind the leaf.", OF_BRANCH,
	 "ranks", NULL},
	{"switchml_job_leaf_contributions", "counter", "",
	 "Packets of the leaf that the switch has combined.", OF_BRANCH, "contributions", NULL},
	{"switchml_job_leaf_resent_results", "counter", "",
	 "Results that the switch has sent to the leaf again.", OF_BRANCH, "resends", NULL},
	{"switchml_job_leaf_waited_seconds", "counter", "seconds",
	 "For how long the other leaves and ranks have waited for the leaf.", OF_BRANCH,
	 "waited_ms", NULL},
	{"switchml_rank_info", "gauge", "",
	 "The host of the rank, its leaf, and the rank that sends its packets.", OF_RANK, NULL,
	 write_rank_info},
	{"switchml_rank_connected", "gauge", "", "1 if the rank has a control connection.", OF_RANK,
	 NULL, write_rank_connected},
	{"switchml_rank_silence_seconds", "gauge", "seconds",
	 "Time since the rank's last control message.", OF_RANK, NULL, write_rank_silence},
	{"switchml_rank_contributions", "counter", "",
	 "Packets of the rank that the switch has combined.", OF_RANK, "contributions", NULL},
	{"switchml_rank_resent_results", "counter", "",
	 "Results that the switch has sent to the rank again.", OF_RANK, "resends", NULL},
	{"switchml_rank_waited_seconds", "counter", "seconds",
	 "For how long others have waited for the rank, or for the host for which it sends.",
	 OF_RANK, "waited_ms", NULL},
	{"switchml_rank_host_waited_seconds", "counter", "seconds",
	 "For how long the ranks that share its memory have waited for the rank.", OF_RANK,
	 "host_waited_ms", NULL},
	{"switchml_rank_sent_packets", "counter", "packets", "Packets that the rank has sent.",
	 OF_RANK, "packets_sent", NULL},
	{"switchml_rank_received_packets", "counter", "packets",
	 "Packets that the rank has received.", OF_RANK, "packets_received", NULL},
	{"switchml_rank_sent_bytes", "counter", "bytes", "UDP payload that the rank has sent.",
	 OF_RANK, "bytes_sent", NULL},
	{"switchml_rank_received_bytes", "counter", "bytes",
	 "UDP payload that the rank has received.", OF_RANK, "bytes_received", NULL},
	{"switchml_rank_retransmitted_packets", "counter", "packets",
	 "Packets that the rank has sent again: its timer fired, or later packets were answered.",
	 OF_RANK, NULL, write_rank_retransmits},
	{"switchml_rank_link_speed_bytes", "gauge", "bytes",
	 "Bytes per second that the rank's link carries in each direction.", OF_RANK, NULL,
	 write_rank_link},
};

/* Has a job with these labels been listed? Two series with the same labels would be an error. */
static bool is_listed(const struct writer *writer, const SmlControl__JobStatus *job)
{
	for (size_t i = 0; i < writer->n_jobs; i++)
		if (strcmp(writer->jobs[i]->job, job->job) == 0 &&
		    stripe_of(writer->jobs[i]) == stripe_of(job))
			return true;
	return false;
}

/* Series of a job, but for a few: a leaf has about as many as a rank without its traffic. */
static size_t size_of(const SmlControl__JobStatus *job)
{
	return job->n_workers + job->n_branches;
}

/* Those that have begun first: anybody can invent others. */
static void choose_jobs(struct writer *writer)
{
	const SmlControl__Status *status = writer->status;
	size_t n_ranks = 0;

	for (unsigned waiting = 0; waiting < 2; waiting++)
		for (size_t i = 0; i < status->n_jobs && writer->n_jobs < SML_METRICS_JOBS; i++) {
			const SmlControl__JobStatus *job = status->jobs[i];

			if ((strcmp(job->state, "joining") == 0) != waiting ||
			    n_ranks + size_of(job) > SML_METRICS_RANKS || is_listed(writer, job))
				continue;
			writer->jobs[writer->n_jobs++] = job;
			n_ranks += size_of(job);
		}
}

/* ---- each that has samples ---- */

static void write_sample(const struct writer *writer, const SmlControl__JobStatus *job,
			 const void *object)
{
	static const struct sml_record *const records[] = {&sml_switch_record, &sml_leaf_record,
							   &sml_job_record, &sml_branch_record,
							   &sml_worker_record};
	const struct family *family = writer->family;
	const struct sample sample = {job, object};
	const struct sml_field *field;

	if (family->write != NULL) {
		family->write(writer, &sample);
		return;
	}
	field = sml_field_find(records[family->scope], family->field);
	if (field != NULL) {
		write_field(writer, field, &sample);
		return;
	}
	/* Of the switch's counters, those that are zero may be left out of its status. */
	assert(family->scope == OF_SWITCH);
	begin_sample(writer, &sample);
	end(writer, of_switch(writer, family->field));
}

/* Have the leaves before it this name? It may have come back before its old connection ended. */
static bool is_second_leaf(const SmlControl__Status *status, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(status->leaves[i]->name, status->leaves[n]->name) == 0)
			return true;
	return false;
}

/* Leaves choose their names: two of one job may have the same. */
static bool is_second_branch(const SmlControl__JobStatus *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(job->branches[i]->leaf, job->branches[n]->leaf) == 0)
			return true;
	return false;
}

static void write_job_samples(const struct writer *writer, const SmlControl__JobStatus *job)
{
	switch (writer->family->scope) {
	case OF_BRANCH:
		for (size_t i = 0; i < job->n_branches; i++)
			if (!is_second_branch(job, i))
				write_sample(writer, job, job->branches[i]);
		break;
	case OF_RANK:
		for (size_t i = 0; i < job->n_workers; i++)
			write_sample(writer, job, job->workers[i]);
		break;
	default:
		write_sample(writer, job, job);
	}
}

static void write_samples(const struct writer *writer)
{
	const SmlControl__Status *status = writer->status;

	switch (writer->family->scope) {
	case OF_SWITCH:
		write_sample(writer, NULL, status);
		break;
	case OF_LEAF:
		for (size_t i = 0; i < status->n_leaves; i++)
			if (!is_second_leaf(status, i))
				write_sample(writer, NULL, status->leaves[i]);
		break;
	default:
		for (size_t i = 0; i < writer->n_jobs; i++)
			write_job_samples(writer, writer->jobs[i]);
	}
}

static void write_family(struct writer *writer, const struct family *family)
{
	const bool counts = strcmp(family->type, "counter") == 0;
	const char *suffix = counts ? "_total" : "";
	char sample_name[96];

	snprintf(sample_name, sizeof(sample_name), "%s%s", family->name, suffix);
	/* OpenMetrics names the family, the older format its samples. */
	if (writer->open_metrics)
		suffix = "";
	fprintf(writer->out, "# TYPE %s%s %s\n", family->name, suffix, family->type);
	if (writer->open_metrics && *family->unit != '\0')
		fprintf(writer->out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(writer->out, "# HELP %s%s %s\n", family->name, suffix, family->help);
	writer->name = sample_name;
	writer->family = family;
	write_samples(writer);
}

static void write_families(FILE *out, void *self)
{
	struct writer *writer = self;

	writer->out = out;
	choose_jobs(writer);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		write_family(writer, &families[i]);
	if (writer->open_metrics)
		fprintf(out, "# EOF\n");
}

char *sml_metrics_text(const SmlControl__Status *status, bool open_metrics, size_t *bytes)
{
	struct writer writer = {.open_metrics = open_metrics, .status = status};

	return sml_file_compose(write_families, &writer, bytes);
}

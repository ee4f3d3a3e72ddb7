/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See metrics_text.h. docs/monitoring.md lists the metrics for people. A family's samples are
 * together, so a family is a row of a table, with a function that writes its samples.
 */
#include "cmd/switch/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"

/* Where a family's samples go, and of which jobs. */
struct writer {
	FILE *out;
	bool open_metrics;
	const SmlControl__Status *status;
	const SmlControl__JobStatus *jobs[SML_METRICS_JOBS]; /* those that have series */
	size_t n_jobs;
	const char *name; /* of the family, with its suffix */
};

struct family {
	const char *name, *type, *unit, *help;
	void (*write)(const struct writer *writer);
};

/* ---- labels and values ---- */

/* A label's value. Texts of peers are clean (control/text.h): only these three need a mark. */
static void write_label(const struct writer *writer, const char *name, const char *value)
{
	fprintf(writer->out, "%s=\"", name);
	for (; *value != '\0'; value++) {
		if (*value == '\\' || *value == '"' || *value == '\n')
			fputc('\\', writer->out);
		fputc(*value == '\n' ? 'n' : *value, writer->out);
	}
	fputc('"', writer->out);
}

static uint32_t stripe_of(const SmlControl__JobStatus *job)
{
	return job->n_served > 0 ? job->served[0]->stripe : 0;
}

/* The beginning of a job's sample; more labels may follow. */
static void begin_job(const struct writer *writer, const SmlControl__JobStatus *job)
{
	fprintf(writer->out, "%s{", writer->name);
	write_label(writer, "job_name", job->job);
	fprintf(writer->out, ",stripe=\"%" PRIu32 "\"", stripe_of(job));
}

static void write_u64(const struct writer *writer, uint64_t value)
{
	fprintf(writer->out, "%s %" PRIu64 "\n", writer->name, value);
}

static void write_with(const struct writer *writer, const char *label, const char *value,
		       uint64_t count)
{
	fprintf(writer->out, "%s{", writer->name);
	write_label(writer, label, value);
	fprintf(writer->out, "} %" PRIu64 "\n", count);
}

static uint64_t counter(SmlControl__Counter *const *counters, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(counters[i]->name, name) == 0)
			return counters[i]->value;
	return 0;
}

static uint64_t of_switch(const struct writer *writer, const char *name)
{
	return counter(writer->status->counters, writer->status->n_counters, name);
}

/* ---- of the switch ---- */

static void write_build(const struct writer *writer)
{
	fprintf(writer->out, "%s{", writer->name);
	write_label(writer, "version", writer->status->version);
	fputc(',', writer->out);
	write_label(writer, "dataplane", writer->status->dataplane);
	fprintf(writer->out, "} 1\n");
}

static void write_uptime(const struct writer *writer)
{
	fprintf(writer->out, "%s %.3f\n", writer->name, (double)writer->status->uptime_ms / 1e3);
}

static void write_slots(const struct writer *writer)
{
	write_u64(writer, writer->status->slots);
}

static void write_slots_in_use(const struct writer *writer)
{
	write_u64(writer, writer->status->slots_in_use);
}

static void write_jobs(const struct writer *writer)
{
	write_u64(writer, writer->status->n_jobs);
}

static void write_max_jobs(const struct writer *writer)
{
	write_u64(writer, writer->status->max_jobs);
}

static void write_unlisted(const struct writer *writer)
{
	write_u64(writer, writer->status->n_jobs - writer->n_jobs);
}

#define OF_SWITCH(function, counter_name)                                                          \
	static void function(const struct writer *writer)                                          \
	{                                                                                          \
		write_u64(writer, of_switch(writer, counter_name));                                \
	}
OF_SWITCH(write_packets_received, "packets-received")
OF_SWITCH(write_packets_sent, "packets-sent")
OF_SWITCH(write_packets_multicast, "packets-multicast")
OF_SWITCH(write_bytes_received, "bytes-received")
OF_SWITCH(write_bytes_sent, "bytes-sent")
OF_SWITCH(write_probes, "probes")
OF_SWITCH(write_refused, "connections-refused")
OF_SWITCH(write_evicted, "connections-evicted")

static void write_dropped(const struct writer *writer)
{
	write_with(writer, "reason", "receive-buffer", of_switch(writer, "socket-drops"));
	write_with(writer, "reason", "send-buffer", of_switch(writer, "send-drops"));
	write_with(writer, "reason", "checksum", of_switch(writer, "bad-checksums"));
}

static void write_verdicts(const struct writer *writer)
{
	for (unsigned i = 0; i < SML_VERDICTS; i++) {
		const char *name = sml_verdict_name((enum sml_verdict)i);

		write_with(writer, "verdict", name, of_switch(writer, name));
	}
}

/* ---- of the tree ---- */

static void write_level(const struct writer *writer)
{
	write_u64(writer, writer->status->level);
}

static void write_attached(const struct writer *writer)
{
	if (writer->status->parent[0] != '\0')
		write_with(writer, "parent", writer->status->parent,
			   writer->status->attached ? 1 : 0);
}

/* Have the leaves before it this name? It may have come back before its old connection ended. */
static bool is_second_leaf(const SmlControl__Status *status, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(status->leaves[i]->name, status->leaves[n]->name) == 0)
			return true;
	return false;
}

/* The statement for each leaf; it writes the rest of the sample. */
#define OF_LEAVES(function, format, value)                                                         \
	static void function(const struct writer *writer)                                          \
	{                                                                                          \
		for (size_t i = 0; i < writer->status->n_leaves; i++) {                            \
			const SmlControl__LeafStatus *leaf = writer->status->leaves[i];            \
			if (is_second_leaf(writer->status, i))                                     \
				continue;                                                          \
			fprintf(writer->out, "%s{", writer->name);                                 \
			write_label(writer, "leaf", leaf->name);                                   \
			fprintf(writer->out, "} " format "\n", value);                             \
		}                                                                                  \
	}
OF_LEAVES(write_leaf_ranks, "%" PRIu32, leaf->ranks)
OF_LEAVES(write_leaf_slots, "%" PRIu32, leaf->slots)
OF_LEAVES(write_leaf_slots_in_use, "%" PRIu32, leaf->slots_in_use)
OF_LEAVES(write_leaf_silence, "%.3f", (double)leaf->last_seen_ms / 1e3)

/* ---- of jobs ---- */

#define OF_JOB(function, field)                                                                    \
	static void function(const struct writer *writer)                                          \
	{                                                                                          \
		for (size_t i = 0; i < writer->n_jobs; i++) {                                      \
			begin_job(writer, writer->jobs[i]);                                        \
			fprintf(writer->out, "} %" PRIu32 "\n", writer->jobs[i]->field);           \
		}                                                                                  \
	}
OF_JOB(write_job_ranks, world_size)
OF_JOB(write_job_slots, slots)
OF_JOB(write_job_lanes, lanes)
OF_JOB(write_job_epoch, epoch)

static void write_job_state(const struct writer *writer)
{
	static const char *const states[] = {"joining", "handing over", "probing", "running",
					     "leaving"};

	for (size_t i = 0; i < writer->n_jobs; i++)
		for (size_t s = 0; s < sizeof(states) / sizeof(states[0]); s++) {
			begin_job(writer, writer->jobs[i]);
			fputc(',', writer->out);
			write_label(writer, "state", states[s]);
			fprintf(writer->out, "} %d\n",
				strcmp(writer->jobs[i]->state, states[s]) == 0);
		}
}

static void write_job_verdicts(const struct writer *writer)
{
	for (size_t i = 0; i < writer->n_jobs; i++)
		for (size_t c = 0; c < writer->jobs[i]->n_counters; c++) {
			begin_job(writer, writer->jobs[i]);
			fputc(',', writer->out);
			write_label(writer, "verdict", writer->jobs[i]->counters[c]->name);
			fprintf(writer->out, "} %" PRIu64 "\n",
				writer->jobs[i]->counters[c]->value);
		}
}

/* Leaves choose their names: two of one job may have the same. */
static bool is_second_branch(const SmlControl__JobStatus *job, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(job->branches[i]->leaf, job->branches[n]->leaf) == 0)
			return true;
	return false;
}

/* What each leaf of this switch contributes to the jobs that are listed. */
#define OF_BRANCHES(function, field)                                                               \
	static void function(const struct writer *writer)                                          \
	{                                                                                          \
		for (size_t i = 0; i < writer->n_jobs; i++)                                        \
			for (size_t b = 0; b < writer->jobs[i]->n_branches; b++) {                 \
				const SmlControl__BranchStatus *branch =                           \
					writer->jobs[i]->branches[b];                              \
				if (is_second_branch(writer->jobs[i], b))                          \
					continue;                                                  \
				begin_job(writer, writer->jobs[i]);                                \
				fputc(',', writer->out);                                           \
				write_label(writer, "leaf", branch->leaf);                         \
				fprintf(writer->out, "} %" PRIu64 "\n", (uint64_t)branch->field);  \
			}                                                                          \
	}
OF_BRANCHES(write_branch_ranks, ranks)
OF_BRANCHES(write_branch_contributions, contributions)
OF_BRANCHES(write_branch_resends, resends)
OF_BRANCHES(write_branch_completed, completed)

/* ---- of ranks ---- */

static void begin_rank(const struct writer *writer, const SmlControl__JobStatus *job,
		       const SmlControl__WorkerStatus *worker)
{
	begin_job(writer, job);
	fprintf(writer->out, ",rank=\"%" PRIu32 "\"", worker->rank);
}

/* The statement for each rank of the jobs that are listed; it writes the rest of the sample. */
#define OF_RANKS(function, condition, statement)                                                   \
	static void function(const struct writer *writer)                                          \
	{                                                                                          \
		for (size_t i = 0; i < writer->n_jobs; i++)                                        \
			for (size_t r = 0; r < writer->jobs[i]->n_workers; r++) {                  \
				const SmlControl__WorkerStatus *worker =                           \
					writer->jobs[i]->workers[r];                               \
				if (!(condition))                                                  \
					continue;                                                  \
				begin_rank(writer, writer->jobs[i], worker);                       \
				statement;                                                         \
			}                                                                          \
	}
#define RANK_COUNTER(function, condition, value)                                                   \
	OF_RANKS(function, condition, fprintf(writer->out, "} %" PRIu64 "\n", (uint64_t)(value)))
#define RANK_TRAFFIC(function, field)                                                              \
	RANK_COUNTER(function, worker->traffic != NULL, worker->traffic->field)

OF_RANKS(write_rank_info, true, {
	fputc(',', writer->out);
	write_label(writer, "host", worker->host);
	if (worker->leaf[0] != '\0') {
		fputc(',', writer->out);
		write_label(writer, "leaf", worker->leaf);
	}
	if (worker->sender > 0)
		fprintf(writer->out, ",sent_by=\"%" PRIu32 "\"", worker->sender - 1);
	fprintf(writer->out, "} 1\n");
})
RANK_COUNTER(write_rank_connected, true, strcmp(worker->state, "missing") != 0)
OF_RANKS(write_rank_silence, strcmp(worker->state, "missing") != 0,
	 fprintf(writer->out, "} %.3f\n", (double)worker->last_seen_ms / 1e3))
RANK_COUNTER(write_rank_contributions, true, worker->contributions)
RANK_COUNTER(write_rank_resends, true, worker->resends)
RANK_COUNTER(write_rank_completed, true, worker->completed)
RANK_TRAFFIC(write_rank_packets_sent, packets_sent)
RANK_TRAFFIC(write_rank_packets_received, packets_received)
RANK_TRAFFIC(write_rank_bytes_sent, bytes_sent)
RANK_TRAFFIC(write_rank_bytes_received, bytes_received)
OF_RANKS(write_rank_retransmits, worker->traffic != NULL, {
	fprintf(writer->out, ",cause=\"timeout\"} %" PRIu64 "\n",
		worker->traffic->retransmits_timeout);
	begin_rank(writer, writer->jobs[i], worker);
	fprintf(writer->out, ",cause=\"overtaken\"} %" PRIu64 "\n",
		worker->traffic->retransmits_fast);
})
RANK_COUNTER(write_rank_link, worker->traffic != NULL && worker->traffic->link_mbits > 0,
	     worker->traffic->link_mbits * 125000ull)

/* ---- all ---- */

static const struct family families[] = {
	{"switchml_build_info", "gauge", "", "The switch's version and dataplane.", write_build},
	{"switchml_uptime_seconds", "gauge", "seconds", "Time since the switch started.",
	 write_uptime},
	{"switchml_slots", "gauge", "", "Slots that the switch has.", write_slots},
	{"switchml_slots_in_use", "gauge", "", "Slots that jobs hold.", write_slots_in_use},
	{"switchml_jobs", "gauge", "", "Jobs at the switch.", write_jobs},
	{"switchml_jobs_limit", "gauge", "", "The most jobs at once.", write_max_jobs},
	{"switchml_jobs_unlisted", "gauge", "", "Jobs that have no series here.", write_unlisted},
	{"switchml_received_packets", "counter", "packets", "Packets that the switch has received.",
	 write_packets_received},
	{"switchml_sent_packets", "counter", "packets", "Packets that the switch has sent.",
	 write_packets_sent},
	{"switchml_multicast_packets", "counter", "packets",
	 "Packets that the switch has sent to groups.", write_packets_multicast},
	{"switchml_received_bytes", "counter", "bytes", "UDP payload that the switch has received.",
	 write_bytes_received},
	{"switchml_sent_bytes", "counter", "bytes", "UDP payload that the switch has sent.",
	 write_bytes_sent},
	{"switchml_probes", "counter", "", "Probes that the switch has received.", write_probes},
	{"switchml_dropped_packets", "counter", "packets",
	 "Packets that were lost at the switch, by reason.", write_dropped},
	{"switchml_packet_verdicts", "counter", "",
	 "Packets that the switch has received, by what became of them.", write_verdicts},
	{"switchml_connections_refused", "counter", "", "Control connections that were refused.",
	 write_refused},
	{"switchml_connections_evicted", "counter", "",
	 "Control connections that were closed to make room.", write_evicted},
	{"switchml_tree_level", "gauge", "",
	 "The switch's level in a tree of switches: 0 for a root, and for a switch without a tree.",
	 write_level},
	{"switchml_parent_attached", "gauge", "", "1 if this leaf's parent has accepted it.",
	 write_attached},
	{"switchml_leaf_ranks", "gauge", "", "Ranks behind the leaf.", write_leaf_ranks},
	{"switchml_leaf_slots", "gauge", "", "Slots that the leaf has.", write_leaf_slots},
	{"switchml_leaf_slots_in_use", "gauge", "", "Slots of the leaf that jobs hold.",
	 write_leaf_slots_in_use},
	{"switchml_leaf_silence_seconds", "gauge", "seconds",
	 "Time since the leaf's last control message.", write_leaf_silence},
	{"switchml_job_ranks", "gauge", "", "Ranks of the job.", write_job_ranks},
	{"switchml_job_state", "gauge", "", "1 for the state that the job is in.", write_job_state},
	{"switchml_job_epoch", "gauge", "",
	 "The job's epoch: 1 plus the switches that it has lost.", write_job_epoch},
	{"switchml_job_slots", "gauge", "", "Slots that the job holds.", write_job_slots},
	{"switchml_job_lanes", "gauge", "", "32-bit lanes of the job's full packets.",
	 write_job_lanes},
	{"switchml_job_packet_verdicts", "counter", "",
	 "Packets of the job, by what became of them.", write_job_verdicts},
	{"switchml_job_leaf_ranks", "gauge", "", "Ranks of the job behind the leaf.",
	 write_branch_ranks},
	{"switchml_job_leaf_contributions", "counter", "",
	 "Packets of the leaf that the switch has combined.", write_branch_contributions},
	{"switchml_job_leaf_resent_results", "counter", "",
	 "Results that the switch has sent to the leaf again.", write_branch_resends},
	{"switchml_job_leaf_completed_uses", "counter", "",
	 "Uses of slots for which the leaf's packet came last: the others waited for it.",
	 write_branch_completed},
	{"switchml_rank_info", "gauge", "",
	 "The host of the rank, its leaf, and the rank that sends its packets.", write_rank_info},
	{"switchml_rank_connected", "gauge", "", "1 if the rank has a control connection.",
	 write_rank_connected},
	{"switchml_rank_silence_seconds", "gauge", "seconds",
	 "Time since the rank's last control message.", write_rank_silence},
	{"switchml_rank_contributions", "counter", "",
	 "Packets of the rank that the switch has combined.", write_rank_contributions},
	{"switchml_rank_resent_results", "counter", "",
	 "Results that the switch has sent to the rank again.", write_rank_resends},
	{"switchml_rank_completed_uses", "counter", "",
	 "Uses of slots for which the rank's packet came last: the others waited for it.",
	 write_rank_completed},
	{"switchml_rank_sent_packets", "counter", "packets", "Packets that the rank has sent.",
	 write_rank_packets_sent},
	{"switchml_rank_received_packets", "counter", "packets",
	 "Packets that the rank has received.", write_rank_packets_received},
	{"switchml_rank_sent_bytes", "counter", "bytes", "UDP payload that the rank has sent.",
	 write_rank_bytes_sent},
	{"switchml_rank_received_bytes", "counter", "bytes",
	 "UDP payload that the rank has received.", write_rank_bytes_received},
	{"switchml_rank_retransmitted_packets", "counter", "packets",
	 "Packets that the rank has sent again: its timer fired, or later packets were answered.",
	 write_rank_retransmits},
	{"switchml_rank_link_speed_bytes", "gauge", "bytes",
	 "Bytes per second that the rank's link carries in each direction.", write_rank_link},
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
	family->write(writer);
}

char *sml_metrics_text(const SmlControl__Status *status, bool open_metrics, size_t *bytes)
{
	struct writer writer = {.open_metrics = open_metrics, .status = status};
	char *text = NULL;
	bool failed;

	writer.out = open_memstream(&text, bytes);
	if (writer.out == NULL)
		return NULL;
	choose_jobs(&writer);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		write_family(&writer, &families[i]);
	if (open_metrics)
		fprintf(writer.out, "# EOF\n");
	failed = ferror(writer.out) != 0;
	if (fclose(writer.out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

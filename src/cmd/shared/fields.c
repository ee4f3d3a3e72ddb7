/* SPDX-License-Identifier: BSD-3-Clause */
/* See fields.h. The order of rows is the order of members in JSON. */
#include "cmd/shared/fields.h"

#include <string.h>

#include "cmd/shared/view.h"
#include "core/wire.h"

/* The type in memory decides, so that no row can name another one. */
#define TYPE(struct_, member)                                                                      \
	_Generic(((struct_ *)NULL)->member,                                                        \
		char *: SML_FIELD_TEXT,                                                            \
		const char *: SML_FIELD_TEXT,                                                      \
		protobuf_c_boolean: SML_FIELD_BOOLEAN,                                             \
		uint32_t: SML_FIELD_U32,                                                           \
		uint64_t: SML_FIELD_U64,                                                           \
		double: SML_FIELD_REAL)
#define FIELD(name_, struct_, member, ...)                                                         \
	{                                                                                          \
		.name = name_, .type = TYPE(struct_, member), .offset = offsetof(struct_, member), \
		__VA_ARGS__                                                                        \
	}
/* Of another type than the one in memory says. */
#define AS(type_, name_, struct_, member, ...)                                                     \
	{                                                                                          \
		.name = name_, .type = type_, .offset = offsetof(struct_, member), __VA_ARGS__     \
	}
#define ARRAY(type_, name_, struct_, member, ...)                                                  \
	AS(type_, name_, struct_, member, .count = offsetof(struct_, n_##member), __VA_ARGS__)
#define KNOWN(struct_, member) .known = offsetof(struct_, member) + 1, .nullable = true
#define RECORD(fields_, ...)                                                                       \
	{                                                                                          \
		.fields = fields_, .n = sizeof(fields_) / sizeof(fields_[0]), __VA_ARGS__          \
	}

/* ---- rates, per second ---- */

#define RATE(name, member) FIELD(name, struct sml_switch_rates, member)
static const struct sml_field switch_rates[] = {
	RATE("seconds", seconds),	    RATE("packets_received", packets_received),
	RATE("packets_sent", packets_sent), RATE("bytes_received", bytes_received),
	RATE("bytes_sent", bytes_sent),
};
const struct sml_record sml_switch_rates_record = RECORD(switch_rates);
#undef RATE

/* What ranks count is unknown until one of them has reported it twice. */
#define RATE(name, member) FIELD(name, struct sml_job_rates, member)
#define MOVED(name, member)                                                                        \
	FIELD(name, struct sml_job_rates, traffic.member,                                          \
	      KNOWN(struct sml_job_rates, traffic.known))
static const struct sml_field job_rates[] = {
	RATE("uses", uses),
	RATE("resends", resends),
	RATE("duplicates", duplicates),
	MOVED("packets_sent", packets_sent),
	MOVED("packets_received", packets_received),
	MOVED("bytes_sent", bytes_sent),
	MOVED("bytes_received", bytes_received),
	MOVED("retransmits_timeout", timeouts),
	MOVED("retransmits_fast", fast),
	AS(SML_FIELD_INT, "slowest_rank", struct sml_job_rates, slowest, .nullable = true),
	FIELD("slowest_leaf", struct sml_job_rates, slowest_leaf, .nullable = true,
	      .help = "The leaf, if the others waited longer for it than for any rank."),
	FIELD("slowest_share", struct sml_job_rates, slowest_share, .nullable = true,
	      .help = "The part of the time for which they waited; null: for nobody."),
};
const struct sml_record sml_job_rates_record = RECORD(job_rates);
#undef RATE
#undef MOVED

#define RATE(name, member, ...) FIELD(name, struct sml_rank_rates, member, __VA_ARGS__)
static const struct sml_field rank_traffic_rates[] = {
	RATE("packets_sent", traffic.packets_sent),
	RATE("packets_received", traffic.packets_received),
	RATE("bytes_sent", traffic.bytes_sent),
	RATE("bytes_received", traffic.bytes_received),
	RATE("retransmits_timeout", traffic.timeouts),
	RATE("retransmits_fast", traffic.fast),
	RATE("link_share", link_share, .nullable = true,
	     .help = "Of the busier direction; null: the link's speed is not known."),
};
static const struct sml_record rank_traffic_rates_record = RECORD(rank_traffic_rates);
static const struct sml_field rank_rates[] = {
	RATE("contributions", contributions, KNOWN(struct sml_rank_rates, known)),
	RATE("resends", resends, KNOWN(struct sml_rank_rates, known)),
	RATE("waited_share", waited_share, .nullable = true,
	     .help = "The part of the time for which others waited for this rank."),
	{.name = "traffic",
	 .type = SML_FIELD_PART,
	 .record = &rank_traffic_rates_record,
	 KNOWN(struct sml_rank_rates, traffic.known)},
};
const struct sml_record sml_rank_rates_record = RECORD(rank_rates);
#undef RATE

#define RATE(member, ...) FIELD(#member, struct sml_branch_rates, member, __VA_ARGS__)
static const struct sml_field branch_rates[] = {
	RATE(contributions),
	RATE(resends),
	RATE(waited_share, .help = "As of a rank."),
};
const struct sml_record sml_branch_rates_record = RECORD(branch_rates);
#undef RATE

/* ---- the status ---- */

#define MOVED(member)                                                                              \
	FIELD(#member, SmlControl__Traffic, member,                                                \
	      .through = offsetof(SmlControl__WorkerStatus, traffic) + 1)
static const struct sml_field traffic[] = {
	AS(SML_FIELD_MS, "age_ms", SmlControl__WorkerStatus, traffic_age_ms),
	MOVED(packets_sent),
	MOVED(packets_received),
	MOVED(bytes_sent),
	MOVED(bytes_received),
	MOVED(retransmits_timeout),
	MOVED(retransmits_fast),
	MOVED(link_mbits),
	AS(SML_FIELD_MS, "host_waited_ms", SmlControl__Traffic, waited_ms,
	   .help = "How long the other ranks of its host that share memory have waited for it.",
	   .through = offsetof(SmlControl__WorkerStatus, traffic) + 1),
};
static const struct sml_record traffic_record = RECORD(traffic);

#define MEMBER(name, member, ...) FIELD(name, SmlControl__WorkerStatus, member, __VA_ARGS__)
static const struct sml_field worker[] = {
	MEMBER("rank", rank),
	MEMBER("host", host),
	MEMBER("pid", pid),
	MEMBER("state", state),
	AS(SML_FIELD_MS, "last_seen_ms", SmlControl__WorkerStatus, last_seen_ms),
	MEMBER("contributions", contributions),
	MEMBER("resends", resends),
	AS(SML_FIELD_MS, "waited_ms", SmlControl__WorkerStatus, waited_ms,
	   .help = "How long others have waited for it; for the first rank of a host that sends as "
		   "one: for the host."),
	MEMBER("leaf", leaf,
	       .help = "The leaf that the rank is connected to; empty: the switch "
		       "that was asked."),
	MEMBER("via", via,
	       .help = "The leaf of the switch that was asked, if `leaf' is a leaf of "
		       "that leaf; otherwise empty."),
	AS(SML_FIELD_NEXT, "sent_by", SmlControl__WorkerStatus, sender, .nullable = true,
	   .help = "The rank that sends this rank's packets: another one if they share memory; "
		   "null: not known yet."),
	{.name = "traffic",
	 .type = SML_FIELD_PART,
	 .record = &traffic_record,
	 .nullable = true,
	 .through = offsetof(SmlControl__WorkerStatus, traffic) + 1},
};
const struct sml_record sml_worker_record = RECORD(worker, .rates = &sml_rank_rates_record);
#undef MEMBER

#define MEMBER(member, ...) FIELD(#member, SmlControl__BranchStatus, member, __VA_ARGS__)
static const struct sml_field branch[] = {
	MEMBER(leaf),
	MEMBER(ranks, .least = 1),
	MEMBER(contributions),
	MEMBER(resends),
	AS(SML_FIELD_MS, "waited_ms", SmlControl__BranchStatus, waited_ms),
};
const struct sml_record sml_branch_record = RECORD(branch, .rates = &sml_branch_rates_record);
#undef MEMBER

#define MEMBER(member) FIELD(#member, SmlControl__StripeStatus, member)
static const struct sml_field stripe[] = {
	MEMBER(stripe),	    MEMBER(where),     MEMBER(contributions),  MEMBER(resends),
	MEMBER(duplicates), MEMBER(completed), MEMBER(bytes_received), MEMBER(bytes_sent),
};
static const struct sml_record stripe_record = RECORD(stripe);
#undef MEMBER

#define MEMBER(name, member, ...) FIELD(name, SmlControl__JobStatus, member, __VA_ARGS__)
#define MEMBERS(name, member, ...)                                                                 \
	ARRAY(SML_FIELD_RECORDS, name, SmlControl__JobStatus, member, __VA_ARGS__)
static const struct sml_field job[] = {
	MEMBER("job", job),
	MEMBER("job_number", job_number),
	MEMBER("epoch", epoch),
	MEMBER("world_size", world_size, .least = 1, .most = SML_MAX_WORLD),
	MEMBER("lanes", lanes),
	MEMBER("slots", slots),
	MEMBER("state", state),
	MEMBER("follows", follows,
	       .help = "The job that its ranks were in before, in an elastic job; empty: none."),
	MEMBER("changes", changes, .help = "How often the members have changed until this job."),
	MEMBER("joined", joined, .help = "Its ranks that were not in the job that it follows."),
	MEMBER("left", left, .help = "The ranks of that job that are not in this one."),
	MEMBER("waiting", waiting, .help = "Processes that wait to join it."),
	MEMBER("stripes", stripes),
	MEMBER("shares_memory", shares_memory),
	MEMBERS("served", served, .record = &stripe_record),
	MEMBERS("leaves", branches, .record = &sml_branch_record,
		.help = "Of this switch, what each of its leaves contributes to the job."),
	MEMBERS("workers", workers, .record = &sml_worker_record),
	MEMBER("workers_left_out", left_out),
	ARRAY(SML_FIELD_COUNTERS, "counters", SmlControl__JobStatus, counters),
};
const struct sml_record sml_job_record = RECORD(job, .rates = &sml_job_rates_record);
#undef MEMBER
#undef MEMBERS

#define MEMBER(member) FIELD(#member, SmlControl__LeafStatus, member)
static const struct sml_field leaf[] = {
	MEMBER(name),
	MEMBER(ranks),
	MEMBER(slots),
	MEMBER(slots_in_use),
	AS(SML_FIELD_MS, "last_seen_ms", SmlControl__LeafStatus, last_seen_ms),
};
const struct sml_record sml_leaf_record = RECORD(leaf);
#undef MEMBER

#define MEMBER(member) FIELD(#member, SmlControl__WaitingProcess, member)
static const struct sml_field waiting[] = {
	MEMBER(job),   MEMBER(host),
	MEMBER(pid),   AS(SML_FIELD_MS, "waiting_ms", SmlControl__WaitingProcess, waiting_ms),
	MEMBER(joins), MEMBER(rank),
};
static const struct sml_record waiting_record = RECORD(waiting);
#undef MEMBER

#define MEMBER(member, ...)	   FIELD(#member, SmlControl__Status, member, __VA_ARGS__)
#define MEMBERS(type, member, ...) ARRAY(type, #member, SmlControl__Status, member, __VA_ARGS__)
static const struct sml_field status[] = {
	MEMBER(version),
	MEMBER(protocol, .help = "The control protocol's number; 0: the switch is too old to say."),
	MEMBER(dataplane),
	MEMBER(data_port),
	AS(SML_FIELD_MS, "uptime_ms", SmlControl__Status, uptime_ms),
	MEMBER(slots),
	MEMBER(slots_in_use),
	MEMBER(max_jobs),
	MEMBER(kept_jobs, .help = "Places that jobs keep while their members change."),
	MEMBER(parent, .help = "For a leaf: the address of its parent. Otherwise empty."),
	MEMBER(attached, .help = "For a leaf: whether its parent has accepted it."),
	MEMBER(level, .help = "0 for a root, and 1 or 2 for a leaf."),
	MEMBERS(SML_FIELD_RECORDS, leaves, .record = &sml_leaf_record),
	MEMBERS(SML_FIELD_RECORDS, jobs, .record = &sml_job_record),
	MEMBERS(SML_FIELD_RECORDS, waiting, .record = &waiting_record,
		.help = "Processes that ask to be in a job's next membership."),
	MEMBERS(SML_FIELD_COUNTERS, counters),
};
const struct sml_record sml_switch_record = RECORD(status, .rates = &sml_switch_rates_record);

/* ---- reading ---- */

static bool is_unknown(const struct sml_field *field, const void *at)
{
	switch (field->type) {
	case SML_FIELD_TEXT:
		return *(const char *const *)at == NULL;
	case SML_FIELD_INT:
		return *(const int *)at < 0;
	case SML_FIELD_NEXT:
		return *(const uint32_t *)at == 0;
	case SML_FIELD_REAL:
		return *(const double *)at < 0;
	default:
		return false;
	}
}

const void *sml_field_at(const struct sml_field *field, const void *record)
{
	const char *base = record, *at;

	if (field->known > 0 && !*(const bool *)(base + field->known - 1))
		return NULL;
	/* A part begins where its struct does, so that its own fields go through the pointer. */
	if (field->through > 0) {
		const char *inner = *(const char *const *)(const void *)(base + field->through - 1);

		if (inner == NULL || field->type == SML_FIELD_PART)
			return inner == NULL ? NULL : record;
		base = inner;
	}
	at = base + field->offset;
	return field->nullable && is_unknown(field, at) ? NULL : at;
}

const struct sml_field *sml_field_find(const struct sml_record *record, const char *name)
{
	const struct sml_field *found = NULL;

	for (size_t i = 0; i < record->n && found == NULL; i++) {
		const struct sml_field *field = &record->fields[i];

		if (strcmp(field->name, name) == 0)
			found = field;
		else if (field->type == SML_FIELD_PART)
			found = sml_field_find(field->record, name);
	}
	return found;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/names.h"
#include "lib/context/membership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/plural.h"
#include "job/common/ranks.h"
#include "lib/progress/line.h"
#include "lib/settings/unknown.h"

/* ---- what runs ---- */

/* Whether all ranks embed stripes or only some, and which one is this rank's. */
static size_t describe_embedded(const struct sml_context *context, char *text, size_t bytes)
{
	unsigned n = context->n_stripes;
	const char *where = context->form->path == SML_PATH_HOSTS ? "one on every host"
			    : n == context->settings.world_size	  ? "one in every rank"
			    : n == 1				  ? "in the first rank"
								  : "in the first ranks";
	char own[48] = "none here";

	if (context->threads.own)
		snprintf(own, sizeof(own), "stripe %u here", context->threads.own->rank);
	return (size_t)snprintf(text, bytes, "no switch: %u stripe%s, %s (%s): ", n, sml_plural(n),
				where, own);
}

/* "ranks 1 and 3 share this host's memory (…)" */
static void describe_host(const struct sml_host *host, char *text, size_t bytes)
{
	char names[SML_RANKS_TEXT_BYTES];
	struct sml_ranks ranks = {{0}};

	for (unsigned i = 0; i < host->memory.terms.n_ranks; i++)
		sml_ranks_add(&ranks, host->job_ranks[i]);
	sml_ranks_text(&ranks, 0, names, sizeof(names));
	snprintf(text, bytes, "ranks %s share this host's memory", names);
}

static const char *how_they_wait(const struct sml_host *host)
{
	return host->has_cores ? "each has a core: waiting ranks spin, then sleep"
			       : "fewer cores than ranks: waiting ranks sleep";
}

/* The form of the job, and the place of each stripe. */
static void describe_form(const struct sml_context *context, char *text, size_t bytes)
{
	const struct sml_stripe *first = &context->stripes[0];
	const struct sml_host *host = context->threads.host;
	size_t length;
	bool lists;

	if (context->form->path == SML_PATH_MEMORY) {
		snprintf(text, bytes,
			 "ranks 0 to %u share this host's memory and send no packets (%s)",
			 context->settings.world_size - 1u, how_they_wait(host));
		return;
	}
	if (context->form->path != SML_PATH_SWITCH)
		length = describe_embedded(context, text, bytes);
	else if (context->n_stripes > 1)
		length = (size_t)snprintf(text, bytes, "%u dedicated switches, %s dataplane: ",
					  context->n_stripes, first->admission.dataplane);
	else
		length = (size_t)snprintf(text, bytes, "dedicated switch %s, %s dataplane",
					  sml_stripe_name(first), first->admission.dataplane);
	lists = context->n_stripes > 1 || context->form->path != SML_PATH_SWITCH;
	for (unsigned i = 0; lists && i < context->n_stripes && length < bytes; i++)
		length += (size_t)snprintf(text + length, bytes - length, "%sstripe %u: %s",
					   i ? ", " : "", i, sml_stripe_name(&context->stripes[i]));
	if (host && length < bytes) {
		char group[SML_RANKS_TEXT_BYTES + 64];

		describe_host(host, group, sizeof(group));
		snprintf(text + length, bytes - length, "; %s, and rank %u sends their sums (%s)",
			 group, host->job_ranks[0], how_they_wait(host));
	}
}

static void describe_ports(const struct sml_port_range *ports, char *text, size_t bytes)
{
	if (sml_port_range_is_set(ports))
		snprintf(text, bytes, "ports %u-%u (SWITCHML_PORTS)", ports->first, ports->last);
	else
		snprintf(text, bytes, "any ports");
}

void sml_log_choices(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	const struct sml_stripe *first = &context->stripes[0];
	const struct sml_interface *interface = &first->connection.interface;
	const struct sml_admission *admission = &first->admission;
	const struct sml_shard *shard = context->stripes[context->n_stripes - 1].shards[0];
	const struct sml_transport *transport = shard->line->transport;
	char source[INET6_ADDRSTRLEN], form[SML_TEXT_BYTES], ports[48];
	/* The rank that embeds the first stripe reaches it by loopback. */
	uint32_t mtu = settings->config.mtu ? (uint32_t)settings->config.mtu : interface->mtu;
	bool narrower =
		context->shape.lanes < sml_lanes_of_mtu(mtu, interface->source.any.sa_family);
	bool faulty = transport && strcmp(transport->ops->name, "faults") == 0;

	describe_ports(&settings->ports, ports, sizeof(ports));
	describe_form(context, form, sizeof(form));
	sml_log(&settings->log, SML_LOG_INFO,
		"job \"%s\": rank %u of %u; %s; interface %s (%s, %s); %s; "
		"%u lanes per packet (path MTU %u%s, %s); %u + %u slots%s "
		"(asked for %u + %u); window %u; %s wire; %u thread%s (asked for %u: %s)%s; "
		"%s%s",
		settings->config.job, settings->rank, settings->world_size, form, interface->name,
		sml_sockaddr_text(&interface->source, source),
		interface->bound ? "SWITCHML_SOCKET_IFNAME" : "by the route", ports,
		context->shape.lanes, mtu, settings->config.mtu ? " as asked" : "",
		!narrower		? "the narrowest of all ranks"
		: first->path_is_narrow ? "of the interface: the path's is smaller"
					: "others' are narrower",
		admission->head_slots, admission->data_slots,
		context->n_stripes > 1 ? " per stripe" : "", settings->head_slots,
		settings->data_slots, shard->worker.config.window_max,
		sml_wire_name(settings->config.wire), admission->shards,
		sml_plural(admission->shards), settings->threads, settings->threads_why,
		settings->config.spin ? ", spinning" : "",
		transport ? transport->features : "no sockets", faulty ? "; WITH FAULTS" : "");
}

/* ---- rank 0's lines ---- */

/*
 * Is this the rank that logs them? Alone, it sends nothing, and waits for nobody. A context has no
 * stripes after sml_reconfigure() has failed: that job has not begun.
 */
static bool has_lines(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;

	return settings->config.summary && settings->rank == 0 && settings->world_size > 1 &&
	       settings->log.level >= SML_LOG_WARN && context->n_stripes > 0;
}

/* Whatever the level is. */
static void log_line(const struct sml_context *context, const char *text)
{
	struct sml_log log = context->settings.log;

	if (log.level < SML_LOG_INFO)
		log.level = SML_LOG_INFO;
	sml_log(&log, SML_LOG_INFO, "%s", text);
}

enum sml_job_path sml_context_path(const struct sml_context *context, const char *kind, char *text,
				   size_t bytes)
{
	const struct sml_stripe *first = &context->stripes[0];
	unsigned n = context->n_stripes;
	const enum sml_job_path path = n > 0 ? context->form->path : SML_PATH_NONE;
	/* Ranks that share it add there first, and one sends: the switch adds the hosts' sums. */
	const char *memory = context->threads.host ? "memory and " : "";

	if (path == SML_PATH_NONE)
		return path;
	if (path == SML_PATH_MEMORY)
		snprintf(text, bytes, "this host's memory");
	else if (path == SML_PATH_HOSTS)
		snprintf(text, bytes, "a part of the switch on each of %u hosts", n);
	else if (path == SML_PATH_RANKS)
		snprintf(text, bytes, "a part of the switch in %s%u rank%s",
			 n == context->settings.world_size ? "each of " : "", n, sml_plural(n));
	else if (n == 1)
		snprintf(text, bytes, "%sthe switch at %.80s%s", memory, sml_stripe_name(first),
			 kind);
	else
		snprintf(text, bytes, "%s%u switches%s, the first at %.80s", memory, n, kind,
			 sml_stripe_name(first));
	return path == SML_PATH_SWITCH && *memory ? SML_PATH_MEMORY_AND_SWITCH : path;
}

/* With the kind of switch: for when no failover can begin. */
static void name_switches(const struct sml_context *context, char *text, size_t bytes)
{
	char kind[sizeof(context->stripes[0].admission.dataplane) + sizeof(" ()")];

	snprintf(kind, sizeof(kind), " (%s)", context->stripes[0].admission.dataplane);
	sml_context_path(context, kind, text, bytes);
}

void sml_log_start(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	unsigned n_hosts = context->stripes[0].admission.n_hosts;
	char place[192], hosts[32] = "", line[SML_TEXT_BYTES];

	if (!has_lines(context))
		return;
	name_switches(context, place, sizeof(place));
	if (n_hosts > 0)
		snprintf(hosts, sizeof(hosts), " on %u host%s", n_hosts, sml_plural(n_hosts));
	snprintf(line, sizeof(line), "job \"%s\": %u ranks%s, through %s, %s wire",
		 settings->config.job, settings->world_size, hosts, place,
		 sml_wire_name(settings->config.wire));
	log_line(context, line);
}

/* "4.93 GB" */
static const char *size_text(double bytes, char text[16])
{
	static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
	unsigned unit = 0;

	for (; bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		bytes /= 1000;
	snprintf(text, 16, unit && bytes < 99.5 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
	return text;
}

/* What rank 0 has sent, and would have sent in a ring. */
static void add_traffic(const struct sml_context *context, uint64_t sent, char *text, size_t bytes)
{
	char own[16], ring[16];

	size_text((double)context->usage.ring_bytes, ring);
	if (context->form->path == SML_PATH_MEMORY)
		snprintf(text, bytes, "; no packets (in a ring, each rank sends %s)", ring);
	else
		snprintf(text, bytes, "; rank 0 sent %s (in a ring: %s)",
			 size_text((double)sent, own), ring);
}

/* "12.5 s", "58 ms", "1.2 ms". */
static const char *time_text(double ns, char text[16])
{
	if (ns >= 0.095 * SML_NS_PER_SEC)
		snprintf(text, 16, "%.1f s", ns / SML_NS_PER_SEC);
	else
		snprintf(text, 16, "%.*f ms", ns < 10.0 * SML_NS_PER_MS, ns / SML_NS_PER_MS);
	return text;
}

static void add_times(const struct sml_context *context, uint64_t now_ns, char *text, size_t bytes)
{
	const struct sml_usage *usage = &context->usage;
	double all_ns = (double)(now_ns - usage->opened_ns);
	const char *slowest;
	char all[16], waited[16];
	uint64_t ms = sml_control_slowest(context->stripes[0].control, &slowest);
	int length = snprintf(text, bytes, "; calls took %.0f %% of %s",
			      100 * (double)sml_usage_busy_ns(usage, now_ns) / all_ns,
			      time_text(all_ns, all));

	if (ms > 0 && length > 0 && (size_t)length < bytes)
		snprintf(text + length, bytes - (size_t)length, "; the others waited %s for %s",
			 time_text((double)ms * SML_NS_PER_MS, waited), slowest);
}

#define OUTCOME_BYTES 256

/* "has ended: ", "has failed: ", "has failed: rank 2 (host node4, pid 4711) died; ". */
static void describe_outcome(struct sml_context *context, int error, char *text, size_t bytes)
{
	static const char death[] = " died";
	const char *end, *reason, *rank;

	snprintf(text, bytes, "%s: ", error ? "has failed" : "has ended");
	if (error != SML_ERROR_RANK_DIED)
		return;
	pthread_mutex_lock(&context->lock);
	/* If the job has failed only when this rank left it, the context has no error. */
	reason = context->error ? context->text : sml_error_last();
	end = strstr(reason, death);
	/* What came before, as a switch that was lost, stands in the error's own text. */
	for (rank = end; rank && rank > reason && strncmp(rank, "rank ", 5) != 0;)
		rank--;
	if (end && end + strlen(death) - rank < OUTCOME_BYTES - 32)
		snprintf(text, bytes, "has failed: %.*s; ", (int)(end + strlen(death) - rank),
			 rank);
	pthread_mutex_unlock(&context->lock);
}

/* What had no effect in this process: the warning about it has scrolled away. */
static void describe_unknown(char *text, size_t bytes)
{
	const char *names = sml_variables_unknown();

	if (*names)
		snprintf(text, bytes, "; %s had no effect", names);
	else
		*text = '\0';
}

void sml_log_end(struct sml_context *context, int error)
{
	const struct sml_usage *usage = &context->usage;
	struct sml_counters c = {.size = sizeof(c)};
	char place[192], size[16], traffic[96] = "", times[256], elsewhere[96] = "";
	char outcome[OUTCOME_BYTES], unknown[160], line[SML_TEXT_BYTES];

	if (!has_lines(context))
		return;
	sml_context_count(context, &c);
	name_switches(context, place, sizeof(place));
	if (usage->bytes > 0)
		add_traffic(context, c.bytes_sent, traffic, sizeof(traffic));
	add_times(context, sml_now_ns(), times, sizeof(times));
	describe_outcome(context, error, outcome, sizeof(outcome));
	describe_unknown(unknown, sizeof(unknown));
	pthread_mutex_lock(&context->lock);
	if (usage->n_elsewhere > 0)
		snprintf(elsewhere, sizeof(elsewhere), "; %" PRIu64 " call%s left to %s",
			 usage->n_elsewhere, sml_plural((unsigned)usage->n_elsewhere),
			 usage->elsewhere);
	pthread_mutex_unlock(&context->lock);
	snprintf(line, sizeof(line), "job \"%s\" %s%" PRIu64 " call%s of %s through %s%s%s%s%s",
		 context->settings.config.job, outcome, c.tensors, sml_plural((unsigned)c.tensors),
		 size_text((double)usage->bytes, size), place, traffic, times, elsewhere, unknown);
	log_line(context, line);
}

/* ---- what it moved ---- */

static void log_stripe(const struct sml_context *context, unsigned stripe)
{
	struct sml_counters c = {.size = sizeof(c)};
	const char *name = sml_stripe_name(&context->stripes[stripe]);

	sml_context_count_stripe(context, stripe, &c);
	sml_log(&context->settings.log, SML_LOG_INFO,
		"stripe %u (%s%s): %.3f MB sent, %.3f MB received, %" PRIu64
		" packets sent again by the timer, %" PRIu64
		" because later ones were answered, RTT %.3f ms (least %.3f), window %" PRIu64,
		stripe, name,
		context->threads.own && stripe == context->threads.own->rank ? ", this rank's own"
									     : "",
		(double)c.bytes_sent / 1e6, (double)c.bytes_received / 1e6, c.retransmits_timeout,
		c.retransmits_fast, (double)c.rtt_ns / 1e6, (double)c.rtt_min_ns / 1e6, c.window);
}

void sml_log_counters(const struct sml_context *context)
{
	struct sml_counters c = {.size = sizeof(c)};

	if (context->n_stripes == 0)
		return;
	sml_context_count(context, &c);
	sml_log(&context->settings.log, SML_LOG_INFO,
		"%" PRIu64 " calls, %" PRIu64 " packets sent, %" PRIu64 " received, %" PRIu64
		" sent again by the timer in %" PRIu64 " stalls, %" PRIu64
		" because later ones were answered, %" PRIu64
		" ignored, RTT %.3f ms (least %.3f), window %" PRIu64,
		c.tensors, c.packets_sent, c.packets_received, c.retransmits_timeout, c.stalls,
		c.retransmits_fast, c.packets_ignored, (double)c.rtt_ns / 1e6,
		(double)c.rtt_min_ns / 1e6, c.window);
	for (unsigned i = 0; context->n_stripes > 1 && i < context->n_stripes; i++)
		log_stripe(context, i);
}

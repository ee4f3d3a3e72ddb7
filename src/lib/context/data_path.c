/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/least.h"
#include "base/plural.h"
#include "lib/progress/progress.h"

/* What the kernel charges a buffer for a packet, in addition to the packet. */
#define PACKET_SLACK_BYTES 1024
#define WINDOW_MIN	   4

/* ---- transports ---- */

static bool has_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* All ranks of a host share the range, and each has a port for each thread and each switch. */
static int report_no_port(const struct sml_context *context)
{
	const struct sml_settings *settings = &context->settings;
	unsigned n_switches = context->n_stripes;
	bool has_switches = context->form->has_switches;
	/* Without one, its sockets are there before the admission. */
	unsigned threads = has_switches ? context->stripes[0].admission.shards : settings->threads;
	int local = sml_launcher_local_size();

	return sml_error_set(
		SML_ERROR_CONFIG,
		"all %u UDP ports of SWITCHML_PORTS=%u-%u are in use on this host. A rank needs "
		"%u (%u thread%s x %u %s)%s: set SWITCHML_PORTS to a wider range, or see which "
		"programs use these ports: ss -lunp",
		sml_port_range_count(&settings->ports), settings->ports.first, settings->ports.last,
		threads * n_switches, threads, sml_plural(threads), n_switches,
		!has_switches	  ? "socket"
		: n_switches == 1 ? "switch"
				  : "switches",
		local == 1 ? "" : ", and all ranks of the host share the range");
}

int sml_data_path_open_transport(const struct sml_stripe *stripe, unsigned shard,
				 const union sml_sockaddr *peers, struct sml_transport **transport)
{
	const struct sml_settings *settings = &stripe->context->settings;
	const struct sml_faults *faults = &settings->faults;
	struct sml_transport_config config = {
		.interface = &stripe->connection.interface,
		.ports = settings->ports,
		.peer = stripe->connection.endpoint->address,
		.peers = peers,
		/* Without a tree, where it matters. */
		.own = (uint8_t)settings->rank,
		.log = &settings->log,
		.single_packets = stripe->admission.single_packets,
	};
	struct sml_transport *faulty;
	uint64_t salt =
		((uint64_t)stripe->index * SML_MAX_WORLD + settings->rank) * SML_MAX_SHARDS + shard;
	int error;

	sml_sockaddr_set_port(&config.peer, stripe->admission.data_port);
	if (peers && has_ipv6())
		config.peer.any.sa_family = AF_INET6;
	error = sml_transport_udp.open(transport, &config);
	if (error == -EADDRINUSE && sml_port_range_is_set(&settings->ports))
		return report_no_port(stripe->context);
	if (error || (faults->drop | faults->duplicate | faults->reorder) == 0)
		return error;
	faulty = sml_faults_wrap(*transport, faults, salt);
	if (faulty == NULL)
		return sml_error_set(-ENOMEM, "no memory for the faults of SWITCHML_FAULTS");
	*transport = faulty;
	return 0;
}

void sml_data_path_close(struct sml_transport **transports)
{
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++) {
		if (transports[i])
			transports[i]->ops->close(transports[i]);
		transports[i] = NULL;
	}
}

static int probe_path(const struct sml_stripe *stripe, struct sml_control *control,
		      struct sml_transport **transports, uint16_t *lanes, uint64_t deadline_ns)
{
	struct sml_probe *probe = sml_probe_new(stripe, transports, NULL);
	int error = probe ? sml_probe_run(probe, control, lanes, deadline_ns) : -ENOMEM;

	sml_probe_free(probe);
	return error;
}

/*
 * The lane count determines the chunks, so a running job cannot change it. Check before Ready,
 * which is a commitment.
 */
static int check_terms(struct sml_stripe *stripe, uint16_t lanes)
{
	const struct sml_context *context = stripe->context;
	bool begins = context->shape.lanes == 0,
	     resumes = sml_admission_resumes(&stripe->admission);
	/* This rank may begin where others go on. */
	uint16_t needed = begins && resumes ? stripe->admission.lanes : context->shape.lanes;
	const char *why;

	if (begins && (!resumes || lanes == needed))
		return 0;
	if (!begins && stripe->admission.shards != stripe->n_shards)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it admits the job with %u shards, but the job has %u: set "
				     "SWITCHML_THREADS=1 on all ranks, or install the same release "
				     "on all switches",
				     stripe->admission.shards, stripe->n_shards);
	if (lanes != needed)
		return sml_error_set(begins ? SML_ERROR_UNREACHABLE : SML_ERROR_PROTOCOL,
				     "only %u lanes per packet fit the path to it, but the job "
				     "uses %u: raise that path's MTU, or set SWITCHML_MTU on all "
				     "ranks to the smallest MTU on the paths to any switch",
				     lanes, needed);
	if (stripe->admission.full_packets && !context->shape.only_full)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it takes only full packets, and the job has begun at a "
				     "switch that also takes shorter ones: start all switches of "
				     "the job with the same --dataplane");
	if (stripe->admission.only_int32 && !context->shape.only_int32)
		return sml_error_set(SML_ERROR_PROTOCOL,
				     "it adds only int32 lanes, and the job has begun at a switch "
				     "that also adds int16 lanes: list only switches of one kind "
				     "in SWITCHML_SWITCH");
	if (!stripe->admission.rounds && context->shape.rounds)
		return sml_error_set(
			SML_ERROR_PROTOCOL,
			"it does not round sums of narrow lanes, and the job has begun "
			"at switches that do: list only switches of one kind in "
			"SWITCHML_SWITCH");
	why = sml_submit_hold(stripe);
	return why ? sml_error_set(SML_ERROR_PROTOCOL, "%s", why) : 0;
}

/* Ready: may end with another admission instead of the start. */
static int agree_once(struct sml_stripe *stripe, struct sml_control *control,
		      struct sml_transport **transports, struct sml_readiness *found,
		      uint64_t deadline_ns)
{
	const struct sml_admission *admission = &stripe->admission;
	int error = check_terms(stripe, admission->lanes);
	bool sends;

	*found = (struct sml_readiness){.lanes = admission->lanes};
	if (error == 0)
		error = sml_hosts_meet(stripe, control, NULL, found);
	sends = sml_hosts_sends(stripe, found);
	for (unsigned i = 0; error == 0 && sends && i < admission->shards; i++)
		error = sml_data_path_open_transport(stripe, i, NULL, &transports[i]);
	if (error == 0 && sends)
		error = probe_path(stripe, control, transports, &found->lanes, deadline_ns);
	stripe->path_is_narrow = found->lanes < admission->lanes;
	if (error == 0)
		error = check_terms(stripe, found->lanes);
	if (error)
		return error;
	stripe->may_have_begun = true;
	stripe->reported_shared = found->shares_memory;
	if (!sml_admission_resumes(admission))
		stripe->began = *admission;
	return sml_control_ready(control, found, NULL, deadline_ns);
}

int sml_data_path_agree(struct sml_stripe *stripe, struct sml_control *control,
			struct sml_transport **transports, uint16_t *lanes, uint64_t deadline_ns)
{
	struct sml_readiness found;
	int error = agree_once(stripe, control, transports, &found, deadline_ns);

	if (error == 0 && found.admitted_again) {
		sml_data_path_close(transports);
		error = sml_control_admission(control, NULL, &stripe->admission, deadline_ns);
		if (error == 0)
			error = agree_once(stripe, control, transports, &found, deadline_ns);
	}
	*lanes = found.lanes;
	return error;
}

/* ---- workers ---- */

/*
 * The packets in flight that fit the buffers of the switch and of this socket. If the ranks embed
 * the stripes, all of them send contributions and results to one socket.
 */
static uint32_t window_of(const struct sml_stripe *stripe, const struct sml_transport *transport)
{
	const struct sml_context *context = stripe->context;
	const struct sml_admission *admission = &stripe->admission;
	uint32_t packet = SML_HEADER_BYTES + 4u * context->shape.lanes;
	uint32_t own = transport->receive_bytes / (packet + packet / 4 + PACKET_SLACK_BYTES);
	uint32_t switchs, window;

	sml_assert(admission->shards > 0);
	if (admission->stripes > 0)
		own /= context->senders.n + context->n_stripes;
	switchs = admission->window_packets / admission->shards;
	window = switchs ? sml_least(switchs, own) : own;
	return sml_most(window, WINDOW_MIN);
}

static struct sml_worker_config worker_config(const struct sml_stripe *stripe, unsigned index,
					      const struct sml_transport *transport)
{
	const struct sml_admission *admission = &stripe->admission;
	const struct sml_shape *shape = &stripe->context->shape;

	return (struct sml_worker_config){
		.cookie = admission->cookie,
		.tag = admission->tag,
		.job = admission->job_number,
		.epoch = admission->epoch,
		/* Without `floats`, which calls need: another stripe's failover may change it. */
		.shape = {.lanes = shape->lanes,
			  .rank = shape->rank,
			  .n_ranks = shape->n_ranks,
			  .only_full = shape->only_full,
			  .only_int32 = shape->only_int32,
			  .rounds = shape->rounds},
		.head_slots = admission->head_slots,
		.data_slots = admission->data_slots,
		.shard = (uint8_t)index,
		.n_shards = admission->shards,
		.stripe = stripe->index,
		.n_stripes = (uint8_t)stripe->context->n_stripes,
		.number = admission->number,
		.omits = admission->omits && !shape->only_full,
		.no_tickets = stripe->context->settings.faults.no_tickets,
		.no_fast_retransmit = stripe->context->settings.faults.no_fast_retransmit,
		.no_resume = !stripe->context->form->has_switches,
		.local = !transport || (stripe->context->threads.own &&
					stripe->index == stripe->context->threads.own->rank),
		.gathers = transport && stripe->context->threads.host,
		.window_max = transport ? window_of(stripe, transport) : SML_MAX_SLOTS,
	};
}

static int add_shard(struct sml_stripe *stripe, unsigned index, struct sml_line *line)
{
	struct sml_worker_config config = worker_config(stripe, index, line->transport);

	stripe->shards[index] = sml_shard_new(&config, line, &stripe->park);
	if (stripe->shards[index] == NULL)
		return -ENOMEM;
	stripe->n_shards++;
	return 0;
}

static int add_line(struct sml_progress *progress, struct sml_stripe *stripe, unsigned turn)
{
	struct sml_context *context = stripe->context;
	struct sml_transport **transport = &stripe->transports[progress->index];
	struct sml_line *line = sml_line_new(*transport, context->threads.own);

	if (line == NULL)
		return sml_error_set(-ENOMEM, "no memory for a socket's packets");
	line->turn = turn;
	line->trace = context->tracing.traces[progress->index];
	line->control = context->stripes[sml_context_source(context, stripe->index)].control;
	/* Where ranks have the slots, they have announced their addresses. */
	line->renews = line->transport && context->form->has_switches;
	if (context->threads.host)
		line->host = &context->threads.host[stripe->index];
	*transport = NULL;
	progress->lines[progress->n_lines++] = line;
	return 0;
}

/*
 * One line for each stripe, so that its switch can be replaced alone. If ranks have the slots, one
 * for all stripes: this rank's, or its host's.
 */
static int add_lines(struct sml_context *context, struct sml_progress *progress)
{
	bool shared =
		!context->form->has_switches && context->stripes[0].transports[progress->index];
	int error = 0;

	for (unsigned i = 0; error == 0 && i < context->n_stripes; i++) {
		if (i == 0 || !shared)
			error = add_line(progress, &context->stripes[i],
					 shared ? (context->senders.own + 1u) % context->n_stripes
						: 0);
		if (error == 0)
			error = add_shard(&context->stripes[i], progress->index,
					  progress->lines[progress->n_lines - 1]);
	}
	return error;
}

static int add_thread(struct sml_context *context)
{
	struct sml_threads *threads = &context->threads;
	struct sml_progress *progress = sml_progress_new(threads, threads->n_threads);
	int error = 0;

	if (progress == NULL)
		return -ENOMEM;
	threads->threads[threads->n_threads++] = progress;
	error = sml_tracing_add_thread(context);
	return error ? error : add_lines(context, progress);
}

/* All switches were asked for the same number of shards, and must agree. */
static int check_shards(const struct sml_context *context)
{
	unsigned n = context->stripes[0].admission.shards;

	for (unsigned i = 1; i < context->n_stripes; i++)
		if (context->stripes[i].admission.shards != n)
			return sml_error_set(SML_ERROR_PROTOCOL,
					     "the switch at %s admits the job with %u shards, but "
					     "the one at %s with %u: set SWITCHML_THREADS=1 on "
					     "all ranks, or install the same release on all "
					     "switches",
					     sml_stripe_name(&context->stripes[0]), n,
					     sml_stripe_name(&context->stripes[i]),
					     context->stripes[i].admission.shards);
	return 0;
}

/* Where the job began, by whose rules those that were told to start make their calls. */
static const struct sml_admission *rules_of(const struct sml_stripe *stripe)
{
	return sml_admission_resumes(&stripe->admission) ? &stripe->began : &stripe->admission;
}

/*
 * Each switch has told all ranks the same numbers, so all ranks agree on the minimum, and on
 * whether some switch takes only packets of its own lane count, or only int32 lanes, or sums of
 * several ranks, and whether all of them round, and add floats: they must not mix rules. A rank
 * that begins where others go on has moved there, too.
 */
static int agree_on_lanes(struct sml_context *context)
{
	struct sml_shape *shape = &context->shape;
	unsigned n_senders = context->senders.n; /* 0 with switches */

	shape->rounds = shape->floats = true;
	context->adds_parts = n_senders > 1 && n_senders < shape->n_ranks;
	for (unsigned i = 0; i < context->n_stripes; i++) {
		const struct sml_admission *rules = rules_of(&context->stripes[i]);

		if (context->stripes[i].lanes < shape->lanes)
			shape->lanes = context->stripes[i].lanes;
		shape->only_full |= rules->full_packets;
		shape->only_int32 |= rules->only_int32;
		shape->rounds &= rules->rounds;
		shape->floats &= rules->floats;
		context->adds_parts |= rules->adds_parts;
	}
	for (unsigned i = 0; i < context->n_stripes; i++)
		sml_submit_decide(&context->stripes[i], true);
	for (unsigned i = 0; i < context->n_stripes; i++)
		if (rules_of(&context->stripes[i])->full_packets &&
		    context->stripes[i].lanes != shape->lanes)
			return sml_error_set(SML_ERROR_PROTOCOL,
					     "the switch at %s takes only packets of %u lanes, but "
					     "another stripe of the job only up to %u: use switch "
					     "programs for the same lane count, and paths of the "
					     "same MTU",
					     sml_stripe_name(&context->stripes[i]),
					     context->stripes[i].lanes, shape->lanes);
	return 0;
}

int sml_data_path_open(struct sml_context *context)
{
	unsigned n_threads = context->stripes[0].admission.shards;
	int error = check_shards(context);

	context->sent_floats = context->asked_exact = false;
	context->shape = (struct sml_shape){
		.lanes = SML_MAX_LANES,
		.rank = context->settings.rank,
		.n_ranks = context->settings.world_size,
	};
	if (error == 0)
		error = agree_on_lanes(context);
	for (unsigned i = 0; error == 0 && i < n_threads; i++)
		error = add_thread(context);
	return error;
}

/* ---- the next epoch ---- */

/* Workers of the next epoch, one per shard. */
struct next_workers {
	struct sml_worker *workers[SML_MAX_SHARDS];
	void *memory[SML_MAX_SHARDS];
};

static void free_next(struct next_workers *next)
{
	for (unsigned i = 0; i < SML_MAX_SHARDS; i++) {
		free(next->workers[i]);
		free(next->memory[i]);
	}
}

/*
 * For all shards or for none: a stripe with only some shards in the new epoch could not be resumed
 * again.
 */
static bool prepare_shards(struct sml_stripe *stripe, struct sml_transport *const *transports,
			   struct next_workers *next)
{
	bool good = true;

	*next = (struct next_workers){.workers = {NULL}};
	for (unsigned i = 0; good && i < stripe->n_shards; i++) {
		struct sml_worker_config config = worker_config(stripe, i, transports[i]);

		next->workers[i] = sml_shard_prepare(&config, &next->memory[i]);
		good = next->workers[i] != NULL;
	}
	return good;
}

/*
 * Under the lock: once a failure has stopped the threads, the code that explains the failure uses
 * the workers.
 */
int sml_data_path_renew_shards(struct sml_stripe *stripe, struct sml_transport **transports,
			       bool keep)
{
	struct sml_context *context = stripe->context;
	struct next_workers next;
	bool over;

	if (!prepare_shards(stripe, transports, &next)) {
		free_next(&next);
		return sml_error_set(-ENOMEM, "no memory to continue with another switch");
	}
	pthread_mutex_lock(&context->lock);
	over = sml_threads_is_stopping(&context->threads);
	for (unsigned i = 0; !over && i < stripe->n_shards; i++) {
		sml_shard_renew(stripe->shards[i], next.workers[i], next.memory[i],
				stripe->admission.maps, transports[i], keep);
		next.workers[i] = NULL;
		next.memory[i] = NULL;
		transports[i] = NULL;
	}
	pthread_mutex_unlock(&context->lock);
	free_next(&next);
	return over ? sml_error_set(SML_ERROR_CLOSED, "the context failed in the meantime") : 0;
}

int sml_data_path_renew(struct sml_stripe *stripe, struct sml_control *control,
			uint64_t deadline_ns, bool keep)
{
	struct sml_transport *transports[SML_MAX_SHARDS] = {NULL};
	uint16_t lanes;
	int error = sml_data_path_agree(stripe, control, transports, &lanes, deadline_ns);

	/* All ranks declared Ready for exactly this lane count. */
	if (error == 0)
		error = check_terms(stripe, lanes);
	if (error == 0)
		error = sml_data_path_renew_shards(stripe, transports, keep);
	sml_data_path_close(transports);
	return error;
}

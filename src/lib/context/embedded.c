/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/context/membership.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lib/progress/line.h"
#include "net/address.h"

/* ---- rank 0 ---- */

/* The first stripe's connection tells how many there are: as many as ranks, at most. */
static int begin_in_ranks(struct sml_context *context, uint64_t deadline_ns)
{
	int error =
		sml_membership_make_stripes(context, context->settings.world_size, 1, deadline_ns);

	if (error == 0 && context->settings.rank == 0)
		return sml_listen_open(context, deadline_ns);
	/* It may have been rank 0 of the last job. */
	sml_listen_close(context);
	return error;
}

static int find_rank_0(const struct sml_stripe *stripe, struct sml_endpoint *endpoints)
{
	const struct sml_config *config = &stripe->context->settings.config;
	const struct sml_switch *embedded = stripe->context->embedded;
	const char *host = sml_master_host(stripe->context);
	char own[320];
	int n;

	if (embedded && !sml_is_loopback_name(host))
		host = *stripe->context->listen_address ? stripe->context->listen_address
							: "127.0.0.1";
	snprintf(own, sizeof(own), strchr(host, ':') ? "[%s]" : "%s", host);
	n = sml_endpoints_resolve(endpoints, own, 0,
				  embedded ? sml_switch_port(embedded)
					   : (uint16_t)config->master_port);
	/* In texts, the embedded switch goes by the address that the others look for. */
	if (n > 0 && embedded)
		sml_host_port_text(endpoints[0].name, sizeof(endpoints[0].name),
				   config->master_address, sml_switch_port(embedded));
	/* What the user said is what its certificate must name, on all ranks. */
	for (int i = 0; i < n; i++)
		snprintf(endpoints[i].host, sizeof(endpoints[i].host), "%s",
			 config->master_address);
	return n;
}

/* ---- sockets, which must exist before their addresses are announced ---- */

static int open_sockets(struct sml_stripe *first)
{
	struct sml_context *context = first->context;
	unsigned n = context->settings.threads;
	int error = 0;

	if (context->peers == NULL)
		context->peers = calloc(1, sizeof(*context->peers));
	if (context->peers == NULL)
		return sml_error_set(-ENOMEM, "no memory for the other ranks' addresses");
	for (unsigned i = 0; error == 0 && i < n; i++)
		error = sml_data_path_open_transport(first, i, context->peers->address[i],
						     &first->transports[i]);
	return error;
}

static int join_rank_0(struct sml_stripe *first, const struct sml_resumption *resumption,
		       uint64_t deadline_ns)
{
	uint16_t ports[SML_MAX_SHARDS];
	struct sml_application application = {.ports = ports, .resumption = resumption};
	int error = open_sockets(first);

	if (error == 0)
		error = sml_stripe_lanes(first, &application.lanes);
	if (error)
		return error;
	sml_hosts_advertise(first, &application);
	for (unsigned i = 0; i < first->context->settings.threads; i++)
		ports[i] = first->transports[i]->port;
	return sml_control_join(first->control, &application, &first->admission, deadline_ns);
}

/* ---- what Admitted says ---- */

/* A rank's address, for sockets of this family. False: it has another family. */
static bool peer_address(const struct sml_peer_rank *peer, const union sml_sockaddr *control,
			 sa_family_t family, union sml_sockaddr *address)
{
	*address = *control;
	if (peer->host_bytes == 4) {
		address->v4 = (struct sockaddr_in){.sin_family = AF_INET};
		memcpy(&address->v4.sin_addr, peer->host, 4);
	} else if (peer->host_bytes == 16) {
		address->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
		memcpy(&address->v6.sin6_addr, peer->host, 16);
		/* A link-local address: use the link that leads to rank 0. */
		if (control->any.sa_family == AF_INET6 &&
		    IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr))
			address->v6.sin6_scope_id = control->v6.sin6_scope_id;
	}
	if (family == AF_INET6)
		sml_sockaddr_map(address);
	return address->any.sa_family == family;
}

/* Of all that send packets. */
static int set_peer_addresses(struct sml_stripe *first)
{
	struct sml_context *context = first->context;
	const struct sml_peer_ranks *peer_ranks = first->admission.peer_ranks;

	for (unsigned i = 0; i < context->senders.n; i++) {
		const struct sml_peer_rank *peer = &peer_ranks->ranks[context->senders.rank[i]];
		union sml_sockaddr address;

		if (!peer_address(peer, &first->connection.endpoint->address,
				  first->transports[0]->family, &address))
			return sml_error_set(SML_ERROR_UNREACHABLE,
					     "rank %u has an IPv6 address, but this host has no "
					     "IPv6: give an IPv4 address in SWITCHML_MASTER_ADDR",
					     context->senders.rank[i]);
		for (unsigned shard = 0; shard < first->admission.shards; shard++) {
			sml_sockaddr_set_port(&address, peer->ports[shard]);
			context->peers->address[shard][i] = address;
		}
	}
	return 0;
}

/* "rank 3 at 10.0.0.4:40001", "rank 3 at [fe80::1]:40001" */
static void name_stripe(struct sml_stripe *stripe)
{
	const union sml_sockaddr *address = &stripe->context->peers->address[0][stripe->index];
	char host[INET6_ADDRSTRLEN], place[sizeof(host) + sizeof("[]:65535")];

	sml_host_port_text(place, sizeof(place), sml_sockaddr_text(address, host),
			   ntohs(address->v4.sin_port));
	snprintf(stripe->own_name, sizeof(stripe->own_name), "rank %u at %s",
		 stripe->context->senders.rank[stripe->index], place);
	__atomic_store_n(&stripe->name, stripe->own_name, __ATOMIC_RELEASE);
}

/* Each stripe's admission is a copy of the first one's, except for the data of its sender. */
static int make_stripes(struct sml_stripe *first)
{
	struct sml_context *context = first->context;
	const struct sml_senders *senders = &context->senders;
	struct sml_admission admission = first->admission;
	int error = set_peer_addresses(first);

	if (error)
		return error;
	admission.number = senders->own;
	context->n_stripes = senders->n < admission.stripes ? senders->n : admission.stripes;
	for (unsigned i = 0; i < context->n_stripes; i++) {
		struct sml_stripe *stripe = &context->stripes[i];
		const struct sml_peer_rank *peer = &admission.peer_ranks->ranks[senders->rank[i]];

		stripe->admission = admission;
		stripe->admission.job_number = admission.job_number + i;
		stripe->admission.cookie = peer->cookie;
		stripe->admission.tag = peer->tag;
		stripe->admission.data_port = peer->ports[0];
		name_stripe(stripe);
	}
	return 0;
}

/* Each rank sends packets, before it is known whether those of a host share memory. */
static int be_all_senders(struct sml_stripe *first)
{
	const struct sml_settings *settings = &first->context->settings;
	struct sml_senders *senders = &first->context->senders;

	senders->n = (uint8_t)settings->world_size;
	senders->own = (uint8_t)settings->rank;
	for (unsigned i = 0; i < senders->n; i++)
		senders->rank[i] = (uint8_t)i;
	return make_stripes(first);
}

/* Is a stripe this rank's own? */
static bool has_stripe(const struct sml_context *context)
{
	const struct sml_senders *senders = &context->senders;

	return senders->own < context->n_stripes &&
	       senders->rank[senders->own] == context->settings.rank;
}

/* What the slots of this rank's stripe take. */
static struct sml_pool_rules own_rules(const struct sml_context *context)
{
	const struct sml_senders *senders = &context->senders;
	const struct sml_admission *admission = &context->stripes[0].admission;
	const struct sml_peer_ranks *peers = admission->peer_ranks;
	struct sml_pool_rules rules = {
		.tag = peers->ranks[context->settings.rank].tag,
		.job = admission->job_number + senders->own,
		.epoch = admission->epoch,
		.head_slots = admission->head_slots,
		.data_slots = admission->data_slots,
		.lanes = admission->lanes,
		.n_ranks = senders->n,
		.n_shards = admission->shards,
		.rounds = admission->rounds,
		.omits = admission->omits,
		.floats = admission->floats,
		.divisor = (uint16_t)context->settings.world_size,
	};

	for (unsigned i = 0; i < senders->n; i++)
		rules.cookies[i] = peers->cookies[senders->rank[i]];
	return rules;
}

/* ---- are all paths open? ---- */

static void serve(void *self)
{
	sml_probe_serve(self);
}

/* Only the first rank of a host keeps its socket. */
static void keep_socket(struct sml_stripe *first, bool keep)
{
	struct sml_transport *kept = keep ? first->transports[0] : NULL;

	if (kept) {
		kept->ops->readdress(kept, first->context->senders.own);
		first->transports[0] = NULL;
	}
	sml_data_path_close(first->transports);
	first->transports[0] = kept;
}

/* They are not opened: ranks that have opened find that those of a host share its memory. */
static const struct sml_job_form in_hosts = {.path = SML_PATH_HOSTS,
					     .listener = &sml_listener_rank_0};
static const struct sml_job_form in_memory = {.path = SML_PATH_MEMORY,
					      .listener = &sml_listener_rank_0};

/*
 * All ranks have shown that they share memory with those of their host. So hosts contribute, and
 * only their first ranks send packets and have slots; their tags and cookies stay. The ranks of a
 * host send through one socket.
 */
static int become_hosts(struct sml_stripe *first)
{
	int error = make_stripes(first);

	first->context->form = &in_hosts;
	keep_socket(first, has_stripe(first->context));
	return error;
}

/* The shared slots are the job's only stripe, and there is one thread for them in each rank. */
static void become_only_stripe(struct sml_stripe *first)
{
	const struct sml_host_terms *terms = &first->context->threads.host->memory.terms;

	first->context->form = &in_memory;
	first->admission.head_slots = terms->head_slots;
	first->admission.data_slots = terms->data_slots;
	snprintf(first->own_name, sizeof(first->own_name), "this host's shared memory");
	__atomic_store_n(&first->name, first->own_name, __ATOMIC_RELEASE);
	keep_socket(first, false);
}

/* All ranks say the same. */
static int settle(struct sml_stripe *first, bool share)
{
	struct sml_context *context = first->context;
	int error;

	if (share) {
		context->senders = sml_hosts_list(context);
		context->n_stripes = context->senders.n;
	}
	error = sml_hosts_settle(context, share);
	if (error || !share)
		return error;
	first->admission.shards = 1;
	if (context->senders.n > 1)
		return become_hosts(first);
	become_only_stripe(first);
	return 0;
}

/* Answer the other ranks' probes until all ranks are ready; then there are no more probes. */
static int probe_and_be_ready(struct sml_stripe *first, struct sml_probe *probe)
{
	int fds[SML_MAX_SHARDS];
	struct sml_meanwhile meanwhile = {
		.fds = fds, .n_fds = first->admission.shards, .self = probe, .act = serve};
	struct sml_readiness found = {.lanes = 0};
	int error;

	first->lanes = first->admission.lanes;
	error = sml_probe_run(probe, first->control, &first->lanes, first->deadline_ns);
	first->path_is_narrow = first->lanes < first->admission.lanes;
	if (error == 0)
		error = sml_hosts_meet(first, first->control, probe, &found);
	for (unsigned i = 0; i < first->admission.shards; i++)
		fds[i] = first->transports[i]->poll_fd;
	if (error)
		return error;
	found.lanes = first->lanes;
	error = sml_control_ready(first->control, &found, &meanwhile, first->deadline_ns);
	first->lanes = found.lanes;
	if (error == 0)
		error = settle(first, found.shares_memory);
	return error;
}

static int agree(struct sml_stripe *first)
{
	const struct sml_pool_rules own = own_rules(first->context);
	struct sml_probe *probe =
		sml_probe_new(first, first->transports, has_stripe(first->context) ? &own : NULL);
	int error = probe ? probe_and_be_ready(first, probe) : -ENOMEM;

	sml_probe_free(probe);
	return error;
}

/* Where hosts contribute: the job's ranks that each stands for. */
static void name_members(const struct sml_context *context, struct sml_embedded_stripe *own)
{
	const struct sml_senders *senders = &context->senders;
	const struct sml_peer_rank *ranks = context->stripes[0].admission.peer_ranks->ranks;

	own->n_job_ranks = context->settings.world_size;
	if (senders->n == own->n_job_ranks)
		return;
	memset(own->members, 0, sizeof(own->members));
	for (unsigned rank = 0; rank < own->n_job_ranks; rank++)
		for (unsigned i = 0; i < senders->n; i++)
			if (ranks[rank].first_of_host == senders->rank[i])
				own->members[i] |= (uint64_t)1 << rank;
}

static int make_embedded_stripe(struct sml_context *context)
{
	const struct sml_stripe *first = &context->stripes[0];
	struct sml_pool_rules rules = own_rules(context);

	rules.lanes = first->lanes;
	context->threads.own =
		sml_embedded_stripe_new(&rules, context->senders.own, first->control);
	if (context->threads.own == NULL)
		return -ENOMEM;
	name_members(context, context->threads.own);
	return 0;
}

/* Makes the other stripes, and the slots of this rank's own. */
static int open_in_ranks(struct sml_stripe *first)
{
	struct sml_context *context = first->context;
	int error = be_all_senders(first);

	if (error == 0)
		error = agree(first);
	/* The paths to all stripes were proved together. */
	for (unsigned i = 1; i < context->n_stripes; i++)
		context->stripes[i].lanes = first->lanes;
	if (error == 0 && context->form->path != SML_PATH_MEMORY && has_stripe(context))
		error = make_embedded_stripe(context);
	return error;
}

const struct sml_job_form sml_form_ranks = {.path = SML_PATH_RANKS,
					    .listener = &sml_listener_rank_0,
					    .begin = begin_in_ranks,
					    .find = find_rank_0,
					    .join = join_rank_0,
					    .open = open_in_ranks};

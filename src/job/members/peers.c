/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs whose ranks have the slots: every rank (or the first few) embeds a
 * stripe, and this control plane only brings them together. Each member's Join
 * says which UDP ports it listens on. Its connection shows its address, so no
 * member can direct the others' packets to a third party. Admitted tells all
 * members about all others.
 *
 * Each stripe has a tag, and a cookie for each rank: a rank can neither speak
 * for another one nor forge another stripe's results.
 */
#include "job/members/members.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- members ---- */

static bool is_loopback(const uint8_t host[16], uint8_t n)
{
	static const uint8_t v6[16] = {[15] = 1};

	return n == 4 ? host[0] == 127 : n == 16 && memcmp(host, v6, 16) == 0;
}

void sml_job_note_peer(struct sml_member *member, const SmlControl__Join *join)
{
	const struct sml_peer *peer = member->peer;

	memcpy(member->address, peer->address, sizeof(member->address));
	member->address_bytes = peer->address_bytes;
	member->is_local = peer->is_local;
	if (is_loopback(peer->address, peer->address_bytes)) {
		/*
		 * For the others, its address is where they have found this
		 * port.
		 */
		member->is_local = true;
		member->address_bytes = 0;
	}
	for (size_t i = 0; i < join->n_stripe_ports && i < SML_MAX_SHARDS; i++)
		member->ports[i] = join->stripe_ports[i];
}

/* ---- all are here ---- */

/*
 * Every rank has a stripe, unless all are on one host, where only its cores
 * count. Ranks that share memory leave theirs to the first of them.
 */
static uint32_t choose_stripes(const struct sml_job *job)
{
	uint32_t most = job->jobs->config.local_stripes;

	if (sml_job_has_hosts(job))
		return job->n_ranks;
	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (!job->members.of[rank].is_local)
			return job->n_ranks;
	return most > 0 && most < job->n_ranks ? most : job->n_ranks;
}

int sml_job_meet(struct sml_job *job)
{
	size_t n;

	if (job->terms.stripes == 0)
		job->terms.stripes = choose_stripes(job);
	sml_assert(job->terms.stripes > 0);
	n = (size_t)job->terms.stripes * (1u + job->n_ranks);
	job->stripes.secrets = malloc(n * sizeof(*job->stripes.secrets));
	if (job->stripes.secrets == NULL)
		return -ENOMEM;
	job->stripes.waited_ms =
		calloc((size_t)job->terms.stripes * job->n_ranks, sizeof(*job->stripes.waited_ms));
	if (job->stripes.waited_ms == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		job->stripes.secrets[i] = sml_jobs_random(job->jobs);
	/* The stripe is added. */
	job->pool.rules.job &= ~(uint32_t)(SML_MAX_STRIPES - 1);
	return 0;
}

/* A stripe's tag, then its cookies by rank. */
static const uint64_t *secrets_of(const struct sml_job *job, uint32_t stripe)
{
	return job->stripes.secrets + (size_t)stripe * (1u + job->n_ranks);
}

struct sml_peer_list *sml_job_describe_peers(const struct sml_job *job, uint16_t to,
					     SmlControl__Admitted *admitted)
{
	struct sml_peer_list *peers = calloc(1, sizeof(*peers));

	if (peers == NULL)
		return NULL;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members.of[rank];
		SmlControl__Peer *peer = &peers->peers[rank];

		sml_control__peer__init(peer);
		peer->host.data = (uint8_t *)(uintptr_t)member->address;
		peer->host.len = member->address_bytes;
		peer->ports = (uint32_t *)(uintptr_t)member->ports;
		peer->n_ports = job->terms.shards;
		peer->name = (char *)(uintptr_t)member->host;
		peer->pid = member->pid;
		peer->first_of_host = member->first_of_host;
		if (rank < job->terms.stripes) {
			peer->tag = secrets_of(job, rank)[0];
			peer->cookie = secrets_of(job, rank)[1 + to];
		}
		peers->list[rank] = peer;
	}
	admitted->stripes = job->terms.stripes;
	admitted->peers = peers->list;
	admitted->n_peers = job->n_ranks;
	if (to < job->terms.stripes) {
		admitted->cookies = (uint64_t *)(uintptr_t)(secrets_of(job, to) + 1);
		admitted->n_cookies = job->n_ranks;
	}
	return peers;
}

void sml_job_note_ping(struct sml_peer *peer, const SmlControl__Ping *ping)
{
	const SmlControl__StripeStatus *served = ping->stripe;
	const struct sml_job *job = peer->job;
	struct sml_member *member = &peer->job->members.of[peer->rank];

	if (ping->traffic != NULL) {
		member->traffic = *ping->traffic;
		/* What the message points to goes with it. */
		member->traffic.base =
			(ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(ping->traffic->base.descriptor);
		member->traffic_told_ns = job->jobs->now_ns;
	}
	if (served == NULL)
		return;

	for (size_t i = 0; i < served->n_waited_ms && i < job->n_ranks; i++)
		if (job->stripes.waited_ms != NULL && peer->rank < job->terms.stripes)
			job->stripes.waited_ms[(size_t)peer->rank * job->n_ranks + i] =
				served->waited_ms[i];

	member->served = *served;
	member->served.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(served->base.descriptor);
	member->served.where = NULL;
	member->served.waited_ms = NULL;
	member->served.n_waited_ms = 0;
}

/* How long the others have waited there for the rank, on average over all stripes. */
static uint64_t waited_ms(const struct sml_job *job, uint16_t rank)
{
	uint64_t sum = 0;
	uint32_t n_stripes = 0, number;

	for (uint32_t i = 0; i < job->terms.stripes; i++)
		if (sml_job_has_stripe(job, i, &number)) {
			sum += job->stripes.waited_ms[(size_t)i * job->n_ranks + rank];
			n_stripes++;
		}
	return n_stripes > 0 ? sum / n_stripes : 0;
}

void sml_job_count(const struct sml_job *job, struct sml_job_counters *counters)
{
	*counters = (struct sml_job_counters){.verdicts = {0}};
	sml_job_pool_count(job, counters);
	for (unsigned i = 0; job->stripes.waited_ms != NULL && i < job->pool.n_children; i++)
		counters->waited_ns[i] =
			waited_ms(job, job->pool.children[i].first_rank) * 1000000u;
}

void sml_job_name_stripe(const struct sml_job *job, uint32_t stripe, char *text, size_t bytes)
{
	const struct sml_member *member = &job->members.of[stripe];
	char address[INET6_ADDRSTRLEN] = "this host";

	if (member->address_bytes)
		inet_ntop(member->address_bytes == 4 ? AF_INET : AF_INET6, member->address, address,
			  sizeof(address));
	snprintf(text, bytes, "rank %u at %s, UDP port %u", stripe, address, member->ports[0]);
}

/* ---- the dataplane is elsewhere ---- */

static void ranks_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	(void)dataplane;
	snprintf(text, bytes, "stripes with the ranks");
}

const struct sml_dataplane_operations sml_dataplane_ranks = {
	.name = "ranks",
	.ranks_have_slots = true,
	.rounds = true,
	.omits = true,
	.floats = true,
	.describe = ranks_describe,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs whose ranks have the slots: every rank (or the first few) embeds a
 * stripe, and this control plane only brings them together. Each member says at
 * Join which UDP ports it listens on; where, its connection tells, so no member
 * can send the others' packets to a third party. All learn all with Admitted.
 *
 * Each stripe has a tag, and a cookie for each rank: a rank can neither speak
 * for another one nor forge another stripe's results.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "switch/control/job.h"

/* ---- a dataplane that is elsewhere ---- */

static int ranks_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config,
		      char *error_text, size_t error_bytes)
{
	(void)config;
	(void)error_text;
	(void)error_bytes;
	*opened = NULL;
	return 0;
}

static void ranks_close(struct sml_dataplane *dataplane)
{
	(void)dataplane;
}

static int ranks_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	(void)dataplane;
	(void)rules;
	return 0;
}

static int ranks_start_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
	return 0;
}

static void ranks_remove_job(struct sml_dataplane *dataplane, uint32_t job)
{
	(void)dataplane;
	(void)job;
}

/* Its ports came with its Join. */
static const char *ranks_misses_address(struct sml_dataplane *dataplane, uint32_t job, uint8_t rank)
{
	(void)dataplane;
	(void)job;
	(void)rank;
	return NULL;
}

static void ranks_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	(void)dataplane;
	snprintf(text, bytes, "stripes with the ranks");
}

/* Each rank knows what its own sockets take. */
static uint32_t ranks_window(struct sml_dataplane *dataplane, uint32_t packet_bytes,
			     uint32_t n_ranks)
{
	(void)dataplane;
	(void)packet_bytes;
	(void)n_ranks;
	return 0;
}

static void ranks_job_counters(struct sml_dataplane *dataplane, uint32_t job,
			       struct sml_job_counters *counters)
{
	(void)dataplane;
	(void)job;
	(void)counters;
}

static uint32_t ranks_slot_states(struct sml_dataplane *dataplane, uint32_t job,
				  struct sml_slot_progress *states, uint32_t n)
{
	(void)dataplane;
	(void)job;
	(void)states;
	(void)n;
	return 0;
}

static void ranks_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	(void)dataplane;
	memset(counters, 0, sizeof(*counters));
}

const struct sml_dataplane_operations sml_dataplane_ranks = {
	.name = "ranks",
	.open = ranks_open,
	.close = ranks_close,
	.add_job = ranks_add_job,
	.start_job = ranks_start_job,
	.remove_job = ranks_remove_job,
	.misses_address = ranks_misses_address,
	.describe = ranks_describe,
	.window = ranks_window,
	.job_counters = ranks_job_counters,
	.slot_states = ranks_slot_states,
	.counters = ranks_counters,
};

bool sml_server_is_rendezvous(const struct sml_server *server)
{
	return server->operations == &sml_dataplane_ranks;
}

/* ---- members ---- */

/* The bytes of an address, of IPv4 also where it comes as IPv6. 0: neither. */
static uint8_t host_bytes(const struct sockaddr_storage *address, uint8_t host[16])
{
	struct sockaddr_in6 v6;
	struct sockaddr_in v4;

	if (address->ss_family == AF_INET) {
		memcpy(&v4, address, sizeof(v4));
		memcpy(host, &v4.sin_addr, 4);
		return 4;
	}
	if (address->ss_family != AF_INET6)
		return 0;
	memcpy(&v6, address, sizeof(v6));
	if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
		memcpy(host, v6.sin6_addr.s6_addr + 12, 4);
		return 4;
	}
	memcpy(host, &v6.sin6_addr, 16);
	return 16;
}

static bool is_loopback(const uint8_t host[16], uint8_t n)
{
	static const uint8_t v6[16] = {[15] = 1};

	return n == 4 ? host[0] == 127 : n == 16 && memcmp(host, v6, 16) == 0;
}

void sml_job_note_peer(struct sml_member *member, const SmlControl__Join *join)
{
	evutil_socket_t fd = bufferevent_getfd(member->connection->stream);
	struct sockaddr_storage theirs = {0}, ours = {0};
	socklen_t theirs_bytes = sizeof(theirs), ours_bytes = sizeof(ours);
	uint8_t own[16] = {0};
	uint8_t n;

	if (getpeername(fd, (struct sockaddr *)&theirs, &theirs_bytes) == 0)
		member->host_bytes = host_bytes(&theirs, member->address);
	if (getsockname(fd, (struct sockaddr *)&ours, &ours_bytes) == 0 &&
	    (n = host_bytes(&ours, own)) == member->host_bytes)
		member->is_local = memcmp(own, member->address, n) == 0;
	if (is_loopback(member->address, member->host_bytes)) {
		/* For the others it is where they have found this port. */
		member->is_local = true;
		member->host_bytes = 0;
	}
	for (size_t i = 0; i < join->n_stripe_ports && i < SML_MAX_SHARDS; i++)
		member->ports[i] = join->stripe_ports[i];
}

/* ---- all are here ---- */

/* Every rank, unless all are on one host, where only its cores count. */
static uint32_t choose_stripes(const struct sml_job *job)
{
	uint32_t most = job->server->config.local_stripes;

	for (unsigned rank = 0; rank < job->n_ranks; rank++)
		if (!job->members[rank].is_local)
			return job->n_ranks;
	return most > 0 && most < job->n_ranks ? most : job->n_ranks;
}

int sml_job_meet(struct sml_job *job)
{
	size_t n;

	if (job->stripes == 0)
		job->stripes = choose_stripes(job);
	sml_assert(job->stripes > 0);
	n = (size_t)job->stripes * (1u + job->n_ranks);
	job->secrets = malloc(n * sizeof(*job->secrets));
	if (job->secrets == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		job->secrets[i] = sml_random_u64();
	/* The stripe is added. */
	job->rules.job &= ~(uint32_t)(SML_MAX_STRIPES - 1);
	return 0;
}

/* A stripe's tag, then its cookies by rank. */
static const uint64_t *secrets_of(const struct sml_job *job, uint32_t stripe)
{
	return job->secrets + (size_t)stripe * (1u + job->n_ranks);
}

struct sml_meeting *sml_job_describe_peers(const struct sml_job *job, uint8_t to,
					   SmlControl__Admitted *admitted)
{
	struct sml_meeting *meeting = calloc(1, sizeof(*meeting));

	if (meeting == NULL)
		return NULL;
	for (unsigned rank = 0; rank < job->n_ranks; rank++) {
		const struct sml_member *member = &job->members[rank];
		SmlControl__Peer *peer = &meeting->peers[rank];

		sml_control__peer__init(peer);
		peer->host.data = (uint8_t *)(uintptr_t)member->address;
		peer->host.len = member->host_bytes;
		peer->ports = (uint32_t *)(uintptr_t)member->ports;
		peer->n_ports = job->shards;
		if (rank < job->stripes) {
			peer->tag = secrets_of(job, rank)[0];
			peer->cookie = secrets_of(job, rank)[1 + to];
		}
		meeting->list[rank] = peer;
	}
	admitted->stripes = job->stripes;
	admitted->peers = meeting->list;
	admitted->n_peers = job->n_ranks;
	if (to < job->stripes) {
		admitted->cookies = (uint64_t *)(uintptr_t)(secrets_of(job, to) + 1);
		admitted->n_cookies = job->n_ranks;
	}
	return meeting;
}

void sml_job_note_served(struct sml_connection *connection, const SmlControl__StripeStatus *served)
{
	struct sml_member *member = &connection->job->members[connection->rank];

	member->served = (struct sml_served){
		.contributions = served->contributions,
		.resends = served->resends,
		.duplicates = served->duplicates,
		.bytes_received = served->bytes_received,
		.bytes_sent = served->bytes_sent,
	};
}

void sml_job_name_stripe(const struct sml_job *job, uint32_t stripe, char *text, size_t bytes)
{
	const struct sml_member *member = &job->members[stripe];
	char address[INET6_ADDRSTRLEN] = "this host";

	if (member->host_bytes)
		inet_ntop(member->host_bytes == 4 ? AF_INET : AF_INET6, member->address, address,
			  sizeof(address));
	snprintf(text, bytes, "rank %u at %s, UDP port %u", stripe, address, member->ports[0]);
}

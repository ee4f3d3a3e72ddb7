/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job on a P4 switch: its entries in the tables of p4/include/tables.p4, its multicast group, its
 * counters and its slots. The target's mutex is taken here.
 *
 * The invariant: the job's own entry is the last to come and the first to go, so the program never
 * accepts a packet of a job whose other entries are missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "switch/p4/internal.h"
#include "switch/shared/log.h"

#define ADDRESS_V6_BYTES 16

static void lock(struct sml_dataplane *dataplane)
{
	pthread_mutex_lock(&dataplane->target_mutex);
}

static void unlock(struct sml_dataplane *dataplane)
{
	pthread_mutex_unlock(&dataplane->target_mutex);
}

_Noreturn void sml_p4_lost(void)
{
	sml_switch_log(SML_LOG_ERROR,
		       "%s: this switch ends, so that its jobs resume elsewhere, or here when both "
		       "have been started again",
		       sml_error_last());
	_exit(1);
}

void sml_p4_must(int rc)
{
	if (rc < 0)
		sml_p4_lost();
}

/* ---- rows ---- */

static uint16_t group_of(const struct sml_p4_job *job)
{
	return (uint16_t)(SML_P4_FIRST_GROUP + sml_p4_job_index(job));
}

static struct sml_p4_row job_row(const struct sml_p4_job *job)
{
	const struct sml_pool_rules *rules = &job->common.rules;

	sml_assert(rules->n_ranks > 0);
	return (struct sml_p4_row){
		.table = "SmlIngress.job_lookup.jobs",
		.action = "SmlIngress.job_lookup.job",
		.keys = {sml_p4_number(rules->job, 4)},
		.n_keys = 1,
		.parameters =
			{sml_p4_number(sml_p4_job_index(job), 2), sml_p4_number(rules->epoch, 4),
			 sml_p4_number(rules->tag, 8), sml_p4_number(job->common.daemon_key, 8),
			 sml_p4_number(job->incarnation, 4),
			 sml_p4_number(sml_pool_all_ranks(rules), 8),
			 sml_p4_number(job->first_buffer, 4), sml_p4_number(rules->head_slots, 2),
			 sml_p4_number(rules->data_slots, 2), sml_p4_number(rules->n_shards, 1),
			 sml_p4_number((1u << 24) / rules->n_shards + 1, 4),
			 sml_p4_number(job->common.started, 1), sml_p4_number(group_of(job), 2)},
		.n_parameters = 13,
	};
}

static struct sml_p4_row rank_row(const struct sml_p4_job *job, uint8_t rank)
{
	return (struct sml_p4_row){
		.table = "SmlIngress.admission.ranks",
		.action = "SmlIngress.admission.rank",
		.keys = {sml_p4_number(job->common.rules.job, 4), sml_p4_number(rank, 1)},
		.n_keys = 2,
		.parameters = {sml_p4_number((uint64_t)1 << rank, 8),
			       sml_p4_number(job->peers[rank][0].port, 2)},
		.n_parameters = 2,
	};
}

static struct sml_p4_row member_row(const struct sml_p4_job *job, uint8_t rank)
{
	return (struct sml_p4_row){
		.table = "SmlIngress.admission.members",
		.action = "SmlIngress.admission.member",
		.keys = {sml_p4_number(job->common.rules.job, 4),
			 sml_p4_number(job->common.rules.epoch, 4), sml_p4_number(rank, 1),
			 sml_p4_number(job->common.rules.cookies[rank], 8)},
		.n_keys = 4,
	};
}

static struct sml_p4_field bytes_of(const void *bytes, uint8_t n)
{
	struct sml_p4_field field = {.n = n};

	memcpy(field.bytes, bytes, n);
	return field;
}

static struct sml_p4_row peer_row(const struct sml_dataplane *dataplane,
				  const struct sml_p4_job *job, uint8_t rank, uint8_t shard)
{
	const struct sml_p4_peer *peer = &job->peers[rank][shard];
	const struct sockaddr_in6 *v6 = &peer->path.to;
	bool is_v4 = v6->sin6_family == AF_INET;
	struct sockaddr_in v4;
	struct sml_p4_row row = {
		.table = "SmlEgress.addressing.peers",
		.action = is_v4 ? "SmlEgress.addressing.to_ipv4" : "SmlEgress.addressing.to_ipv6",
		.keys = {sml_p4_number(sml_p4_job_index(job), 2), sml_p4_number(rank, 1),
			 sml_p4_number(shard, 1)},
		.n_keys = 3,
		.parameters = {bytes_of(peer->mac, SML_P4_MAC_BYTES),
			       sml_p4_number(peer->tagged, 1), sml_p4_number(peer->tci, 2)},
		.n_parameters = 7,
	};

	memcpy(&v4, v6, sizeof(v4));
	row.parameters[3] =
		is_v4 ? bytes_of(&dataplane->own.address.v4.sin_addr, sizeof(v4.sin_addr))
		      : bytes_of(&dataplane->own.address.v6.sin6_addr, ADDRESS_V6_BYTES);
	row.parameters[4] = is_v4 ? bytes_of(&v4.sin_addr, sizeof(v4.sin_addr))
				  : bytes_of(&v6->sin6_addr, ADDRESS_V6_BYTES);
	row.parameters[5] = sml_p4_number(dataplane->daemon.config.port, 2);
	/* At the same place in both families. */
	row.parameters[6] = bytes_of(&v6->sin6_port, 2);
	return row;
}

/* ---- counters ---- */

static void read_one(struct sml_dataplane *dataplane, const char *name, uint32_t index,
		     uint64_t *packets, uint64_t *bytes)
{
	sml_p4_must(dataplane->operations->read_counter(dataplane->target, name, index, packets,
							bytes));
}

static void read_fates(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
		       uint64_t packets[SML_P4_FATES], uint64_t bytes[SML_P4_FATES])
{
	for (uint32_t fate = 0; fate <= SML_P4_FATE_BAD_CHECKSUM; fate++)
		read_one(dataplane, "SmlIngress.fates", sml_p4_job_index(job) * SML_P4_FATES + fate,
			 &packets[fate], &bytes[fate]);
}

static void read_ranks(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
		       uint64_t contributions[SML_MAX_CHILDREN], uint64_t resends[SML_MAX_CHILDREN])
{
	uint64_t bytes;

	for (uint32_t rank = 0; rank < job->common.rules.n_ranks; rank++) {
		uint32_t index = sml_p4_job_index(job) * SML_MAX_CHILDREN + rank;

		read_one(dataplane, "SmlIngress.contributions", index, &contributions[rank],
			 &bytes);
		read_one(dataplane, "SmlIngress.resends", index, &resends[rank], &bytes);
	}
}

void sml_p4_job_count(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
		      struct sml_job_counters *counters)
{
	uint64_t packets[SML_P4_FATES] = {0}, bytes[SML_P4_FATES];

	lock(dataplane);
	read_fates(dataplane, job, packets, bytes);
	read_ranks(dataplane, job, counters->contributions, counters->resends);
	unlock(dataplane);
	for (unsigned v = 0; v < SML_VERDICTS; v++)
		counters->verdicts[v] = packets[v] - job->fates_before[v];
	for (unsigned rank = 0; rank < job->common.rules.n_ranks; rank++) {
		counters->contributions[rank] -= job->contributions_before[rank];
		counters->resends[rank] -= job->resends_before[rank];
	}
}

void sml_p4_job_traffic(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			struct sml_dataplane_counters *counters)
{
	uint64_t packets[SML_P4_FATES] = {0}, bytes[SML_P4_FATES], sent[2];

	lock(dataplane);
	read_fates(dataplane, job, packets, bytes);
	read_one(dataplane, "SmlEgress.sent", sml_p4_job_index(job), &sent[0], &sent[1]);
	unlock(dataplane);
	for (unsigned fate = 0; fate <= SML_P4_FATE_BAD_CHECKSUM; fate++) {
		uint64_t n = packets[fate] - job->fates_before[fate];

		if (fate == SML_P4_FATE_BAD_CHECKSUM)
			counters->bad_checksums += n;
		else
			counters->verdicts[fate] += n;
		counters->packets_received += n;
		counters->bytes_received += bytes[fate] - job->bytes_before[fate];
	}
	counters->packets_sent += sent[0] - job->sent_before[0];
	counters->bytes_sent += sent[1] - job->sent_before[1];
}

/* ---- slots ---- */

static int find_buffers(struct sml_dataplane *dataplane, struct sml_p4_job *job)
{
	struct sml_run others[SML_MAX_JOBS], run = {.n = sml_p4_buffers(job)};
	unsigned n = 0;
	bool found;

	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		const struct sml_p4_job *other = sml_p4_job_of(dataplane, i);

		if (other != NULL)
			others[n++] = (struct sml_run){other->first_buffer, sml_p4_buffers(other)};
	}
	found = sml_run_find(&run, 2 * dataplane->limits.slots, others, n);
	job->first_buffer = run.first;
	return found ? 0 : -ENOSPC;
}

/* ---- coming and going ---- */

int sml_p4_job_add(struct sml_dataplane *dataplane, struct sml_p4_job *job)
{
	struct sml_p4_row row;
	int rc = find_buffers(dataplane, job);

	if (rc < 0)
		return rc;
	row = job_row(job);
	lock(dataplane);
	read_fates(dataplane, job, job->fates_before, job->bytes_before);
	read_ranks(dataplane, job, job->contributions_before, job->resends_before);
	read_one(dataplane, "SmlEgress.sent", sml_p4_job_index(job), &job->sent_before[0],
		 &job->sent_before[1]);
	sml_p4_must(dataplane->operations->insert(dataplane->target, &row, 1));
	unlock(dataplane);
	return 0;
}

/* Of all its ranks and slots. */
static void change_entries(struct sml_dataplane *dataplane, const struct sml_p4_job *job,
			   sml_p4_change *change)
{
	for (uint8_t rank = 0; rank < job->common.rules.n_ranks; rank++) {
		const struct sml_p4_row ranks = rank_row(job, rank);
		const struct sml_p4_row members = member_row(job, rank);

		sml_p4_must(change(dataplane->target, &ranks, 1));
		sml_p4_must(change(dataplane->target, &members, 1));
		for (uint8_t shard = 0; shard < job->common.rules.n_shards; shard++) {
			const struct sml_p4_row peer = peer_row(dataplane, job, rank, shard);

			sml_p4_must(change(dataplane->target, &peer, 1));
		}
	}
	if (dataplane->limits.staged)
		sml_p4_slots_change(dataplane, job, change);
}

void sml_p4_job_start(struct sml_dataplane *dataplane, struct sml_p4_job *job)
{
	struct sml_p4_node nodes[SML_MAX_CHILDREN];
	const struct sml_p4_row row = job_row(job);

	lock(dataplane);
	for (uint8_t rank = 0; rank < job->common.rules.n_ranks; rank++)
		nodes[rank] = (struct sml_p4_node){.replication = (uint16_t)(1 + rank),
						   .port = job->peers[rank][0].port};
	change_entries(dataplane, job, dataplane->operations->insert);
	sml_p4_must(dataplane->operations->add_group(dataplane->target, group_of(job), nodes,
						     job->common.rules.n_ranks));
	job->has_entries = true;
	sml_p4_must(dataplane->operations->modify(dataplane->target, &row));
	unlock(dataplane);
}

void sml_p4_job_renew(struct sml_dataplane *dataplane, struct sml_p4_job *job, uint8_t rank,
		      uint8_t shard, const struct sml_p4_peer *peer)
{
	struct sml_p4_row row;

	lock(dataplane);
	/* Its entries come and go under this mutex. */
	if (job->has_entries) {
		job->peers[rank][shard] = *peer;
		row = peer_row(dataplane, job, rank, shard);
		sml_p4_must(dataplane->operations->modify(dataplane->target, &row));
	}
	unlock(dataplane);
}

void sml_p4_job_remove(struct sml_dataplane *dataplane, struct sml_p4_job *job)
{
	const struct sml_p4_row row = job_row(job);

	lock(dataplane);
	sml_p4_must(dataplane->operations->remove(dataplane->target, &row, 1));
	if (job->has_entries) {
		change_entries(dataplane, job, dataplane->operations->remove);
		sml_p4_must(dataplane->operations->remove_group(dataplane->target, group_of(job)));
	}
	job->has_entries = false;
	unlock(dataplane);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs in the XDP program's maps: see maps.h. A job's slots are one part of
 * the array of all slots. Its peers, counters and devmap are rows with its index.
 */
#include <stdlib.h>
#include <string.h>

#include "switch/shared/daemon.h"
#include "switch/xdp/internal.h"

static struct sml_xdp_map_row *find_job(struct sml_xdp_maps *maps, uint32_t number)
{
	uint32_t map_row = number % SML_XDP_JOB_PLACES;
	struct sml_xdp_map_row *job = &maps->map_rows[map_row];

	return sml_xdp_map_row_state(maps, map_row) == SML_XDP_USED && job->number == number ? job
											     : NULL;
}

/* ---- room ---- */

/* Is it another job's? What ended jobs held is, to those who do not wait for it. */
static bool is_taken(const struct sml_xdp_maps *maps, size_t map_row, bool waits)
{
	enum sml_xdp_map_row_state state = sml_xdp_map_row_state(maps, map_row);

	return waits ? state == SML_XDP_USED : state != SML_XDP_FREE;
}

/* A job's buffers lie in a row. */
static bool find_buffers(const struct sml_xdp_maps *maps, struct sml_xdp_map_row *wanted,
			 bool waits)
{
	struct sml_run taken[SML_XDP_JOB_PLACES], run = {.n = wanted->n_buffers};
	unsigned n = 0;
	bool found;

	for (size_t i = 0; i < SML_XDP_JOB_PLACES; i++)
		if (is_taken(maps, i, waits))
			taken[n++] = (struct sml_run){maps->map_rows[i].first_buffer,
						      maps->map_rows[i].n_buffers};
	found = sml_run_find(&run, 2 * maps->config.max_slots, taken, n);
	wanted->first_buffer = run.first;
	return found;
}

static bool find_row(const struct sml_xdp_maps *maps, struct sml_xdp_map_row *wanted, bool waits)
{
	bool taken[SML_XDP_JOB_PLACES] = {false};

	for (size_t i = 0; i < SML_XDP_JOB_PLACES; i++)
		if (is_taken(maps, i, waits))
			taken[maps->map_rows[i].index] = true;
	for (uint32_t i = 0; i < maps->config.max_jobs && i < SML_XDP_JOB_PLACES; i++) {
		wanted->index = i;
		if (!taken[i])
			return true;
	}
	return false;
}

static bool find_room(const struct sml_xdp_maps *maps, struct sml_xdp_map_row *wanted, bool waits)
{
	return !is_taken(maps, wanted->number % SML_XDP_JOB_PLACES, waits) &&
	       find_row(maps, wanted, waits) && find_buffers(maps, wanted, waits);
}

/* ---- counters ---- */

static void add_traffic(struct sml_xdp_traffic *sum, const struct sml_xdp_traffic *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static void add_cpu(struct sml_xdp_totals *totals, const struct sml_xdp_counters *cpu)
{
	add_traffic(&totals->traffic, &cpu->traffic);
	for (unsigned rank = 0; rank < SML_MAX_CHILDREN; rank++) {
		totals->contributions[rank] += cpu->contributions[rank];
		totals->resends[rank] += cpu->resends[rank];
		totals->waited_ns[rank] += cpu->waited_ns[rank];
	}
}

static void totals_of(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job,
		      struct sml_xdp_totals *totals)
{
	struct sml_xdp_counters *values = calloc(maps->n_cpus, sizeof(*values));
	int fd = bpf_map__fd(maps->skeleton->maps.sml_counters);

	memset(totals, 0, sizeof(*totals));
	if (values != NULL && bpf_map_lookup_elem(fd, &job->index, values) == 0)
		for (unsigned cpu = 0; cpu < maps->n_cpus; cpu++)
			add_cpu(totals, &values[cpu]);
	free(values);
}

void sml_xdp_maps_totals(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_totals *totals)
{
	const struct sml_xdp_map_row *job = find_job(maps, number);

	memset(totals, 0, sizeof(*totals));
	if (job != NULL)
		totals_of(maps, job, totals);
}

void sml_xdp_maps_traffic(struct sml_xdp_maps *maps, struct sml_xdp_traffic *traffic)
{
	struct sml_xdp_totals more;

	*traffic = maps->ended;
	for (unsigned i = 0; i < SML_XDP_JOB_PLACES; i++) {
		if (sml_xdp_map_row_state(maps, i) == SML_XDP_FREE)
			continue;
		totals_of(maps, &maps->map_rows[i], &more);
		add_traffic(traffic, &more.traffic);
	}
}

/* What ended jobs have counted is complete, and what they held is for others. */
static void notice_cleaned(struct sml_xdp_maps *maps)
{
	struct sml_xdp_totals totals;

	for (unsigned i = 0; i < SML_XDP_JOB_PLACES; i++) {
		if (sml_xdp_map_row_state(maps, i) != SML_XDP_CLEAN)
			continue;
		totals_of(maps, &maps->map_rows[i], &totals);
		add_traffic(&maps->ended, &totals.traffic);
		sml_xdp_map_row_set(maps, i, SML_XDP_FREE);
	}
}

/* ---- a new job ---- */

static int clear_counters(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	struct sml_xdp_counters *none = calloc(maps->n_cpus, sizeof(*none));
	int rc = -ENOMEM;

	if (none != NULL)
		rc = sml_xdp_map_set(maps->skeleton->maps.sml_counters, &job->index, none);
	free(none);
	return rc;
}

static int set_job(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	uint32_t map_row = job->number % SML_XDP_JOB_PLACES;
	struct sml_xdp_job value = {
		.rules = job->rules,
		.index = job->index,
		.first_buffer = job->first_buffer,
		.tickets = {job->rules.head_slots, job->rules.data_slots},
	};

	return sml_xdp_map_set(maps->skeleton->maps.sml_jobs, &map_row, &value);
}

/* A leaf's: the parent's packets have the parent's number of the job. */
static int set_leaf_row(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	uint32_t parents = job->rules.parent.job % SML_XDP_JOB_PLACES;
	uint32_t map_row = job->number % SML_XDP_JOB_PLACES + 1;

	return sml_xdp_map_set(maps->skeleton->maps.sml_leaf_places, &parents, &map_row);
}

int sml_xdp_maps_add_job(struct sml_xdp_maps *maps, const struct sml_pool_rules *rules)
{
	struct sml_xdp_map_row job = {.number = rules->job, .rules = *rules};
	uint32_t map_row = rules->job % SML_XDP_JOB_PLACES;
	int rc;

	notice_cleaned(maps);
	job.n_buffers = 2u * ((uint32_t)rules->head_slots + rules->data_slots);
	if (rules->lanes > SML_XDP_LANES)
		return -ENOSPC;
	if (!find_room(maps, &job, false)) {
		if (!find_room(maps, &job, true))
			return -ENOSPC;
		sml_xdp_cleaner_wake(maps);
		return -EAGAIN;
	}
	rc = clear_counters(maps, &job);
	if (rc == 0 && rules->is_leaf)
		rc = set_leaf_row(maps, &job);
	if (rc == 0)
		rc = set_job(maps, &job);
	if (rc < 0)
		return rc;
	maps->map_rows[map_row] = job;
	sml_xdp_map_row_set(maps, map_row, SML_XDP_USED);
	return 0;
}

static int peer_row(const struct sml_xdp_map_row *job, uint8_t rank, uint8_t shard, uint32_t *row)
{
	if (job == NULL || rank > SML_XDP_PARENT || shard >= SML_MAX_SHARDS)
		return -ENOENT;
	*row = (job->index * (SML_MAX_CHILDREN + 1) + rank) * SML_MAX_SHARDS + shard;
	return 0;
}

int sml_xdp_maps_get_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  struct sml_xdp_peer *peer)
{
	uint32_t row;
	int rc = peer_row(find_job(maps, number), rank, shard, &row);

	if (rc == 0 &&
	    bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_peers), &row, peer) < 0)
		rc = -errno;
	return rc;
}

int sml_xdp_maps_set_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  const struct sml_xdp_peer *peer)
{
	uint32_t row;
	int rc = peer_row(find_job(maps, number), rank, shard, &row);

	return rc < 0 ? rc : sml_xdp_map_set(maps->skeleton->maps.sml_peers, &row, peer);
}

int sml_xdp_maps_renew_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			    uint32_t renewal)
{
	uint32_t row;
	int rc = peer_row(find_job(maps, number), rank, shard, &row);

	return rc < 0 ? rc : sml_xdp_map_set(maps->skeleton->maps.sml_renewals, &row, &renewal);
}

int sml_xdp_maps_get_slot(struct sml_xdp_maps *maps, uint32_t number, uint32_t slot,
			  struct sml_slot buffers[2])
{
	const struct sml_xdp_map_row *job = find_job(maps, number);
	struct sml_xdp_slot value;

	if (job == NULL || 2 * slot + 1 >= job->n_buffers)
		return -ENOENT;
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t buffer = job->first_buffer + 2 * slot + i;

		/* Under its lock: what a packet is changing just now is not read in part. */
		if (bpf_map_lookup_elem_flags(bpf_map__fd(maps->skeleton->maps.sml_slots), &buffer,
					      &value, BPF_F_LOCK) < 0)
			return -errno;
		buffers[i] = value.slot;
	}
	return 0;
}

int sml_xdp_maps_get_job(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_job *job)
{
	uint32_t map_row = number % SML_XDP_JOB_PLACES;

	if (find_job(maps, number) == NULL)
		return -ENOENT;
	if (bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_jobs), &map_row, job) < 0)
		return -errno;
	return 0;
}

/* The ranks behind one port, the same on every CPU. */
static int set_port(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job, uint32_t ifindex,
		    const uint32_t *ports)
{
	struct sml_xdp_port_key key = {.index = job->index, .ifindex = ifindex};
	struct sml_xdp_port *values = calloc(maps->n_cpus, sizeof(*values));
	int rc;

	if (values == NULL)
		return -ENOMEM;
	for (uint8_t rank = 0; rank < job->rules.n_ranks; rank++)
		if (ports[rank] == ifindex)
			values->ranks[values->n_ranks++] = rank;
	for (unsigned cpu = 1; cpu < maps->n_cpus; cpu++)
		values[cpu] = values[0];
	rc = sml_xdp_map_set(maps->skeleton->maps.sml_ports, &key, values);
	free(values);
	return rc;
}

/* Entry `key` of a devmap: what leaves there meets the exit program. */
static int set_way(struct sml_xdp_maps *maps, int devmap, uint32_t key, uint32_t ifindex)
{
	struct bpf_devmap_val value = {
		.ifindex = ifindex,
		.bpf_prog.fd = bpf_program__fd(maps->skeleton->progs.sml_exit),
	};

	if (bpf_map_update_elem(devmap, &key, &value, BPF_ANY) < 0)
		return -errno;
	return 0;
}

/* A leaf's sums leave to the parent. */
static int set_way_up(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	struct sml_xdp_peer peer;
	int rc = sml_xdp_maps_get_peer(maps, job->number, SML_XDP_PARENT, 0, &peer);

	return rc < 0 ? rc
		      : set_way(maps, bpf_map__fd(maps->skeleton->maps.sml_parents), job->index,
				peer.ifindex);
}

int sml_xdp_maps_set_parent(struct sml_xdp_maps *maps, uint32_t number,
			    const struct sml_xdp_endpoint *parent)
{
	uint32_t map_row = number % SML_XDP_JOB_PLACES;
	struct sml_xdp_job value;
	int rc = sml_xdp_maps_get_job(maps, number, &value);

	if (rc < 0)
		return rc;
	value.parent = *parent;
	return sml_xdp_map_set(maps->skeleton->maps.sml_jobs, &map_row, &value);
}

int sml_xdp_maps_start_job(struct sml_xdp_maps *maps, uint32_t number, uint64_t daemon_key)
{
	struct sml_xdp_map_row *job = find_job(maps, number);
	uint32_t ports[SML_MAX_CHILDREN], map_row = number % SML_XDP_JOB_PLACES;
	struct sml_xdp_job value;
	struct sml_xdp_peer peer;
	int rc = 0;

	if (job == NULL)
		return -ENOENT;
	for (uint8_t rank = 0; rank < job->rules.n_ranks; rank++) {
		rc = sml_xdp_maps_get_peer(maps, number, rank, 0, &peer);
		if (rc < 0)
			return rc;
		ports[rank] = peer.ifindex;
	}
	for (uint8_t rank = 0; rc == 0 && rank < job->rules.n_ranks; rank++) {
		rc = set_way(maps, maps->groups[job->index], rank, ports[rank]);
		if (rc == 0)
			rc = set_port(maps, job, ports[rank], ports);
	}
	if (rc == 0 && job->rules.is_leaf)
		rc = set_way_up(maps, job);
	if (rc == 0)
		rc = sml_xdp_maps_get_job(maps, number, &value);
	if (rc < 0)
		return rc;
	value.daemon_key = daemon_key;
	value.started = 1;
	return sml_xdp_map_set(maps->skeleton->maps.sml_jobs, &map_row, &value);
}

/* ---- the end ---- */

/* The map row may already be that of the parent's next job with the same low bits. */
static void forget_parent(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	uint32_t parents = job->rules.parent.job % SML_XDP_JOB_PLACES, map_row, none = 0;
	struct bpf_map *map = maps->skeleton->maps.sml_leaf_places;

	if (bpf_map_lookup_elem(bpf_map__fd(map), &parents, &map_row) == 0 &&
	    map_row == job->number % SML_XDP_JOB_PLACES + 1)
		sml_xdp_map_set(map, &parents, &none);
}

void sml_xdp_maps_remove_job(struct sml_xdp_maps *maps, uint32_t number)
{
	uint32_t map_row = number % SML_XDP_JOB_PLACES;
	const struct sml_xdp_map_row *job = find_job(maps, number);
	struct sml_xdp_job value;

	if (job == NULL)
		return;
	if (job->rules.is_leaf)
		forget_parent(maps, job);
	/* A program that has admitted a packet still reads where the slots are: that stays. */
	if (sml_xdp_maps_get_job(maps, number, &value) == 0) {
		memset(&value.rules, 0, sizeof(value.rules));
		sml_xdp_map_set(maps->skeleton->maps.sml_jobs, &map_row, &value);
	}
	sml_xdp_map_row_set(maps, map_row, SML_XDP_LEFT);
	sml_xdp_cleaner_wake(maps);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The XDP program's maps: see xdp_maps.h. */
#include "switch/xdp_maps.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "switchml.skel.h"

/* The control plane's view of a job. */
struct job {
	bool used;
	uint32_t number, index;
	uint32_t first_buffer, n_buffers;
	struct sml_pool_rules rules;
};

struct sml_xdp_maps {
	struct sml_xdp_config config;
	struct switchml *skeleton;
	unsigned n_cpus;
	struct job jobs[SML_XDP_JOB_PLACES];
	bool *rows;  /* max_jobs: taken */
	int *groups; /* max_jobs: devmaps */
};

static struct job *find(struct sml_xdp_maps *maps, uint32_t number)
{
	struct job *job = &maps->jobs[number % SML_XDP_JOB_PLACES];

	return job->used && job->number == number ? job : NULL;
}

static int map_set(struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY) < 0 ? -errno : 0;
}

/* ---- opening ---- */

static int set_sizes(struct sml_xdp_maps *maps)
{
	uint32_t jobs = maps->config.max_jobs;
	struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{maps->skeleton->maps.sml_slots, 2 * maps->config.max_slots},
		{maps->skeleton->maps.sml_peers, jobs * SML_XDP_PEERS_PER_JOB},
		{maps->skeleton->maps.sml_ports, jobs * SML_MAX_RANKS},
		{maps->skeleton->maps.sml_counters, jobs},
		{maps->skeleton->maps.sml_rank_counters, jobs * SML_MAX_RANKS},
		{maps->skeleton->maps.sml_groups, jobs},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int rc = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/* All devmaps at once: later, the daemon may have no privilege to make maps. */
static int make_groups(struct sml_xdp_maps *maps)
{
	for (uint32_t i = 0; i < maps->config.max_jobs; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "sml_group", sizeof(uint32_t),
					sizeof(struct bpf_devmap_val), SML_MAX_RANKS, NULL),
		    rc;

		if (fd < 0)
			return -errno;
		maps->groups[i] = fd;
		rc = map_set(maps->skeleton->maps.sml_groups, &i, &fd);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int load(struct sml_xdp_maps *maps)
{
	int rc;

	maps->skeleton = switchml__open();
	if (maps->skeleton == NULL)
		return -errno;
	maps->skeleton->rodata->sml_port_be = htons(maps->config.port);
	maps->skeleton->rodata->sml_accept_partial = maps->config.accept_partial;
	maps->skeleton->rodata->sml_daemon_sends = maps->config.daemon_sends;
	rc = set_sizes(maps);
	if (rc == 0)
		rc = switchml__load(maps->skeleton);
	return rc < 0 ? rc : make_groups(maps);
}

static int quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level, (void)format, (void)arguments;
	return 0;
}

int sml_xdp_maps_open(struct sml_xdp_maps **opened, const struct sml_xdp_config *config,
		      char *error_text, size_t error_bytes)
{
	struct sml_xdp_maps *maps = calloc(1, sizeof(*maps));
	int n_cpus = libbpf_num_possible_cpus(), rc = -ENOMEM;

	if (maps == NULL)
		goto err_text;
	maps->config = *config;
	maps->n_cpus = n_cpus > 0 ? (unsigned)n_cpus : 1;
	maps->rows = calloc(config->max_jobs, sizeof(*maps->rows));
	maps->groups = calloc(config->max_jobs, sizeof(*maps->groups));
	if (maps->rows == NULL || maps->groups == NULL)
		goto err_close;
	if (getenv("SWITCHML_LIBBPF_LOG") == NULL)
		libbpf_set_print(quiet);
	rc = load(maps);
	if (rc < 0)
		goto err_close;
	*opened = maps;
	return 0;

err_close:
	sml_xdp_maps_close(maps);
err_text:
	snprintf(error_text, error_bytes, "the kernel does not take the XDP program: %s%s",
		 strerror(-rc),
		 rc == -EPERM ? "; it needs CAP_BPF and CAP_NET_ADMIN (be root)" : "");
	return rc;
}

void sml_xdp_maps_close(struct sml_xdp_maps *maps)
{
	if (maps == NULL)
		return;
	for (uint32_t i = 0; maps->groups != NULL && i < maps->config.max_jobs; i++)
		if (maps->groups[i] > 0)
			close(maps->groups[i]);
	if (maps->skeleton != NULL)
		switchml__destroy(maps->skeleton);
	free(maps->groups);
	free(maps->rows);
	free(maps);
}

int sml_xdp_maps_entry_fd(const struct sml_xdp_maps *maps)
{
	return bpf_program__fd(maps->skeleton->progs.sml_entry);
}

int sml_xdp_maps_events_fd(const struct sml_xdp_maps *maps)
{
	return bpf_map__fd(maps->skeleton->maps.sml_events);
}

/* ---- jobs ---- */

static bool is_free(const struct sml_xdp_maps *maps, uint32_t first, uint32_t n)
{
	for (size_t i = 0; i < SML_XDP_JOB_PLACES; i++) {
		const struct job *job = &maps->jobs[i];

		if (job->used && first < job->first_buffer + job->n_buffers &&
		    job->first_buffer < first + n)
			return false;
	}
	return true;
}

/* A job's buffers lie in a row: the first that is free begins the array or follows a job's. */
static bool find_buffers(const struct sml_xdp_maps *maps, struct job *wanted)
{
	uint32_t n = wanted->n_buffers, all = 2 * maps->config.max_slots;

	wanted->first_buffer = 0;
	if (n <= all && is_free(maps, 0, n))
		return true;
	for (size_t i = 0; i < SML_XDP_JOB_PLACES; i++) {
		uint32_t first = maps->jobs[i].first_buffer + maps->jobs[i].n_buffers;

		if (!maps->jobs[i].used || first + n > all || !is_free(maps, first, n))
			continue;
		wanted->first_buffer = first;
		return true;
	}
	return false;
}

static bool find_row(const struct sml_xdp_maps *maps, struct job *wanted)
{
	for (uint32_t i = 0; i < maps->config.max_jobs; i++) {
		wanted->index = i;
		if (!maps->rows[i])
			return true;
	}
	return false;
}

static int clear_slots(struct sml_xdp_maps *maps, const struct job *job)
{
	static const struct sml_xdp_slot fresh;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < job->n_buffers; i++) {
		uint32_t row = job->first_buffer + i;

		rc = map_set(maps->skeleton->maps.sml_slots, &row, &fresh);
	}
	return rc;
}

static int clear_peers(struct sml_xdp_maps *maps, const struct job *job)
{
	static const struct sml_xdp_peer nobody;
	uint32_t row = job->index * SML_XDP_PEERS_PER_JOB;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < SML_MAX_SHARDS * job->rules.n_ranks; i++, row++)
		rc = map_set(maps->skeleton->maps.sml_peers, &row, &nobody);
	return rc;
}

static int clear_counters(struct sml_xdp_maps *maps, const struct job *job)
{
	struct sml_xdp_counters *none = calloc(maps->n_cpus, sizeof(*none));
	struct sml_xdp_rank_counters *rank_none = calloc(maps->n_cpus, sizeof(*rank_none));
	int rc = none != NULL && rank_none != NULL ? 0 : -ENOMEM;
	uint32_t row = job->index * SML_MAX_RANKS;

	if (rc == 0)
		rc = map_set(maps->skeleton->maps.sml_counters, &job->index, none);
	for (uint32_t i = 0; rc == 0 && i < SML_MAX_RANKS; i++, row++)
		rc = map_set(maps->skeleton->maps.sml_rank_counters, &row, rank_none);
	free(none);
	free(rank_none);
	return rc;
}

static int set_job(struct sml_xdp_maps *maps, const struct job *job)
{
	uint32_t place = job->number % SML_XDP_JOB_PLACES;
	struct sml_xdp_job value = {
		.rules = job->rules,
		.index = job->index,
		.first_buffer = job->first_buffer,
		.tickets = {job->rules.head_slots, job->rules.data_slots},
	};

	return map_set(maps->skeleton->maps.sml_jobs, &place, &value);
}

int sml_xdp_maps_add_job(struct sml_xdp_maps *maps, const struct sml_pool_rules *rules)
{
	struct job *place = &maps->jobs[rules->job % SML_XDP_JOB_PLACES];
	struct job job = {.used = true, .number = rules->job, .rules = *rules};
	int rc;

	job.n_buffers = 2u * ((uint32_t)rules->head_slots + rules->data_slots);
	if (place->used || rules->lanes > SML_XDP_LANES || !find_row(maps, &job) ||
	    !find_buffers(maps, &job))
		return -ENOSPC;
	rc = clear_slots(maps, &job);
	if (rc == 0)
		rc = clear_peers(maps, &job);
	if (rc == 0)
		rc = clear_counters(maps, &job);
	if (rc == 0)
		rc = set_job(maps, &job);
	if (rc < 0)
		return rc;
	maps->rows[job.index] = true;
	*place = job;
	return 0;
}

static int peer_row(const struct job *job, uint8_t rank, uint8_t shard, uint32_t *row)
{
	if (job == NULL || rank >= SML_MAX_RANKS || shard >= SML_MAX_SHARDS)
		return -ENOENT;
	*row = (job->index * SML_MAX_RANKS + rank) * SML_MAX_SHARDS + shard;
	return 0;
}

int sml_xdp_maps_get_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  struct sml_xdp_peer *peer)
{
	uint32_t row;
	int rc = peer_row(find(maps, number), rank, shard, &row);

	if (rc == 0 &&
	    bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_peers), &row, peer) < 0)
		rc = -errno;
	return rc;
}

int sml_xdp_maps_set_peer(struct sml_xdp_maps *maps, uint32_t number, uint8_t rank, uint8_t shard,
			  const struct sml_xdp_peer *peer)
{
	uint32_t row;
	int rc = peer_row(find(maps, number), rank, shard, &row);

	return rc < 0 ? rc : map_set(maps->skeleton->maps.sml_peers, &row, peer);
}

int sml_xdp_maps_get_job(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_job *job)
{
	uint32_t place = number % SML_XDP_JOB_PLACES;

	if (find(maps, number) == NULL)
		return -ENOENT;
	if (bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_jobs), &place, job) < 0)
		return -errno;
	return 0;
}

/* The ranks behind one port, the same on every CPU. */
static int set_port(struct sml_xdp_maps *maps, const struct job *job, uint32_t ifindex,
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
	rc = map_set(maps->skeleton->maps.sml_ports, &key, values);
	free(values);
	return rc;
}

static int set_group(struct sml_xdp_maps *maps, const struct job *job, uint32_t rank,
		     uint32_t ifindex)
{
	struct bpf_devmap_val value = {
		.ifindex = ifindex,
		.bpf_prog.fd = bpf_program__fd(maps->skeleton->progs.sml_exit),
	};

	if (bpf_map_update_elem(maps->groups[job->index], &rank, &value, BPF_ANY) < 0)
		return -errno;
	return 0;
}

int sml_xdp_maps_start_job(struct sml_xdp_maps *maps, uint32_t number)
{
	struct job *job = find(maps, number);
	uint32_t ports[SML_MAX_RANKS], place = number % SML_XDP_JOB_PLACES;
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
		rc = set_group(maps, job, rank, ports[rank]);
		if (rc == 0)
			rc = set_port(maps, job, ports[rank], ports);
	}
	if (rc == 0)
		rc = sml_xdp_maps_get_job(maps, number, &value);
	if (rc < 0)
		return rc;
	value.started = 1;
	return map_set(maps->skeleton->maps.sml_jobs, &place, &value);
}

/* XDP programs run in RCU's read sections: after this none has seen the job. */
static void wait_for_programs(void)
{
	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static void remove_ports(struct sml_xdp_maps *maps, const struct job *job)
{
	int ports = bpf_map__fd(maps->skeleton->maps.sml_ports);

	for (uint8_t rank = 0; rank < job->rules.n_ranks; rank++) {
		struct sml_xdp_port_key key = {.index = job->index};
		struct sml_xdp_peer peer;
		uint32_t row = rank;

		if (sml_xdp_maps_get_peer(maps, job->number, rank, 0, &peer) == 0) {
			key.ifindex = peer.ifindex;
			bpf_map_delete_elem(ports, &key);
		}
		bpf_map_delete_elem(maps->groups[job->index], &row);
	}
}

void sml_xdp_maps_remove_job(struct sml_xdp_maps *maps, uint32_t number)
{
	static const struct sml_xdp_job nobody;
	uint32_t place = number % SML_XDP_JOB_PLACES;
	struct job *job = find(maps, number);

	if (job == NULL)
		return;
	map_set(maps->skeleton->maps.sml_jobs, &place, &nobody);
	wait_for_programs();
	remove_ports(maps, job);
	maps->rows[job->index] = false;
	job->used = false;
}

/* ---- counters ---- */

static void add_ranks(struct sml_xdp_maps *maps, const struct job *job,
		      struct sml_xdp_rank_counters *values, struct sml_xdp_totals *totals)
{
	int fd = bpf_map__fd(maps->skeleton->maps.sml_rank_counters);

	for (uint32_t rank = 0; rank < job->rules.n_ranks; rank++) {
		uint32_t row = job->index * SML_MAX_RANKS + rank;

		if (bpf_map_lookup_elem(fd, &row, values) < 0)
			continue;
		for (unsigned cpu = 0; cpu < maps->n_cpus; cpu++) {
			totals->contributions[rank] += values[cpu].contributions;
			totals->resends[rank] += values[cpu].resends;
		}
	}
}

void sml_xdp_maps_totals(struct sml_xdp_maps *maps, uint32_t number, struct sml_xdp_totals *totals)
{
	struct job *job = find(maps, number);
	struct sml_xdp_counters *values = calloc(maps->n_cpus, sizeof(*values));

	memset(totals, 0, sizeof(*totals));
	if (job == NULL || values == NULL)
		goto out;
	if (bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_counters), &job->index,
				values) == 0)
		for (unsigned cpu = 0; cpu < maps->n_cpus; cpu++)
			for (unsigned i = 0; i < SML_XDP_FATES; i++)
				totals->fates[i] += values[cpu].fates[i];
	_Static_assert(sizeof(struct sml_xdp_rank_counters) <= sizeof(*values), "reused below");
	add_ranks(maps, job, (struct sml_xdp_rank_counters *)(void *)values, totals);
out:
	free(values);
}

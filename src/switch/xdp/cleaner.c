/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares what an ended job has held for another job: a thread waits until the programs that may
 * use it have ended, and then clears it. Both take milliseconds, which the control thread must not
 * spend on strangers who come and go. Not here: which job gets it next (jobs.c). One wait is enough
 * for all jobs that had ended when it began.
 */
#include "base/thread.h"
#include "switch/xdp/internal.h"

/*
 * After this no running program has seen the jobs that had been removed: an update of a map of
 * maps, here with what is there already, waits for all of them (linux: maybe_wait_bpf_programs).
 */
static int wait_for_programs(struct sml_xdp_maps *maps)
{
	static const uint32_t any = 0;

	return sml_xdp_map_set(maps->skeleton->maps.sml_groups, &any, &maps->groups[any]);
}

static int clear_slots(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	static const struct sml_xdp_slot fresh;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < job->n_buffers; i++) {
		uint32_t row = job->first_buffer + i;

		rc = sml_xdp_map_set(maps->skeleton->maps.sml_slots, &row, &fresh);
	}
	return rc;
}

static void clear_port(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job, uint32_t rank)
{
	uint32_t row = job->index * SML_XDP_PEERS_PER_JOB + rank * SML_MAX_SHARDS;
	struct sml_xdp_port_key key = {.index = job->index};
	struct sml_xdp_peer peer;

	if (bpf_map_lookup_elem(bpf_map__fd(maps->skeleton->maps.sml_peers), &row, &peer) == 0) {
		key.ifindex = peer.ifindex;
		bpf_map_delete_elem(bpf_map__fd(maps->skeleton->maps.sml_ports), &key);
	}
	bpf_map_delete_elem(maps->groups[job->index], &rank);
}

/* Of n ranks in a row; the parent's rows are those of SML_XDP_PARENT. */
static int clear_peers(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job, uint32_t first,
		       uint32_t n)
{
	static const struct sml_xdp_peer nobody;
	uint32_t row = job->index * SML_XDP_PEERS_PER_JOB + first * SML_MAX_SHARDS;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < SML_MAX_SHARDS * n; i++, row++)
		rc = sml_xdp_map_set(maps->skeleton->maps.sml_peers, &row, &nobody);
	return rc;
}

static int clear(struct sml_xdp_maps *maps, const struct sml_xdp_map_row *job)
{
	int rc;

	for (uint32_t rank = 0; rank < job->rules.n_ranks; rank++)
		clear_port(maps, job, rank);
	rc = clear_peers(maps, job, 0, job->rules.n_ranks);
	if (rc == 0 && job->rules.is_leaf) {
		bpf_map_delete_elem(bpf_map__fd(maps->skeleton->maps.sml_parents), &job->index);
		rc = clear_peers(maps, job, SML_XDP_PARENT, 1);
	}
	return rc < 0 ? rc : clear_slots(maps, job);
}

static void clean(struct sml_xdp_maps *maps)
{
	size_t left[SML_XDP_JOB_PLACES], n = 0;

	for (size_t i = 0; i < SML_XDP_JOB_PLACES; i++)
		if (sml_xdp_map_row_state(maps, i) == SML_XDP_LEFT)
			left[n++] = i;
	/* What the kernel has no memory to clear stays LEFT: whoever wants it wakes this again. */
	if (n > 0 && wait_for_programs(maps) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (clear(maps, &maps->map_rows[left[i]]) == 0)
			sml_xdp_map_row_set(maps, left[i], SML_XDP_CLEAN);
}

static void *clean_until_stopped(void *argument)
{
	struct sml_xdp_maps *maps = argument;

	for (;;) {
		if (sem_wait(&maps->cleaner.work) < 0)
			continue; /* a signal's handler has run */
		if (__atomic_load_n(&maps->cleaner.stopping, __ATOMIC_ACQUIRE))
			return NULL;
		clean(maps);
	}
}

int sml_xdp_maps_start_cleaner(struct sml_xdp_maps *maps)
{
	int rc = sml_thread_start(&maps->cleaner.thread, "sml-cleaner", clean_until_stopped, maps);

	maps->cleaner.is_started = rc == 0;
	return rc;
}

void sml_xdp_cleaner_open(struct sml_xdp_maps *maps)
{
	sem_init(&maps->cleaner.work, 0, 0);
}

void sml_xdp_cleaner_close(struct sml_xdp_maps *maps)
{
	__atomic_store_n(&maps->cleaner.stopping, true, __ATOMIC_RELEASE);
	sml_xdp_cleaner_wake(maps);
	if (maps->cleaner.is_started)
		pthread_join(maps->cleaner.thread, NULL);
	sem_destroy(&maps->cleaner.work);
}

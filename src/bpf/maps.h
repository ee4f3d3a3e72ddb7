/* SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only */
/* eBPF: the maps. User space sets the sizes that are 1 here, before it loads the program. */
#ifndef SML_BPF_MAPS_H
#define SML_BPF_MAPS_H

#include "bpf/layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SML_XDP_JOB_PLACES);
	__type(key, uint32_t);
	__type(value, struct sml_xdp_job);
} sml_jobs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sml_xdp_slot);
} sml_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sml_xdp_peer);
} sml_peers SEC(".maps");

/* As peers: the number whose probe tells a rank's address again (core/renewal.h); 0: none. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, uint32_t);
} sml_renewals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct sml_xdp_port_key);
	__type(value, struct sml_xdp_port);
} sml_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct sml_xdp_counters);
} sml_counters SEC(".maps");

/* A job's devmap: entry r is rank r's port, with the exit program. */
struct sml_rank_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 64);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__array(values, struct sml_rank_ports);
} sml_groups SEC(".maps");

/* Of leaves: the port that leads to the parent, with the exit program, by the job's index. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__uint(value_size, sizeof(struct bpf_devmap_val));
} sml_parents SEC(".maps");

/*
 * Of leaves: 1 + the place in sml_jobs, by the parent's number of the job % places. A leaf has one
 * parent, where places are unique.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SML_XDP_JOB_PLACES);
	__type(key, uint32_t);
	__type(value, uint32_t);
} sml_leaf_places SEC(".maps");

/* The second entry program, for lanes of 8 bits. */
int sml_entry_int8(struct xdp_md *ctx);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	__array(values, int(struct xdp_md *));
} sml_int8 SEC(".maps") = {.values = {sml_entry_int8}};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536); /* a page of any size */
} sml_events SEC(".maps");

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* The XDP program's maps: see maps.h. */
#include "switch/xdp/maps.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "switch/xdp/internal.h"

static int set_sizes(struct sml_xdp_maps *maps)
{
	uint32_t jobs = maps->config.max_jobs;
	struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{maps->skeleton->maps.sml_slots, 2 * maps->config.max_slots},
		{maps->skeleton->maps.sml_peers, jobs * SML_XDP_PEERS_PER_JOB},
		{maps->skeleton->maps.sml_renewals, jobs * SML_XDP_PEERS_PER_JOB},
		{maps->skeleton->maps.sml_ports, jobs * SML_MAX_CHILDREN},
		{maps->skeleton->maps.sml_counters, jobs},
		{maps->skeleton->maps.sml_groups, jobs},
		{maps->skeleton->maps.sml_parents, jobs},
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int rc = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);

		if (rc < 0)
			return rc;
	}
	return 0;
}

/*
 * Create all devmaps at once: later, the daemon may have no privilege to create
 * maps.
 */
static int make_groups(struct sml_xdp_maps *maps)
{
	for (uint32_t i = 0; i < maps->config.max_jobs; i++) {
		int fd = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "sml_group", sizeof(uint32_t),
					sizeof(struct bpf_devmap_val), SML_MAX_CHILDREN, NULL),
		    rc;

		if (fd < 0)
			return -errno;
		maps->groups[i] = fd;
		rc = sml_xdp_map_set(maps->skeleton->maps.sml_groups, &i, &fd);
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
	rc = set_sizes(maps);
	if (rc == 0)
		rc = switchml__load(maps->skeleton);
	return rc < 0 ? rc : make_groups(maps);
}

int sml_xdp_maps_open(struct sml_xdp_maps **opened, const struct sml_xdp_config *config)
{
	struct sml_xdp_maps *maps = calloc(1, sizeof(*maps));
	int n_cpus = libbpf_num_possible_cpus(), rc = -ENOMEM;

	if (maps == NULL)
		goto err_text;
	maps->config = *config;
	maps->n_cpus = n_cpus > 0 ? (unsigned)n_cpus : 1;
	sml_xdp_cleaner_open(maps);
	maps->groups = calloc(config->max_jobs, sizeof(*maps->groups));
	if (maps->groups == NULL)
		goto err_close;
	if (!config->shows_libbpf)
		libbpf_set_print(NULL);
	rc = load(maps);
	if (rc < 0)
		goto err_close;
	*opened = maps;
	return 0;

err_close:
	sml_xdp_maps_close(maps);
err_text:
	return sml_error_set(
		rc, "the kernel refuses the XDP program: %s%s", strerror(-rc),
		rc == -EPERM || rc == -EACCES
			? "; it needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (as root, or: setcap "
			  "cap_bpf,cap_perfmon,cap_net_admin=ep on the program)"
			: "");
}

void sml_xdp_maps_close(struct sml_xdp_maps *maps)
{
	if (maps == NULL)
		return;
	sml_xdp_cleaner_close(maps);
	for (uint32_t i = 0; maps->groups != NULL && i < maps->config.max_jobs; i++)
		if (maps->groups[i] > 0)
			close(maps->groups[i]);
	if (maps->skeleton != NULL)
		switchml__destroy(maps->skeleton);
	free(maps->groups);
	free(maps);
}

int sml_xdp_maps_entry_fd(const struct sml_xdp_maps *maps)
{
	return bpf_program__fd(maps->skeleton->progs.sml_entry);
}

int sml_xdp_maps_exit_fd(const struct sml_xdp_maps *maps)
{
	return bpf_program__fd(maps->skeleton->progs.sml_exit);
}

int sml_xdp_maps_events_fd(const struct sml_xdp_maps *maps)
{
	return bpf_map__fd(maps->skeleton->maps.sml_events);
}

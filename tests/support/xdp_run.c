/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/xdp_run.h"
#include "base/error.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_MAPS 32

struct sml_xdp_maps *xdp_open_maps(const struct sml_xdp_config *config)
{
	struct sml_xdp_maps *maps;
	int rc = sml_xdp_maps_open(&maps, config);

	if (rc == -EPERM || rc == -EACCES || rc == -ENOSYS) {
		printf("skipped: BPF is not permitted\n");
		exit(77);
	}
	if (rc < 0) {
		fprintf(stderr, "%s\n", sml_error_last());
		exit(1);
	}
	return maps;
}

void xdp_add_job(struct sml_xdp_maps *maps, const struct sml_pool_rules *rules)
{
	int rc;

	while ((rc = sml_xdp_maps_add_job(maps, rules)) == -EAGAIN)
		usleep(1000);
	assert_int_equal(rc, 0);
}

void xdp_set_parent(struct sml_xdp_maps *maps, uint32_t job, const struct frame_wrapping *parent)
{
	struct sml_xdp_endpoint endpoint = {.port_be = frame_source_port_be(parent)};

	frame_source(parent, (uint8_t *)endpoint.address_be);
	assert_int_equal(sml_xdp_maps_set_parent(maps, job, &endpoint), 0);
}

void xdp_run(int program, const uint8_t *frame, uint32_t bytes, struct xdp_outcome *out)
{
	LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame, .data_size_in = bytes,
		    .data_out = out->frame, .data_size_out = sizeof(out->frame), .repeat = 1);

	assert_int_equal(bpf_prog_test_run_opts(program, &options), 0);
	out->action = options.retval;
	out->bytes = options.data_size_out;
}

int xdp_map_of(int program, const char *name)
{
	uint32_t ids[MAX_MAPS], length = sizeof(struct bpf_prog_info);
	struct bpf_prog_info about = {.nr_map_ids = MAX_MAPS, .map_ids = (uintptr_t)ids};

	assert_int_equal(bpf_obj_get_info_by_fd(program, &about, &length), 0);
	for (uint32_t i = 0; i < about.nr_map_ids; i++) {
		struct bpf_map_info info = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]);

		assert_true(fd >= 0);
		length = sizeof(info);
		assert_int_equal(bpf_obj_get_info_by_fd(fd, &info, &length), 0);
		if (strcmp(info.name, name) == 0)
			return fd;
		close(fd);
	}
	fail_msg("there is no map %s", name);
	return -1;
}

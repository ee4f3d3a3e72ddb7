/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching the worker's program: see program.h. Where there is no program, this process attaches
 * its own. Where there is one of ours, this process holds its link, too. Where there is another
 * program, libxdp's dispatcher runs both.
 */
#include "lib/transport/afxdp/program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include "lib/transport/afxdp/name.h"
#include "switchml_worker.skel.h"

#define PROGRAM_NAME "sml_worker"
/* The dispatcher runs at most this many programs. */
#define SML_DISPATCHED_MAX 10
/* Five seconds in all. */
#define MOMENTS	  500
#define MOMENT_NS 10000000

/* ---- libraries that talk ---- */

static int say_nothing(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

static int say_nothing_either(enum libxdp_print_level level, const char *format, va_list arguments)
{
	return say_nothing((enum libbpf_print_level)level, format, arguments);
}

/* ---- the program's maps ---- */

static int *place_of_map(struct sml_device *device, const char *name)
{
	if (strcmp(name, "sml_wflows") == 0)
		return &device->flows;
	if (strcmp(name, "sml_wowners") == 0)
		return &device->owners;
	return strcmp(name, "sml_wsockets") == 0 ? &device->sockets : NULL;
}

/* Not dup(): programs that the application starts must not inherit the descriptors. */
static int take_own_map(int *fd, const struct bpf_map *map)
{
	*fd = fcntl(bpf_map__fd(map), F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? -errno : 0;
}

static int take_own_maps(struct sml_device *device)
{
	int error = take_own_map(&device->flows, device->skeleton->maps.sml_wflows);

	if (error == 0)
		error = take_own_map(&device->owners, device->skeleton->maps.sml_wowners);
	if (error == 0)
		error = take_own_map(&device->sockets, device->skeleton->maps.sml_wsockets);
	return error;
}

static bool is_of_our_layout(const struct bpf_map_info *map)
{
	if (map->type == BPF_MAP_TYPE_HASH)
		return map->key_size == sizeof(struct sml_worker_flow_key) &&
		       map->value_size == sizeof(struct sml_worker_flow);
	return map->max_entries == SML_WORKER_PLACES;
}

/*
 * Use a program that another process has attached. 0, or -errno: it is not ours after all,
 * or we may not use it.
 */
static int take_maps_of(struct sml_device *device, int program_fd)
{
	uint32_t ids[8];
	struct bpf_prog_info about = {.nr_map_ids = 8, .map_ids = (uint64_t)(uintptr_t)ids};
	uint32_t length = sizeof(about);

	if (bpf_obj_get_info_by_fd(program_fd, &about, &length) < 0)
		return -errno;
	for (uint32_t i = 0; i < about.nr_map_ids && i < 8; i++) {
		struct bpf_map_info map = {0};
		int fd = bpf_map_get_fd_by_id(ids[i]), *place;

		if (fd < 0)
			return -errno;
		length = sizeof(map);
		place = bpf_obj_get_info_by_fd(fd, &map, &length) == 0
				? place_of_map(device, map.name)
				: NULL;
		if (place && *place < 0 && is_of_our_layout(&map))
			*place = fd;
		else
			close(fd);
	}
	return device->flows >= 0 && device->owners >= 0 && device->sockets >= 0 ? 0 : -EBUSY;
}

/* ---- a program of ours that is there ---- */

/* Wait while another process is busy: retry until the error changes or the wait gets too long. */
static int try_until_free(int (*open_number)(uint32_t), uint32_t number, int error)
{
	const struct timespec moment = {.tv_nsec = MOMENT_NS};
	int fd = -1;

	for (unsigned i = 0; i < MOMENTS; i++) {
		fd = open_number(number);
		if (fd >= 0 || errno != error)
			break;
		nanosleep(&moment, NULL);
	}
	return fd;
}

/* Get the program's link, so that this process holds it too. -errno: no link, or no permission. */
static int find_link(const struct sml_device *device, uint32_t program_id)
{
	uint32_t id = 0;

	while (bpf_link_get_next_id(id, &id) == 0) {
		struct bpf_link_info about = {0};
		uint32_t length = sizeof(about);
		/* The kernel returns EAGAIN for a link that its process is still creating. */
		int fd = try_until_free(bpf_link_get_fd_by_id, id, EAGAIN);

		if (fd < 0 && errno != ENOENT)
			return -errno;
		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &about, &length) == 0 &&
		    about.type == BPF_LINK_TYPE_XDP && about.prog_id == program_id &&
		    about.xdp.ifindex == (uint32_t)device->ifindex)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -ENOENT;
}

static int join(struct sml_device *device, uint32_t program_id)
{
	struct bpf_prog_info about = {0};
	uint32_t length = sizeof(about);
	int program_fd = bpf_prog_get_fd_by_id(program_id), error;

	if (program_fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(program_fd, &about, &length) < 0 ||
	    strcmp(about.name, PROGRAM_NAME) != 0) {
		close(program_fd);
		return -EBUSY;
	}
	error = take_maps_of(device, program_fd);
	close(program_fd);
	if (error)
		return error;
	device->link_fd = find_link(device, program_id);
	device->joined = device->link_fd >= 0;
	return device->joined ? 0 : device->link_fd;
}

/* ---- another one's program ---- */

/*
 * The dispatcher's pins outlive a process. So a process with a program there also holds a
 * name (name.h), which is visible where the interface is: in this network namespace.
 */
static int hold_turn(uint32_t ifindex)
{
	return sml_name_hold("turn-", ifindex);
}

/*
 * A program looks dead to others between the moment it joins the dispatcher and the moment
 * its process holds the name. All ranks of a host start at once, so they do this one after
 * the other. -1: the wait was too long.
 */
static int take_turn(const struct sml_device *device)
{
	return try_until_free(hold_turn, (uint32_t)device->ifindex, EADDRINUSE);
}

/* Remove our programs whose processes were killed. Living processes hold their names. */
static void remove_dead(const struct sml_device *device, const struct xdp_multiprog *there,
			enum xdp_attach_mode mode)
{
	struct xdp_program *program = NULL, *dead[SML_DISPATCHED_MAX];
	unsigned n = 0;

	while (n < SML_DISPATCHED_MAX &&
	       (program = xdp_multiprog__next_prog(program, there)) != NULL) {
		int fd;

		if (strcmp(xdp_program__name(program), PROGRAM_NAME) != 0)
			continue;
		fd = sml_name_hold("", xdp_program__id(program));
		/* A name held by another user does not keep our programs there. */
		if (fd < 0 && errno != EPERM)
			continue;
		if (fd >= 0)
			close(fd);
		dead[n++] = program;
	}
	for (unsigned i = 0; i < n; i++)
		(void)xdp_program__detach(dead[i], device->ifindex, mode, 0);
}

/* Attach beside the programs that libxdp's dispatcher already runs there. */
static int dispatch(struct sml_device *device)
{
	struct xdp_multiprog *there = xdp_multiprog__get_from_ifindex(device->ifindex);
	enum xdp_attach_mode mode;
	bool dispatcher;
	int error;

	if (libxdp_get_error(there))
		return (int)libxdp_get_error(there);
	mode = xdp_multiprog__attach_mode(there);
	dispatcher = !xdp_multiprog__is_legacy(there);
	if (dispatcher)
		remove_dead(device, there, mode);
	xdp_multiprog__close(there);
	if (!dispatcher)
		return -EBUSY;
	device->dispatched = xdp_program__from_bpf_obj(device->skeleton->obj, "xdp");
	if (libxdp_get_error(device->dispatched)) {
		error = (int)libxdp_get_error(device->dispatched);
		device->dispatched = NULL;
		return error;
	}
	device->generic = mode == XDP_MODE_SKB;
	error = xdp_program__attach(device->dispatched, device->ifindex, mode, 0);
	if (error == 0)
		device->name_fd = sml_name_hold("", xdp_program__id(device->dispatched));
	return error;
}

static int dispatch_in_turn(struct sml_device *device)
{
	int turn = take_turn(device), error = dispatch(device);

	if (turn >= 0)
		close(turn);
	return error;
}

/* ---- nobody else's ---- */

static int create_link(struct sml_device *device, uint32_t flags)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .flags = flags);
	int fd = bpf_link_create(bpf_program__fd(device->skeleton->progs.sml_worker),
				 device->ifindex, BPF_XDP, &options);

	return fd < 0 ? -errno : fd;
}

static int attach(struct sml_device *device)
{
	int error = switchml_worker__load(device->skeleton);

	if (error)
		return error;
	device->link_fd = create_link(device, XDP_FLAGS_DRV_MODE);
	if (device->link_fd < 0 && device->link_fd != -EBUSY && device->link_fd != -EPERM) {
		device->link_fd = create_link(device, XDP_FLAGS_SKB_MODE);
		device->generic = device->link_fd >= 0;
	}
	return device->link_fd < 0 ? device->link_fd : 0;
}

static bool is_generic(const struct sml_device *device)
{
	LIBBPF_OPTS(bpf_xdp_query_opts, options);

	return bpf_xdp_query(device->ifindex, 0, &options) == 0 &&
	       options.attach_mode == XDP_ATTACHED_SKB;
}

static int put_on(struct sml_device *device)
{
	uint32_t there = 0;
	int error = -EBUSY;

	device->skeleton = switchml_worker__open();
	if (device->skeleton == NULL)
		return -errno;
	if (bpf_xdp_query_id(device->ifindex, 0, &there) < 0 || there == 0)
		error = attach(device);
	/* Another process may just have been faster. */
	if (error == -EBUSY && bpf_xdp_query_id(device->ifindex, 0, &there) == 0 && there != 0) {
		error = join(device, there);
		if (error == -EBUSY)
			error = dispatch_in_turn(device);
		device->generic |= is_generic(device);
		/* Only CAP_SYS_ADMIN shows other programs, and this one may have no link. */
		if (error == -EPERM || error == -ENOENT)
			error = -EBUSY;
	}
	return error || device->joined ? error : take_own_maps(device);
}

int sml_program_attach(struct sml_device *device)
{
	libxdp_print_fn_t xdp_print = libxdp_set_print(say_nothing_either);
	libbpf_print_fn_t bpf_print = libbpf_set_print(say_nothing);
	int error = put_on(device);

	libbpf_set_print(bpf_print);
	libxdp_set_print(xdp_print);
	return error;
}

static void leave_dispatcher(struct sml_device *device)
{
	libxdp_print_fn_t xdp_print = libxdp_set_print(say_nothing_either);
	libbpf_print_fn_t bpf_print = libbpf_set_print(say_nothing);

	(void)xdp_program__detach(device->dispatched, device->ifindex, XDP_MODE_UNSPEC, 0);
	xdp_program__close(device->dispatched);
	libbpf_set_print(bpf_print);
	libxdp_set_print(xdp_print);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void sml_program_detach(struct sml_device *device)
{
	if (device->dispatched)
		leave_dispatcher(device);
	close_fd(device->name_fd);
	close_fd(device->link_fd);
	close_fd(device->flows);
	close_fd(device->owners);
	close_fd(device->sockets);
	switchml_worker__destroy(device->skeleton);
}

void sml_program_forget(struct sml_device *device)
{
	close_fd(device->link_fd);
	close_fd(device->name_fd);
}

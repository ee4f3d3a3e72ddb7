/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The XDP dataplane: slots live in the kernel (bpf/switchml.bpf.c), and here is
 * one thread for what reaches the socket all the same: probes, which it answers;
 * in generic mode completed results, which it sends to all ranks; and packets
 * that the program would not judge, which it counts. It also hears of mismatches.
 *
 * The invariant: no contribution is ever summed here. A job's slots are in the
 * kernel alone.
 */
#include "switch/dataplane_xdp.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "switch/udp_results.h"
#include "switch/udp_socket.h"
#include "switch/xdp_attach.h"
#include "switch/xdp_maps.h"

#define BUFFER_BYTES 65536
/* Frames that a veth or a small NIC's ring holds. */
#define RING_FRAMES 256

struct xdp_job {
	struct sml_pool_rules rules;
	bool started, mismatch_told;
	struct sml_path paths[SML_MAX_RANKS][SML_MAX_SHARDS];
	bool has_path[SML_MAX_RANKS][SML_MAX_SHARDS];
};

struct sml_dataplane {
	struct sml_dataplane_config config;
	struct sml_xdp_maps *maps;
	struct sml_xdp_ports ports;
	struct ring_buffer *events;
	int fd, wake_fd;
	pthread_t thread;
	pthread_mutex_t mutex; /* jobs and counters */
	struct xdp_job *jobs[SML_MAX_JOBS];
	struct sml_dataplane_counters counters;
	struct sml_results results;
	uint32_t socket_drops_seen;
	uint8_t buffer[BUFFER_BYTES] __attribute__((aligned(8)));
};

/* ---- packets that reached the socket ---- */

static void send_to(struct sml_dataplane *dataplane, const void *packet, uint32_t length,
		    const struct sml_path *path)
{
	sml_results_send_one(&dataplane->results, dataplane->fd, packet, length, path);
}

/* The program has learned the way back from the same probe. */
static void answer_probe(struct sml_dataplane *dataplane, struct xdp_job *job,
			 struct sml_header *header, uint32_t length, const struct sml_path *source)
{
	const struct sml_pool_rules *rules = &job->rules;

	dataplane->counters.probes++;
	if (header->epoch_be != sml_be32(rules->epoch) || header->rank >= rules->n_ranks ||
	    header->shard >= rules->n_shards ||
	    header->key_be != sml_be64(rules->cookies[header->rank]))
		return;
	if (!job->started) {
		job->paths[header->rank][header->shard] = *source;
		job->has_path[header->rank][header->shard] = true;
	}
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(rules->tag);
	send_to(dataplane, header, length, source);
}

/* Completed by the program, and no driver to send it: only it knows the tag. */
static void send_result(struct sml_dataplane *dataplane, struct xdp_job *job,
			const struct sml_header *header, uint32_t length)
{
	if (header->key_be != sml_be64(job->rules.tag) ||
	    header->epoch_be != sml_be32(job->rules.epoch) || header->shard >= SML_MAX_SHARDS)
		return;
	for (unsigned rank = 0; rank < job->rules.n_ranks; rank++)
		send_to(dataplane, header, length, &job->paths[rank][header->shard]);
}

static void receive_packet(struct sml_dataplane *dataplane, void *packet, uint32_t length,
			   const struct sml_path *source)
{
	struct sml_header *header = packet;
	struct xdp_job *job;

	dataplane->counters.packets_received++;
	dataplane->counters.bytes_received += length;
	if (length < SML_HEADER_BYTES || header->magic_be != sml_be16(SML_WIRE_MAGIC) ||
	    header->version != SML_WIRE_VERSION) {
		dataplane->counters.verdicts[SML_VERDICT_MALFORMED]++;
		return;
	}
	job = dataplane->jobs[sml_be32(header->job_be) % SML_MAX_JOBS];
	if (job == NULL || header->job_be != sml_be32(job->rules.job))
		dataplane->counters.verdicts[SML_VERDICT_UNKNOWN_JOB]++;
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(dataplane, job, header, length, source);
	else if (header->kind == SML_PACKET_RESULT)
		send_result(dataplane, job, header, length);
	/* A contribution: the program has counted why it would not have it. */
}

static bool receive_message(struct sml_dataplane *dataplane)
{
	union {
		char bytes[SML_UDP_CONTROL_BYTES];
		struct cmsghdr align;
	} control;
	struct sockaddr_in6 name;
	struct sml_path source;
	struct iovec vector = {dataplane->buffer, BUFFER_BYTES};
	struct msghdr message = {
		.msg_name = &name,
		.msg_namelen = sizeof(name),
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t length = recvmsg(dataplane->fd, &message, MSG_DONTWAIT);
	uint32_t segment;

	if (length < 0)
		return false;
	segment = sml_udp_segment_bytes(&message, (uint32_t)length, &dataplane->socket_drops_seen);
	if (segment % 4 != 0) {
		dataplane->counters.verdicts[SML_VERDICT_MALFORMED]++;
		return true;
	}
	sml_udp_path(&message, &source);
	for (uint32_t offset = 0; offset < (uint32_t)length; offset += segment) {
		uint32_t left = (uint32_t)length - offset;

		receive_packet(dataplane, dataplane->buffer + offset,
			       left < segment ? left : segment, &source);
	}
	return true;
}

/* ---- the thread ---- */

static int on_event(void *context, void *data, size_t bytes)
{
	struct sml_dataplane *dataplane = context;
	const struct sml_xdp_event *event = data;
	struct xdp_job *job = dataplane->jobs[event->job % SML_MAX_JOBS];
	struct sml_mismatch mismatch = {
		.job = event->job,
		.slot = event->slot,
		.use = event->use,
		.chunk = event->chunk,
		.ranks = {(uint8_t)__builtin_ctzll(event->seen | 1ull << 63), event->rank},
	};

	if (bytes < sizeof(*event) || job == NULL || job->rules.job != event->job ||
	    job->mismatch_told)
		return 0;
	job->mismatch_told = true;
	dataplane->config.on_mismatch(dataplane->config.context, &mismatch);
	return 0;
}

static void *run(void *argument)
{
	struct sml_dataplane *dataplane = argument;
	struct pollfd fds[3] = {
		{.fd = dataplane->fd, .events = POLLIN},
		{.fd = ring_buffer__epoll_fd(dataplane->events), .events = POLLIN},
		{.fd = dataplane->wake_fd, .events = POLLIN},
	};

	while (poll(fds, 3, -1) >= 0 || errno == EINTR) {
		if (fds[2].revents)
			break;
		pthread_mutex_lock(&dataplane->mutex);
		ring_buffer__consume(dataplane->events);
		for (int i = 0; i < 64 && receive_message(dataplane); i++)
			;
		pthread_mutex_unlock(&dataplane->mutex);
	}
	return NULL;
}

static int start_thread(struct sml_dataplane *dataplane)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&dataplane->thread, NULL, run, dataplane);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

/* ---- opening ---- */

/*
 * From here on nothing needs privileges but the use of maps, and that only where
 * kernel.unprivileged_bpf_disabled forbids it to others, on kernels before 5.19.
 */
static void drop_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	data[CAP_TO_INDEX(CAP_BPF)].effective = CAP_TO_MASK(CAP_BPF);
	data[CAP_TO_INDEX(CAP_BPF)].permitted = CAP_TO_MASK(CAP_BPF);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_capset, &header, data);
}

static int load_and_attach(struct sml_dataplane *dataplane, bool generic, char *error_text,
			   size_t error_bytes)
{
	struct sml_xdp_config config = {
		.port = dataplane->config.port,
		.max_jobs = dataplane->config.max_jobs,
		.max_slots = dataplane->config.max_slots,
		.accept_partial = sml_xdp_ports_virtual(&dataplane->ports),
		.daemon_sends = generic,
	};
	int rc = sml_xdp_maps_open(&dataplane->maps, &config, error_text, error_bytes);

	if (rc < 0)
		return rc;
	rc = sml_xdp_ports_attach(&dataplane->ports, sml_xdp_maps_entry_fd(dataplane->maps),
				  generic, error_text, error_bytes);
	if (rc < 0) {
		sml_xdp_maps_close(dataplane->maps);
		dataplane->maps = NULL;
	}
	return rc;
}

static int attach(struct sml_dataplane *dataplane, char *error_text, size_t error_bytes)
{
	int rc = sml_xdp_ports_parse(&dataplane->ports, dataplane->config.interfaces, error_text,
				     error_bytes);

	if (rc < 0)
		return rc;
	if (!dataplane->config.generic) {
		rc = load_and_attach(dataplane, false, error_text, error_bytes);
		if (rc == 0 || rc == -EBUSY || rc == -EPERM)
			return rc;
		fprintf(stderr, "switchml switch: %s; using XDP's slow generic mode\n", error_text);
	}
	return load_and_attach(dataplane, true, error_text, error_bytes);
}

static void free_all(struct sml_dataplane *dataplane)
{
	sml_xdp_ports_detach(&dataplane->ports);
	if (dataplane->events != NULL)
		ring_buffer__free(dataplane->events);
	sml_xdp_maps_close(dataplane->maps);
	if (dataplane->fd >= 0)
		close(dataplane->fd);
	if (dataplane->wake_fd >= 0)
		close(dataplane->wake_fd);
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		free(dataplane->jobs[i]);
	pthread_mutex_destroy(&dataplane->mutex);
	free(dataplane);
}

static int open_parts(struct sml_dataplane *dataplane, char *error_text, size_t error_bytes)
{
	const struct sml_udp_options options = {
		.address = dataplane->config.address,
		.port = dataplane->config.port,
		.n_threads = 1,
	};
	uint32_t buffer_bytes;
	int rc = attach(dataplane, error_text, error_bytes);

	if (rc < 0)
		return rc;
	sml_results_init(&dataplane->results, UINT8_MAX);
	dataplane->fd = sml_udp_socket_open(&options, true, &buffer_bytes, error_text, error_bytes);
	if (dataplane->fd < 0)
		return dataplane->fd;
	dataplane->wake_fd = eventfd(0, EFD_CLOEXEC);
	dataplane->events = ring_buffer__new(sml_xdp_maps_events_fd(dataplane->maps), on_event,
					     dataplane, NULL);
	rc = dataplane->wake_fd < 0 || dataplane->events == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		drop_privileges();
		rc = start_thread(dataplane);
	}
	if (rc < 0)
		snprintf(error_text, error_bytes, "no thread for the dataplane: %s", strerror(-rc));
	return rc;
}

static int xdp_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config,
		    char *error_text, size_t error_bytes)
{
	struct sml_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	int rc;

	if (dataplane == NULL)
		return -ENOMEM;
	dataplane->config = *config;
	dataplane->fd = dataplane->wake_fd = -1;
	pthread_mutex_init(&dataplane->mutex, NULL);
	rc = open_parts(dataplane, error_text, error_bytes);
	if (rc < 0) {
		free_all(dataplane);
		return rc;
	}
	*opened = dataplane;
	return 0;
}

static void xdp_close(struct sml_dataplane *dataplane)
{
	uint64_t one = 1;

	while (write(dataplane->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(dataplane->thread, NULL);
	free_all(dataplane);
}

/* ---- jobs ---- */

static int xdp_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct xdp_job *job = calloc(1, sizeof(*job));
	int rc;

	if (job == NULL)
		return -ENOMEM;
	job->rules = *rules;
	rc = sml_xdp_maps_add_job(dataplane->maps, rules);
	if (rc < 0) {
		free(job);
		return rc;
	}
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[rules->job % SML_MAX_JOBS] = job;
	pthread_mutex_unlock(&dataplane->mutex);
	return 0;
}

static void xdp_start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	int rc = sml_xdp_maps_start_job(dataplane->maps, number);

	if (rc < 0)
		fprintf(stderr, "switchml switch: the kernel refused a job's ports: %s\n",
			strerror(-rc));
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[number % SML_MAX_JOBS]->started = true;
	pthread_mutex_unlock(&dataplane->mutex);
}

static void xdp_remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	sml_xdp_maps_remove_job(dataplane->maps, number);
	pthread_mutex_lock(&dataplane->mutex);
	free(dataplane->jobs[number % SML_MAX_JOBS]);
	dataplane->jobs[number % SML_MAX_JOBS] = NULL;
	pthread_mutex_unlock(&dataplane->mutex);
}

/* Both the program and the socket have heard every shard of the rank. */
static bool xdp_has_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t rank)
{
	const struct xdp_job *job = dataplane->jobs[number % SML_MAX_JOBS];
	struct sml_xdp_peer peer;
	bool all = true;

	pthread_mutex_lock(&dataplane->mutex);
	for (uint8_t shard = 0; all && shard < job->rules.n_shards; shard++)
		all = job->has_path[rank][shard] &&
		      sml_xdp_maps_get_peer(dataplane->maps, number, rank, shard, &peer) == 0 &&
		      peer.ifindex != 0;
	pthread_mutex_unlock(&dataplane->mutex);
	return all;
}

static uint32_t xdp_window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	uint32_t packets = RING_FRAMES * dataplane->ports.n / n_ranks;

	(void)packet_bytes;
	return packets < 4 ? 4 : packets > RING_FRAMES ? RING_FRAMES : packets;
}

/* ---- counters ---- */

static void xdp_job_counters(struct sml_dataplane *dataplane, uint32_t number,
			     struct sml_job_counters *counters)
{
	struct sml_xdp_totals totals;

	sml_xdp_maps_totals(dataplane->maps, number, &totals);
	memcpy(counters->verdicts, totals.fates, sizeof(counters->verdicts));
	memcpy(counters->contributions, totals.contributions, sizeof(totals.contributions));
	memcpy(counters->resends, totals.resends, sizeof(totals.resends));
}

static void xdp_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	pthread_mutex_lock(&dataplane->mutex);
	*counters = dataplane->counters;
	counters->socket_drops = dataplane->socket_drops_seen;
	counters->packets_sent = dataplane->results.packets_sent;
	counters->bytes_sent = dataplane->results.bytes_sent;
	counters->send_drops = dataplane->results.drops;
	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		struct sml_xdp_totals totals;

		if (dataplane->jobs[i] == NULL)
			continue;
		sml_xdp_maps_totals(dataplane->maps, dataplane->jobs[i]->rules.job, &totals);
		for (unsigned v = 0; v < SML_VERDICTS; v++)
			counters->verdicts[v] += totals.fates[v];
		counters->bad_checksums += totals.fates[SML_XDP_FATE_BAD_CHECKSUM];
	}
	pthread_mutex_unlock(&dataplane->mutex);
}

const struct sml_dataplane_operations sml_dataplane_xdp = {
	.name = "xdp",
	.max_lanes = SML_XDP_LANES,
	.open = xdp_open,
	.close = xdp_close,
	.add_job = xdp_add_job,
	.start_job = xdp_start_job,
	.remove_job = xdp_remove_job,
	.has_address = xdp_has_address,
	.window = xdp_window,
	.job_counters = xdp_job_counters,
	.counters = xdp_counters,
};

/* SPDX-License-Identifier: BSD-3-Clause */
#include "switch/shared/daemon.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/thread.h"
#include "net/udp_socket.h"

/* ---- opening and closing ---- */

int sml_daemon_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config,
		    size_t bytes, int (*open_parts)(struct sml_dataplane *dataplane),
		    void (*free_all)(struct sml_dataplane *dataplane))
{
	struct sml_dataplane *dataplane = calloc(1, bytes);
	int rc;

	if (dataplane == NULL)
		return sml_error_set(-ENOMEM, "no memory for the dataplane");
	sml_daemon_init((struct sml_daemon *)dataplane, config);
	rc = open_parts(dataplane);
	if (rc < 0)
		free_all(dataplane);
	else
		*opened = dataplane;
	return rc;
}

void sml_daemon_init(struct sml_daemon *daemon, const struct sml_dataplane_config *config)
{
	daemon->config = *config;
	daemon->fd = daemon->wake_fd = daemon->events_fd = -1;
	pthread_mutex_init(&daemon->mutex, NULL);
}

void sml_daemon_fini(struct sml_daemon *daemon)
{
	sml_udp_inbox_free(daemon->inbox);
	if (daemon->fd >= 0)
		sml_fd_close(daemon->fd);
	if (daemon->wake_fd >= 0)
		close(daemon->wake_fd);
	for (unsigned i = 0; i < SML_MAX_JOBS; i++)
		free(daemon->jobs[i]);
	pthread_mutex_destroy(&daemon->mutex);
}

int sml_daemon_listen(struct sml_daemon *daemon, uint32_t inbox_bytes, bool segments)
{
	const struct sml_udp_options options = {
		.address = daemon->config.address,
		.port = daemon->config.port,
		.n_threads = 1,
		.for_xdp = true,
	};
	struct sml_udp_inbox_config inbox = {.bytes = inbox_bytes, .sources = true};

	daemon->fd = sml_udp_socket_open(&options, true, &daemon->buffer_bytes);
	if (daemon->fd < 0)
		return daemon->fd;
	sml_udp_sender_init(&daemon->sender, daemon->fd, segments);
	inbox.fd = daemon->fd;
	daemon->inbox = sml_udp_inbox_new(&inbox);
	if (daemon->inbox == NULL)
		return sml_error_set(-ENOMEM, "no memory for the dataplane");
	daemon->wake_fd = eventfd(0, EFD_CLOEXEC);
	return daemon->wake_fd < 0
		       ? sml_error_set(
				 -ENOMEM,
				 "no file descriptor for the dataplane's thread: raise the limit "
				 "(ulimit -n, or LimitNOFILE= of the service)")
		       : 0;
}

void sml_daemon_stop(struct sml_daemon *daemon)
{
	uint64_t one = 1;

	if (!daemon->has_thread)
		return;
	while (write(daemon->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(daemon->thread, NULL);
}

/* ---- jobs ---- */

void sml_daemon_set_job(struct sml_daemon *daemon, uint32_t number, struct sml_daemon_job *job)
{
	pthread_mutex_lock(&daemon->mutex);
	daemon->jobs[number % SML_MAX_JOBS] = job;
	pthread_mutex_unlock(&daemon->mutex);
}

void sml_daemon_renew_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t child,
			      uint8_t shard, uint32_t renewal)
{
	struct sml_daemon *daemon = (struct sml_daemon *)dataplane;

	pthread_mutex_lock(&daemon->mutex);
	sml_daemon_job_of(daemon, number)->renewals[child][shard] = renewal;
	pthread_mutex_unlock(&daemon->mutex);
}

void sml_daemon_counters(struct sml_daemon *daemon, struct sml_dataplane_counters *counters)
{
	const struct sml_udp_inbox_counters *in = sml_udp_inbox_counters(daemon->inbox);

	pthread_mutex_lock(&daemon->mutex);
	*counters = daemon->counters;
	counters->socket_drops = in->drops;
	counters->send_drops = daemon->sender.drops;
	counters->packets_received += in->packets;
	counters->bytes_received += in->bytes;
	counters->packets_sent += daemon->sender.packets;
	counters->bytes_sent += daemon->sender.bytes;
	counters->verdicts[SML_VERDICT_MALFORMED] += in->malformed;
	pthread_mutex_unlock(&daemon->mutex);
}

static bool is_free(const struct sml_run *wanted, const struct sml_run *others, unsigned n_others)
{
	for (unsigned i = 0; i < n_others; i++)
		if (wanted->first < others[i].first + others[i].n &&
		    others[i].first < wanted->first + wanted->n)
			return false;
	return true;
}

/* The first free run begins where the array or another run ends. */
bool sml_run_find(struct sml_run *wanted, uint32_t all, const struct sml_run *others,
		  unsigned n_others)
{
	uint32_t best = UINT32_MAX;

	for (unsigned i = 0; i <= n_others; i++) {
		wanted->first = i == n_others ? 0 : others[i].first + others[i].n;
		if (wanted->first < best && wanted->first + wanted->n <= all &&
		    is_free(wanted, others, n_others))
			best = wanted->first;
	}
	wanted->first = best;
	return best != UINT32_MAX;
}

/* ---- packets ---- */

void sml_daemon_send(struct sml_daemon *daemon, const void *packet, uint32_t length,
		     const struct sml_path *path)
{
	const struct iovec bytes = {(void *)(uintptr_t)packet, length};

	sml_udp_sender_send_one(&daemon->sender, &bytes, path);
}

static void answer_probe(struct sml_daemon *daemon, struct sml_daemon_job *job,
			 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	enum sml_verdict verdict = sml_pool_check_probe(&job->rules, header);
	struct sml_path path;

	daemon->counters.probes++;
	if (verdict != SML_VERDICT_ABSORBED) {
		sml_daemon_drop(daemon, verdict);
		return;
	}
	sml_udp_path(message, &path);
	daemon->service->note_address((struct sml_dataplane *)daemon, job, header, message);
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(job->rules.tag);
	sml_daemon_send(daemon, header, length, &path);
}

static void receive_packet(struct sml_daemon *daemon, const struct sml_packet *packet)
{
	struct sml_header *header = (struct sml_header *)(uintptr_t)packet->bytes;
	struct msghdr *message = sml_udp_inbox_message(daemon->inbox, packet);
	uint32_t number = sml_be32(header->job_be);
	struct sml_daemon_job *job = sml_daemon_job_of(daemon, number);

	if (packet->length > daemon->service->longest ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION)
		sml_daemon_drop(daemon, SML_VERDICT_MALFORMED);
	else if (job == NULL || job->rules.job != number)
		sml_daemon_drop(daemon, SML_VERDICT_UNKNOWN_JOB);
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(daemon, job, header, packet->length, message);
	else
		daemon->service->take((struct sml_dataplane *)daemon, job, header, packet->length,
				      message);
}

static void receive_batch(struct sml_daemon *daemon)
{
	bool drained;
	unsigned n;

	pthread_mutex_lock(&daemon->mutex);
	n = sml_udp_inbox_receive(daemon->inbox, daemon->packets, &drained);
	for (unsigned i = 0; i < n; i++)
		receive_packet(daemon, &daemon->packets[i]);
	if (daemon->service->end_batch != NULL)
		daemon->service->end_batch((struct sml_dataplane *)daemon);
	pthread_mutex_unlock(&daemon->mutex);
}

static void *serve(void *argument)
{
	struct sml_daemon *daemon = argument;
	const struct sml_daemon_service *service = daemon->service;
	struct pollfd fds[] = {
		{.fd = daemon->fd, .events = POLLIN},
		{.fd = daemon->events_fd, .events = POLLIN},
		{.fd = daemon->wake_fd, .events = POLLIN},
	};
	uint64_t check_ns = sml_now_ns();

	while ((poll(fds, 3, service->check_ms) >= 0 || errno == EINTR) && !fds[2].revents) {
		if (service->check != NULL && sml_now_ns() >= check_ns) {
			service->check((struct sml_dataplane *)daemon);
			check_ns = sml_now_ns() + (unsigned)service->check_ms * SML_NS_PER_MS;
		}
		receive_batch(daemon);
	}
	return NULL;
}

int sml_daemon_start(struct sml_daemon *daemon, const struct sml_daemon_service *service)
{
	int rc;

	daemon->service = service;
	rc = sml_thread_start(&daemon->thread, "sml-data", serve, daemon);
	daemon->has_thread = rc == 0;
	return rc < 0 ? sml_error_set(rc, "the dataplane's thread cannot be started: %s",
				      strerror(-rc))
		      : 0;
}

void sml_daemon_tell_mismatch(const struct sml_daemon *daemon, struct sml_daemon_job *job,
			      const struct sml_mismatch *mismatch)
{
	if (!job->mismatch_reported)
		daemon->config.on_mismatch(daemon->config.context, mismatch);
	job->mismatch_reported = true;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves the XDP dataplane's socket: see thread.h. */
#include "switch/xdp/thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/thread.h"

static void drop(struct sml_dataplane *dataplane, enum sml_verdict verdict)
{
	dataplane->counters.verdicts[verdict]++;
}

/* The program has learned the return path from the same probe. */
static void answer_probe(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
			 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	enum sml_verdict verdict = sml_pool_check_probe(&job->rules, header);
	uint8_t rank = header->rank, shard = header->shard;
	struct sml_path path;

	dataplane->counters.probes++;
	if (verdict != SML_VERDICT_ABSORBED) {
		drop(dataplane, verdict);
		return;
	}
	sml_udp_path(message, &path);
	if (!job->started) {
		job->paths[rank][shard] = path;
		job->arrived_by[rank][shard] = sml_udp_interface(message);
		job->has_path[rank][shard] = true;
	}
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(job->rules.tag);
	sml_results_send_one(&dataplane->results, dataplane->fd, header, length, &path);
}

static void gather(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
		   const struct sml_header *header, uint32_t length)
{
	struct sml_results *results = &dataplane->results;

	if (sml_results_add(results, job, header->shard, header, length))
		return;
	sml_results_flush(results, dataplane->fd);
	sml_results_begin(results, job, header->shard, job->paths[0], job->rules.n_ranks);
	sml_results_add(results, job, header->shard, header, length);
}

/*
 * Did the program make this result? Only the program knows the key. Other packets reach the socket
 * too, and all ranks know the tag that results carry.
 */
static void send_result(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
			struct sml_header *header, uint32_t length)
{
	uint8_t rank = (uint8_t)(header->kind - SML_XDP_KIND_TO_RANK);

	if (job->daemon_key == 0 || header->key_be != sml_be64(job->daemon_key) ||
	    header->epoch_be != sml_be32(job->rules.epoch) ||
	    header->shard >= job->rules.n_shards || !job->started) {
		drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	header->key_be = sml_be64(job->rules.tag);
	if (header->kind == SML_PACKET_RESULT) {
		gather(dataplane, job, header, length);
	} else if (rank < job->rules.n_ranks) {
		header->kind = SML_PACKET_RESULT;
		sml_results_send_one(&dataplane->results, dataplane->fd, header, length,
				     &job->paths[rank][header->shard]);
	}
}

static void receive_packet(struct sml_dataplane *dataplane, void *packet, uint32_t length,
			   struct msghdr *message)
{
	struct sml_header *header = packet;
	struct sml_xdp_user_job *job;

	dataplane->counters.packets_received++;
	dataplane->counters.bytes_received += length;
	if (!sml_packet_length_is_valid(length) || (message->msg_flags & MSG_TRUNC) ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION) {
		drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	job = dataplane->jobs[sml_be32(header->job_be) % SML_MAX_JOBS];
	if (job == NULL || header->job_be != sml_be32(job->rules.job))
		drop(dataplane, SML_VERDICT_UNKNOWN_JOB);
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(dataplane, job, header, length, message);
	else if (header->kind != SML_PACKET_CONTRIBUTION)
		send_result(dataplane, job, header, length);
	/* A contribution: the program has counted the reason why it did not accept it. */
}

static int receive_batch(struct sml_dataplane *dataplane)
{
	int n;

	for (unsigned i = 0; i < SML_XDP_BATCH; i++) {
		dataplane->vectors[i] = (struct iovec){dataplane->buffers[i], SML_XDP_BUFFER_BYTES};
		dataplane->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &dataplane->sources[i],
			.msg_namelen = sizeof(dataplane->sources[i]),
			.msg_iov = &dataplane->vectors[i],
			.msg_iovlen = 1,
			.msg_control = dataplane->controls[i].bytes,
			.msg_controllen = SML_UDP_CONTROL_BYTES,
		};
	}
	n = recvmmsg(dataplane->fd, dataplane->messages, SML_XDP_BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++) {
		struct msghdr *message = &dataplane->messages[i].msg_hdr;

		sml_udp_segment_bytes(message, 0, &dataplane->socket_drops_seen);
		receive_packet(dataplane, dataplane->buffers[i], dataplane->messages[i].msg_len,
			       message);
	}
	/* The results are in the buffers. */
	sml_results_flush(&dataplane->results, dataplane->fd);
	return n;
}

int sml_xdp_thread_event(void *context, void *data, size_t bytes)
{
	struct sml_dataplane *dataplane = context;
	const struct sml_xdp_event *event = data;
	struct sml_xdp_user_job *job = dataplane->jobs[event->job % SML_MAX_JOBS];
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
		receive_batch(dataplane);
		pthread_mutex_unlock(&dataplane->mutex);
	}
	return NULL;
}

int sml_xdp_thread_start(struct sml_dataplane *dataplane)
{
	return sml_thread_start(&dataplane->thread, "sml-data", run, dataplane);
}

void sml_xdp_thread_stop(struct sml_dataplane *dataplane)
{
	uint64_t one = 1;

	while (write(dataplane->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(dataplane->thread, NULL);
}

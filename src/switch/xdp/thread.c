/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves the XDP dataplane's socket: see thread.h. */
#include "switch/xdp/thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "switch/shared/log.h"

#define INBOX_BYTES (512u << 10)

static void count_drop(struct sml_dataplane *dataplane, enum sml_verdict verdict)
{
	dataplane->counters.verdicts[verdict]++;
}

static void send_one(struct sml_dataplane *dataplane, const void *packet, uint32_t length,
		     const struct sml_path *path)
{
	const struct iovec bytes = {(void *)(uintptr_t)packet, length};

	sml_udp_sender_send_one(&dataplane->socket.sender, &bytes, path);
}

static void flush(struct sml_dataplane *dataplane)
{
	char refusal[SML_UDP_REFUSAL_BYTES];

	sml_results_flush(&dataplane->results);
	if (sml_udp_sender_refusal(&dataplane->socket.sender, refusal))
		sml_switch_log(SML_LOG_WARN, "%s", refusal);
}

/* The program decides in the same way. */
static bool renews_address(struct sml_xdp_user_job *job, const struct sml_header *header,
			   struct msghdr *message)
{
	uint32_t *renewal = &job->renewals[header->rank][header->shard];

	if (!job->started)
		return true;
	if (*renewal == 0 || header->use_be != sml_be32(*renewal) ||
	    job->arrived_by[header->rank][header->shard] != sml_udp_interface(message))
		return false;
	*renewal = 0;
	return true;
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
		count_drop(dataplane, verdict);
		return;
	}
	sml_udp_path(message, &path);
	if (renews_address(job, header, message)) {
		job->paths[rank][shard] = path;
		job->arrived_by[rank][shard] = sml_udp_interface(message);
		job->has_path[rank][shard] = true;
	}
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(job->rules.tag);
	send_one(dataplane, header, length, &path);
}

/* At a leaf: the parent's answer to our probe. The program has learned the way from it, too. */
static void note_probed(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
			const struct sml_header *header, uint32_t length, struct msghdr *message)
{
	enum sml_verdict verdict = sml_pool_check_reply(&job->rules, header, length);
	uint16_t lanes = sml_be16(header->lanes_be);
	uint8_t shard = header->shard;
	struct sml_path path;

	if (verdict == SML_VERDICT_ABSORBED && !sml_udp_is_from(message, &job->parent))
		verdict = SML_VERDICT_WRONG_COOKIE;
	if (verdict != SML_VERDICT_ABSORBED) {
		count_drop(dataplane, verdict);
		return;
	}
	if (job->started)
		return;
	sml_udp_path(message, &path);
	job->paths[SML_XDP_PARENT][shard] = path;
	job->arrived_by[SML_XDP_PARENT][shard] = sml_udp_interface(message);
	job->has_path[SML_XDP_PARENT][shard] = true;
	if (lanes <= job->up_lanes[shard])
		return;
	job->up_lanes[shard] = lanes;
	if (dataplane->config.on_probed)
		dataplane->config.on_probed(dataplane->config.context);
}

static void gather(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
		   const struct sml_header *header, uint32_t length)
{
	struct sml_results *results = &dataplane->results;

	if (sml_results_add(results, job, header->shard, header, length))
		return;
	flush(dataplane);
	sml_results_begin(results, job, header->shard, job->paths[0], job->rules.n_ranks);
	sml_results_add(results, job, header->shard, header, length);
}

/*
 * Did the program make this result? Only the program knows the key. Other packets reach the socket
 * too, and all ranks know the tag that results carry. Its key also proves a leaf's sum for the
 * parent.
 */
static void send_result(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
			struct sml_header *header, uint32_t length)
{
	uint8_t rank = (uint8_t)(header->kind - SML_XDP_KIND_TO_RANK);

	if (job->daemon_key == 0 || header->key_be != sml_be64(job->daemon_key) ||
	    header->epoch_be != sml_be32(job->rules.epoch) ||
	    header->shard >= job->rules.n_shards || !job->started) {
		/* Of the parent's packets, the program has counted those that it did not accept. */
		if (!job->rules.is_leaf || header->kind != SML_PACKET_RESULT)
			count_drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	header->key_be = sml_be64(job->rules.tag);
	if (header->kind == SML_PACKET_RESULT) {
		gather(dataplane, job, header, length);
		return;
	}
	header->kind = SML_PACKET_RESULT;
	if (rank == SML_XDP_PARENT && job->rules.is_leaf) {
		header->kind = SML_PACKET_CONTRIBUTION;
		header->key_be = sml_be64(job->rules.parent.cookie);
	}
	if (rank < job->rules.n_ranks || header->kind == SML_PACKET_CONTRIBUTION)
		send_one(dataplane, header, length, &job->paths[rank][header->shard]);
}

static void receive_packet(struct sml_dataplane *dataplane, const struct sml_packet *packet)
{
	/* In the inbox's own memory: probes and results leave as what came, changed a little. */
	struct sml_header *header = (struct sml_header *)(uintptr_t)packet->bytes;
	struct sml_xdp_user_job *job;

	if (packet->length > SML_XDP_LONGEST_BYTES ||
	    header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION) {
		count_drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	job = dataplane->jobs[sml_be32(header->job_be) % SML_MAX_JOBS];
	if (job == NULL || header->job_be != sml_be32(job->rules.job))
		count_drop(dataplane, SML_VERDICT_UNKNOWN_JOB);
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(dataplane, job, header, packet->length,
			     sml_udp_inbox_message(dataplane->socket.inbox, packet));
	else if (header->kind == SML_PACKET_PROBE_REPLY)
		note_probed(dataplane, job, header, packet->length,
			    sml_udp_inbox_message(dataplane->socket.inbox, packet));
	else if (header->kind != SML_PACKET_CONTRIBUTION)
		send_result(dataplane, job, header, packet->length);
	/* A contribution: the program has counted the reason why it did not accept it. */
}

static void receive_batch(struct sml_dataplane *dataplane)
{
	bool drained;
	unsigned n = sml_udp_inbox_receive(dataplane->socket.inbox, dataplane->packets, &drained);

	for (unsigned i = 0; i < n; i++)
		receive_packet(dataplane, &dataplane->packets[i]);
	/* The results are in the inbox. */
	flush(dataplane);
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
	    job->mismatch_reported)
		return 0;
	job->mismatch_reported = true;
	dataplane->config.on_mismatch(dataplane->config.context, &mismatch);
	return 0;
}

void *sml_xdp_thread_serve(void *argument)
{
	struct sml_dataplane *dataplane = argument;
	struct pollfd fds[3] = {
		{.fd = dataplane->socket.fd, .events = POLLIN},
		{.fd = ring_buffer__epoll_fd(dataplane->events), .events = POLLIN},
		{.fd = dataplane->socket.wake_fd, .events = POLLIN},
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

int sml_xdp_thread_open(struct sml_dataplane *dataplane)
{
	sml_results_init(&dataplane->results, &dataplane->socket.sender, UINT8_MAX);
	return sml_daemon_socket_open(&dataplane->socket, &dataplane->config, INBOX_BYTES, true);
}

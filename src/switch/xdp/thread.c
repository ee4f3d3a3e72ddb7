/* SPDX-License-Identifier: BSD-3-Clause */
/* Serves the XDP dataplane's socket: see thread.h. */
#include "switch/xdp/thread.h"

#include <sys/socket.h>

#include "switch/shared/log.h"

#define INBOX_BYTES (512u << 10)

static void flush(struct sml_dataplane *dataplane)
{
	char refusal[SML_UDP_REFUSAL_BYTES];

	sml_results_flush(&dataplane->results);
	if (sml_udp_sender_refusal(&dataplane->daemon.sender, refusal))
		sml_switch_log(SML_LOG_WARN, "%s", refusal);
}

/* The program decides in the same way. */
static bool renews_address(struct sml_xdp_user_job *job, const struct sml_header *header,
			   struct msghdr *message)
{
	uint32_t *renewal = &job->common.renewals[header->rank][header->shard];

	if (!job->common.started)
		return true;
	if (*renewal == 0 || header->use_be != sml_be32(*renewal) ||
	    job->arrived_by[header->rank][header->shard] != sml_udp_interface(message))
		return false;
	*renewal = 0;
	return true;
}

/* The program has learned the return path from the same probe. */
static void note_address(struct sml_dataplane *dataplane, struct sml_daemon_job *common,
			 struct sml_header *header, struct msghdr *message)
{
	struct sml_xdp_user_job *job = (struct sml_xdp_user_job *)common;
	uint8_t rank = header->rank, shard = header->shard;

	(void)dataplane;
	if (!renews_address(job, header, message))
		return;
	sml_udp_path(message, &job->paths[rank][shard]);
	job->arrived_by[rank][shard] = sml_udp_interface(message);
	job->has_path[rank][shard] = true;
}

/* At a leaf: the parent's answer to our probe. The program has learned the way from it, too. */
static void note_probed(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
			const struct sml_header *header, uint32_t length, struct msghdr *message)
{
	enum sml_verdict verdict = sml_pool_check_reply(&job->common.rules, header, length);
	uint16_t lanes = sml_be16(header->lanes_be);
	uint8_t shard = header->shard;

	if (verdict == SML_VERDICT_ABSORBED && !sml_udp_is_from(message, &job->parent))
		verdict = SML_VERDICT_WRONG_COOKIE;
	if (verdict != SML_VERDICT_ABSORBED) {
		sml_daemon_drop(&dataplane->daemon, verdict);
		return;
	}
	if (job->common.started)
		return;
	sml_udp_path(message, &job->paths[SML_XDP_PARENT][shard]);
	job->arrived_by[SML_XDP_PARENT][shard] = sml_udp_interface(message);
	job->has_path[SML_XDP_PARENT][shard] = true;
	if (lanes <= job->up_lanes[shard])
		return;
	job->up_lanes[shard] = lanes;
	if (dataplane->daemon.config.on_probed)
		dataplane->daemon.config.on_probed(dataplane->daemon.config.context);
}

static void gather(struct sml_dataplane *dataplane, struct sml_xdp_user_job *job,
		   const struct sml_header *header, uint32_t length)
{
	struct sml_results *results = &dataplane->results;

	if (sml_results_add(results, job, header->shard, header, length))
		return;
	flush(dataplane);
	sml_results_begin(results, job, header->shard, job->paths[0], job->common.rules.n_ranks);
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
	const struct sml_pool_rules *rules = &job->common.rules;
	uint64_t key = job->common.daemon_key;
	uint8_t rank = (uint8_t)(header->kind - SML_XDP_KIND_TO_RANK);

	if (key == 0 || header->key_be != sml_be64(key) ||
	    header->epoch_be != sml_be32(rules->epoch) || header->shard >= rules->n_shards ||
	    !job->common.started) {
		/* Of the parent's packets, the program has counted those that it did not accept. */
		if (!rules->is_leaf || header->kind != SML_PACKET_RESULT)
			sml_daemon_drop(&dataplane->daemon, SML_VERDICT_MALFORMED);
		return;
	}
	header->key_be = sml_be64(rules->tag);
	if (header->kind == SML_PACKET_RESULT) {
		gather(dataplane, job, header, length);
		return;
	}
	header->kind = SML_PACKET_RESULT;
	if (rank == SML_XDP_PARENT && rules->is_leaf) {
		header->kind = SML_PACKET_CONTRIBUTION;
		header->key_be = sml_be64(rules->parent.cookie);
	}
	if (rank < rules->n_ranks || header->kind == SML_PACKET_CONTRIBUTION)
		sml_daemon_send(&dataplane->daemon, header, length,
				&job->paths[rank][header->shard]);
}

static void take(struct sml_dataplane *dataplane, struct sml_daemon_job *common,
		 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	struct sml_xdp_user_job *job = (struct sml_xdp_user_job *)common;

	if (header->kind == SML_PACKET_PROBE_REPLY)
		note_probed(dataplane, job, header, length, message);
	else if (header->kind != SML_PACKET_CONTRIBUTION)
		send_result(dataplane, job, header, length);
	/* A contribution: the program has counted the reason why it did not accept it. */
}

int sml_xdp_thread_event(void *context, void *data, size_t bytes)
{
	struct sml_dataplane *dataplane = context;
	const struct sml_xdp_event *event = data;
	struct sml_daemon_job *job = sml_daemon_job_of(&dataplane->daemon, event->job);
	struct sml_mismatch mismatch = {
		.job = event->job,
		.slot = event->slot,
		.use = event->use,
		.chunk = event->chunk,
		.ranks = {(uint8_t)__builtin_ctzll(event->seen | 1ull << 63), event->rank},
	};

	if (bytes >= sizeof(*event) && job != NULL && job->rules.job == event->job)
		sml_daemon_tell_mismatch(&dataplane->daemon, job, &mismatch);
	return 0;
}

int sml_xdp_thread_open(struct sml_dataplane *dataplane)
{
	sml_results_init(&dataplane->results, &dataplane->daemon.sender, UINT8_MAX);
	return sml_daemon_listen(&dataplane->daemon, INBOX_BYTES, true);
}

/* The results are in the inbox. */
static void end_batch(struct sml_dataplane *dataplane)
{
	ring_buffer__consume(dataplane->events);
	flush(dataplane);
}

const struct sml_daemon_service sml_xdp_thread_service = {
	.longest = SML_XDP_LONGEST_BYTES,
	.note_address = note_address,
	.take = take,
	.end_batch = end_batch,
	.check_ms = -1,
};

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 dataplane's thread: it answers the probes that the P4 switch forwards to the daemon's
 * socket, learns from them where the ranks are, and passes on the program's notes of mismatches. It
 * also notices when the target is gone. Slots are only in the P4 switch.
 */
#include <sys/socket.h>

#include "net/udp_socket.h"
#include "switch/p4/internal.h"

/* How often to ask whether the target is still there, also while packets come. */
#define CHECK_MS 500

/* Take what the program has written into the probe, and restore what its sender wrote. */
static void take_stamp(struct sml_header *header, struct sml_p4_peer *peer)
{
	uint32_t upper = sml_be32(header->chunk_be), lower = sml_be32(header->digest_be);

	peer->stamped = header->lane_kind == SML_P4_STAMPED;
	if (!peer->stamped)
		return;
	for (unsigned i = 0; i < 4; i++)
		peer->mac[i] = (uint8_t)(upper >> (24 - 8 * i));
	peer->mac[4] = (uint8_t)(lower >> 24);
	peer->mac[5] = (uint8_t)(lower >> 16);
	peer->port = (uint16_t)lower;
	peer->tagged = header->op != 0;
	peer->tci = sml_be16(header->slot_be);
	header->chunk_be = header->digest_be = 0;
	header->slot_be = 0;
	header->op = header->lane_kind = 0;
}

/*
 * Until the job runs, each probe tells where results go; then only one with the number that the
 * rank has told over its control connection, once. The job's multicast group keeps the port.
 */
static void note_address(struct sml_dataplane *dataplane, struct sml_daemon_job *common,
			 struct sml_header *header, struct msghdr *message)
{
	struct sml_p4_job *job = (struct sml_p4_job *)common;
	uint8_t rank = header->rank, shard = header->shard;
	uint32_t *renewal = &common->renewals[rank][shard];
	struct sml_p4_peer peer = {.known = true};

	sml_udp_path(message, &peer.path);
	take_stamp(header, &peer);
	if (!common->started) {
		job->peers[rank][shard] = peer;
		return;
	}
	if (*renewal == 0 || header->use_be != sml_be32(*renewal) || !peer.stamped ||
	    peer.port != job->peers[rank][shard].port)
		return;
	*renewal = 0;
	sml_p4_job_renew(dataplane, job, rank, shard, &peer);
}

/* A note of a mismatch, or what came past the P4 switch. */
static void take(struct sml_dataplane *dataplane, struct sml_daemon_job *job,
		 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	struct sml_mismatch mismatch = {
		.job = job->rules.job,
		.slot = sml_be16(header->slot_be),
		.use = sml_be32(header->use_be),
		.chunk = sml_be32(header->chunk_be),
		.ranks = {header->op, header->rank},
	};

	(void)length;
	(void)message;
	if (header->kind != SML_P4_KIND_MISMATCH || header->key_be != sml_be64(job->daemon_key))
		sml_daemon_drop(&dataplane->daemon, SML_VERDICT_MALFORMED);
	else if (header->op < job->rules.n_ranks && header->rank < job->rules.n_ranks)
		sml_daemon_tell_mismatch(&dataplane->daemon, job, &mismatch);
}

static void check_target(struct sml_dataplane *dataplane)
{
	/* If the control thread has the target, it will notice. */
	if (pthread_mutex_trylock(&dataplane->target_mutex) != 0)
		return;
	if (dataplane->operations->check(dataplane->target) < 0)
		sml_p4_lost();
	pthread_mutex_unlock(&dataplane->target_mutex);
}

const struct sml_daemon_service sml_p4_thread_service = {
	.longest = SML_MAX_PACKET_BYTES,
	.note_address = note_address,
	.take = take,
	.check = check_target,
	.check_ms = CHECK_MS,
};

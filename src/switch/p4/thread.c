/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The P4 dataplane's thread: it answers the probes that the P4 switch forwards to the daemon's
 * socket, learns from them where the ranks are, and passes on the program's notes of mismatches. It
 * also notices when the target is gone.
 *
 * The invariant: no contribution is ever summed here. Slots are only in the P4 switch.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "switch/p4/internal.h"

/* How often to ask whether the target is still there, also while packets come. */
#define CHECK_MS 500

static void count_drop(struct sml_dataplane *dataplane, enum sml_verdict verdict)
{
	dataplane->counters.verdicts[verdict]++;
}

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
static void note_address(struct sml_dataplane *dataplane, struct sml_p4_job *job,
			 const struct sml_header *header, const struct sml_p4_peer *peer)
{
	uint8_t rank = header->rank, shard = header->shard;
	uint32_t *renewal = &job->renewals[rank][shard];

	if (!job->started) {
		job->peers[rank][shard] = *peer;
		return;
	}
	if (*renewal == 0 || header->use_be != sml_be32(*renewal) || !peer->stamped ||
	    peer->port != job->peers[rank][shard].port)
		return;
	*renewal = 0;
	sml_p4_job_renew(dataplane, job, rank, shard, peer);
}

static void answer_probe(struct sml_dataplane *dataplane, struct sml_p4_job *job,
			 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	enum sml_verdict verdict = sml_pool_check_probe(&job->rules, header);
	struct sml_p4_peer peer = {.known = true};
	struct iovec bytes = {header, length};

	dataplane->counters.probes++;
	if (verdict != SML_VERDICT_ABSORBED) {
		count_drop(dataplane, verdict);
		return;
	}
	sml_udp_path(message, &peer.path);
	take_stamp(header, &peer);
	note_address(dataplane, job, header, &peer);
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(job->rules.tag);
	sml_udp_sender_send_one(&dataplane->socket.sender, &bytes, &peer.path);
}

static void pass_mismatch(struct sml_dataplane *dataplane, struct sml_p4_job *job,
			  const struct sml_header *header)
{
	struct sml_mismatch mismatch = {
		.job = job->rules.job,
		.slot = sml_be16(header->slot_be),
		.use = sml_be32(header->use_be),
		.chunk = sml_be32(header->chunk_be),
		.ranks = {header->op, header->rank},
	};

	if (header->key_be != sml_be64(job->daemon_key)) {
		count_drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	if (job->mismatch_reported || header->op >= job->rules.n_ranks ||
	    header->rank >= job->rules.n_ranks)
		return;
	job->mismatch_reported = true;
	dataplane->config.on_mismatch(dataplane->config.context, &mismatch);
}

static void receive_packet(struct sml_dataplane *dataplane, const struct sml_packet *packet)
{
	/* In the inbox's own memory: a probe becomes its own answer. */
	struct sml_header *header = (struct sml_header *)(uintptr_t)packet->bytes;
	struct sml_p4_job *job;

	if (header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION) {
		count_drop(dataplane, SML_VERDICT_MALFORMED);
		return;
	}
	job = sml_p4_job_of(dataplane, sml_be32(header->job_be));
	if (job == NULL || header->job_be != sml_be32(job->rules.job))
		count_drop(dataplane, SML_VERDICT_UNKNOWN_JOB);
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(dataplane, job, header, packet->length,
			     sml_udp_inbox_message(dataplane->socket.inbox, packet));
	else if (header->kind == SML_P4_KIND_MISMATCH)
		pass_mismatch(dataplane, job, header);
	else /* it came past the P4 switch */
		count_drop(dataplane, SML_VERDICT_MALFORMED);
}

static void receive_batch(struct sml_dataplane *dataplane)
{
	bool drained;
	unsigned n = sml_udp_inbox_receive(dataplane->socket.inbox, dataplane->packets, &drained);

	for (unsigned i = 0; i < n; i++)
		receive_packet(dataplane, &dataplane->packets[i]);
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

void *sml_p4_thread_serve(void *argument)
{
	struct sml_dataplane *dataplane = argument;
	struct pollfd fds[2] = {
		{.fd = dataplane->socket.fd, .events = POLLIN},
		{.fd = dataplane->socket.wake_fd, .events = POLLIN},
	};
	uint64_t check_ns = sml_now_ns();
	int n;

	while ((n = poll(fds, 2, CHECK_MS)) >= 0 || errno == EINTR) {
		if (n > 0 && fds[1].revents)
			break;
		if (sml_now_ns() >= check_ns) {
			check_target(dataplane);
			check_ns = sml_now_ns() + CHECK_MS * SML_NS_PER_MS;
		}
		pthread_mutex_lock(&dataplane->mutex);
		receive_batch(dataplane);
		pthread_mutex_unlock(&dataplane->mutex);
	}
	return NULL;
}

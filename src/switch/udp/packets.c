/* SPDX-License-Identifier: BSD-3-Clause */
/* How a thread of the UDP dataplane processes packets, without a lock: see dataplane.c. */
#include "switch/udp/internal.h"

#include <string.h>

#include "base/clock.h"
#include "switch/shared/log.h"

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Job counters have several writers: the threads of its shards. */
static void count_shared(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* ---- packets ---- */

static void count_drop(struct sml_udp_thread *thread, enum sml_verdict verdict)
{
	count(&thread->counters.verdicts[verdict], 1);
}

static void send_one(struct sml_udp_thread *thread, const void *packet, uint32_t length,
		     const struct sml_path *path)
{
	const struct iovec bytes = {(void *)(uintptr_t)packet, length};

	sml_udp_sender_send_one(&thread->sender, &bytes, path);
}

/*
 * Until the job runs, each probe tells where results go. Then they go there, so that a stolen
 * cookie or a copied packet cannot change it: only the number that the rank has told over its
 * control connection does, and only once.
 */
static bool renews_address(struct sml_udp_job *job, const struct sml_header *header)
{
	uint32_t number = sml_be32(header->use_be);

	if (!__atomic_load_n(&job->started, __ATOMIC_ACQUIRE))
		return true;
	return number != 0 &&
	       __atomic_compare_exchange_n(&job->renewals[header->rank][header->shard], &number, 0,
					   false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void answer_probe(struct sml_udp_thread *thread, struct sml_udp_job *job,
			 struct sml_header *header, uint32_t length, struct msghdr *message)
{
	const struct sml_pool_rules *rules = &job->pool.rules;
	enum sml_verdict verdict = sml_pool_check_probe(rules, header);
	struct sml_path path;

	count(&thread->counters.probes, 1);
	if (verdict != SML_VERDICT_ABSORBED) {
		count_drop(thread, verdict);
		return;
	}
	sml_udp_path(message, &path);
	if (renews_address(job, header)) {
		job->paths[header->rank][header->shard] = path;
		__atomic_store_n(&job->has_path[header->rank][header->shard], true,
				 __ATOMIC_RELEASE);
	}
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(rules->tag);
	/* One packet answers one of the same length, so nothing is amplified. */
	send_one(thread, header, length, &path);
}

/* At a leaf: the parent's answer to our probe. */
static void note_probed(struct sml_udp_thread *thread, struct sml_udp_job *job,
			const struct sml_header *header, uint32_t length)
{
	enum sml_verdict verdict = sml_pool_check_reply(&job->pool.rules, header, length);
	uint16_t lanes = sml_be16(header->lanes_be);

	if (verdict != SML_VERDICT_ABSORBED) {
		count_drop(thread, verdict);
	} else if (lanes > job->up_lanes[header->shard]) {
		__atomic_store_n(&job->up_lanes[header->shard], lanes, __ATOMIC_RELEASE);
		if (thread->dataplane->config.on_probed)
			thread->dataplane->config.on_probed(thread->dataplane->config.context);
	}
}

static void report_mismatch(struct sml_udp_thread *thread, struct sml_udp_job *job,
			    const struct sml_contribution *in)
{
	const struct sml_slot *slot = &job->pool.slots[2u * in->slot + (in->use & 1u)];
	struct sml_mismatch mismatch = {
		.job = job->pool.rules.job,
		.slot = in->slot,
		.use = in->use,
		.chunk = slot->chunk,
		.ranks = {(uint8_t)__builtin_ctzll(slot->seen), in->rank},
	};

	if (__atomic_exchange_n(&job->mismatch_reported, true, __ATOMIC_RELAXED))
		return;
	thread->dataplane->config.on_mismatch(thread->dataplane->config.context, &mismatch);
}

static void flush(struct sml_udp_thread *thread)
{
	char refusal[SML_UDP_REFUSAL_BYTES];

	sml_results_flush(&thread->results);
	sml_results_flush(&thread->sums);
	if (sml_udp_sender_refusal(&thread->sender, refusal))
		sml_switch_log(SML_LOG_WARN, "%s", refusal);
}

/* A leaf's sum of all its children, with those of other slots. */
static void send_up(struct sml_udp_thread *thread, struct sml_udp_job *job,
		    const struct sml_pool_answer *answer)
{
	uint8_t shard = answer->in.shard;

	if (sml_results_add(&thread->sums, job, shard, answer->packet, answer->length))
		return;
	flush(thread);
	sml_results_begin(&thread->sums, job, shard, job->up, 1);
	sml_results_add(&thread->sums, job, shard, answer->packet, answer->length);
}

/* A result for all ranks, with those of other slots. */
static void send_result(struct sml_udp_thread *thread, struct sml_udp_job *job,
			const struct sml_pool_answer *answer)
{
	uint8_t shard = answer->in.shard;

	if (sml_results_add(&thread->results, job, shard, answer->packet, answer->length))
		return;
	flush(thread);
	sml_results_begin(&thread->results, job, shard, job->paths[0], job->pool.rules.n_ranks);
	sml_results_add(&thread->results, job, shard, answer->packet, answer->length);
}

static void count_contribution(struct sml_udp_thread *thread, struct sml_udp_job *job,
			       enum sml_verdict verdict, const struct sml_contribution *in)
{
	uint64_t waited_ns = sml_pool_waited(&job->pool, verdict, in, thread->now_ns);

	count_shared(&job->counters.verdicts[verdict], 1);
	if (waited_ns > 0)
		count_shared(&job->counters.waited_ns[in->rank], waited_ns);
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_FULL ||
	    (verdict == SML_VERDICT_COMPLETED && !job->pool.rules.is_leaf))
		count_shared(&job->counters.contributions[in->rank], 1);
	else if (verdict == SML_VERDICT_RESEND)
		count_shared(&job->counters.resends[in->rank], 1);
}

static void contribution(struct sml_udp_thread *thread, struct sml_udp_job *job, const void *packet,
			 uint32_t length)
{
	struct sml_pool_answer answer;
	enum sml_verdict verdict = sml_pool_receive(&job->pool, packet, length, &answer);

	count_drop(thread, verdict);
	count_contribution(thread, job, verdict, &answer.in);
	if (verdict == SML_VERDICT_MISMATCH)
		report_mismatch(thread, job, &answer.in);
	if (answer.packet == NULL)
		return;
	if (verdict == SML_VERDICT_FULL)
		send_up(thread, job, &answer);
	else if (verdict == SML_VERDICT_RESEND_UP)
		/* At once: the parent's result may come in this batch, and replace the sum. */
		send_one(thread, answer.packet, answer.length, &job->up[answer.in.shard]);
	else if (verdict == SML_VERDICT_RESEND)
		send_one(thread, answer.packet, answer.length,
			 &job->paths[answer.in.rank][answer.in.shard]);
	else
		send_result(thread, job, &answer);
}

/*
 * At a leaf, what only its parent sends must come from there: every child of the parent knows the
 * tag that results and answers have.
 */
static bool is_forged(const struct sml_udp_job *job, const struct sml_header *header,
		      const struct msghdr *message)
{
	union sml_sockaddr parent;

	if (!job->pool.rules.is_leaf ||
	    (header->kind != SML_PACKET_RESULT && header->kind != SML_PACKET_PROBE_REPLY))
		return false;
	if (!__atomic_load_n(&job->knows_parent, __ATOMIC_ACQUIRE))
		return true;
	/* One address for all shards. */
	parent.v6 = job->up[0].to;
	return !sml_udp_is_from(message, &parent);
}

static void receive_packet(struct sml_udp_thread *thread, const struct sml_packet *packet)
{
	/* In the inbox's own memory: a probe becomes its own answer. */
	struct sml_header *header = (struct sml_header *)(uintptr_t)packet->bytes;
	struct msghdr *message = sml_udp_inbox_message(thread->inbox, packet);
	struct sml_udp_job *job;

	if (header->magic_be != sml_be16(SML_WIRE_MAGIC) || header->version != SML_WIRE_VERSION) {
		count_drop(thread, SML_VERDICT_MALFORMED);
		return;
	}
	job = thread->jobs[sml_be32(header->job_be) % SML_MAX_JOBS];
	if (job == NULL || header->job_be != sml_be32(job->pool.rules.job))
		count_drop(thread, SML_VERDICT_UNKNOWN_JOB);
	else if ((sml_be32(header->job_be) + header->shard) % thread->dataplane->n_threads !=
		 thread->index)
		count_drop(thread,
			   SML_VERDICT_OUT_OF_RANGE); /* another thread's, in one super-packet */
	else if (is_forged(job, header, message))
		count_drop(thread, SML_VERDICT_WRONG_COOKIE);
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(thread, job, header, packet->length, message);
	else if (header->kind == SML_PACKET_PROBE_REPLY)
		note_probed(thread, job, header, packet->length);
	else if (!__atomic_load_n(&job->started, __ATOMIC_ACQUIRE))
		count_drop(thread, SML_VERDICT_EARLY_USE);
	else
		contribution(thread, job, packet->bytes, packet->length);
}

static void publish_inbox_counters(struct sml_udp_thread *thread)
{
	const struct sml_udp_inbox_counters *in = sml_udp_inbox_counters(thread->inbox);

	__atomic_store_n(&thread->counters.packets_received, in->packets, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.bytes_received, in->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.socket_drops, in->drops, __ATOMIC_RELAXED);
	count(&thread->counters.verdicts[SML_VERDICT_MALFORMED],
	      in->malformed - thread->malformed_seen);
	thread->malformed_seen = in->malformed;
}

static void publish_sender_counters(struct sml_udp_thread *thread)
{
	const struct sml_udp_sender *out = &thread->sender;

	__atomic_store_n(&thread->counters.packets_sent, out->packets, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.bytes_sent, out->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.send_drops, out->drops, __ATOMIC_RELAXED);
}

bool sml_udp_receive_batch(struct sml_udp_thread *thread)
{
	bool drained;
	unsigned n = sml_udp_inbox_receive(thread->inbox, thread->packets, &drained);

	thread->now_ns = sml_now_ns();
	for (unsigned i = 0; i < n; i++)
		receive_packet(thread, &thread->packets[i]);
	/* Before the results leave: who has one may read the counters next. */
	publish_inbox_counters(thread);
	flush(thread);
	publish_sender_counters(thread);
	return !drained;
}

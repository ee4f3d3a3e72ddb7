/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP dataplane: threads that receive contributions, step slots and send
 * results straight from the slots' memory.
 *
 *	poll -> recvmmsg (super-packets, UDP_GRO) -> one slot step a packet
 *	     -> results gathered by (job, shard) -> sendmmsg (UDP_SEGMENT) a rank, or a group
 *
 * A job's shard belongs to one thread, so slots need no lock; which thread, a
 * filter on the sockets decides from the header (udp_socket.c). The control
 * thread changes the table of jobs by leaving orders, which each thread carries
 * out between two batches. A completed slot's memory is stable until its
 * results are sent: they are sent at the end of the batch, before any rank can
 * know of them.
 */
#include "switch/dataplane.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "switch/udp_results.h"
#include "switch/udp_socket.h"

#define BATCH	     16
#define BUFFER_BYTES 65536
/* Less would be slower than what is lost now and then; workers adapt below it. */
#define MIN_WINDOW 16

/*
 * Multicast can cease to reach a rank while all else does (a bridge has forgotten
 * who listens, for want of a querier). Then each of its results must be asked for. Where
 * three quarters of a span's had to be, they are sent to it alone from then on. A span is
 * two results a slot: a timeout in vain asks for at most one of each.
 */
struct span {
	uint32_t results, asked_for;
};

struct udp_job {
	struct sml_pool pool;
	void *memory;
	bool started;
	bool mismatch_told;
	/* Written by the shard's thread until the job runs, then only read, by it. */
	struct sml_path paths[SML_MAX_RANKS][SML_MAX_SHARDS];
	bool has_path[SML_MAX_RANKS][SML_MAX_SHARDS];
	struct sml_job_counters counters; /* relaxed atomics */
	/* Results by multicast. Each shard's are its thread's, but for the atomic. */
	struct sml_group group;
	struct sml_ways ways[SML_MAX_SHARDS];
	struct span spans[SML_MAX_RANKS][SML_MAX_SHARDS];
	uint64_t *asked;  /* by slot: bits of the ranks that have asked for its last result */
	uint64_t reached; /* atomic: bits of the ranks that get them so */
};

struct thread {
	struct sml_dataplane *dataplane;
	unsigned index;
	int fd, wake_fd;
	pthread_t id;
	struct udp_job *jobs[SML_MAX_JOBS]; /* this thread's view */
	uint64_t orders_done;
	uint32_t socket_drops_seen;
	struct sml_results results;
	struct sml_dataplane_counters counters; /* relaxed atomics */
	struct mmsghdr messages[BATCH];
	struct iovec vectors[BATCH];
	struct sockaddr_in6 sources[BATCH]; /* or sockaddr_in: see udp_socket.h */
	union {
		char bytes[SML_UDP_CONTROL_BYTES];
		struct cmsghdr align;
	} controls[BATCH];
	uint8_t *buffers; /* BATCH x BUFFER_BYTES */
};

struct sml_dataplane {
	struct sml_dataplane_config config;
	unsigned n_threads;
	struct thread *threads;
	uint32_t receive_buffer_bytes;
	/* Orders: the control thread's table of jobs, copied by each thread. */
	pthread_mutex_t mutex;
	pthread_cond_t done;
	struct udp_job *jobs[SML_MAX_JOBS];
	uint64_t orders; /* atomic: changes so far */
	bool stopping;
	/* An order of another kind: each thread adds what it knows. `job` NULL: none. */
	struct {
		struct udp_job *job;
		struct sml_slot_progress *states;
		uint32_t n, most;
	} question;
};

static void count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Job counters have several writers: the threads of its shards. */
static void count_shared(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- packets ---- */

static void drop(struct thread *thread, enum sml_verdict verdict)
{
	count(&thread->counters.verdicts[verdict], 1);
}

static void answer_probe(struct thread *thread, struct udp_job *job, struct sml_header *header,
			 uint32_t length, struct msghdr *message)
{
	const struct sml_pool_rules *rules = &job->pool.rules;
	enum sml_verdict verdict = sml_pool_check_probe(rules, header);
	struct sml_path path;

	count(&thread->counters.probes, 1);
	if (verdict != SML_VERDICT_ABSORBED) {
		drop(thread, verdict);
		return;
	}
	sml_udp_path(message, &path);
	/* Where results go is fixed once the job runs: a stolen cookie cannot move it. */
	if (!__atomic_load_n(&job->started, __ATOMIC_ACQUIRE)) {
		job->paths[header->rank][header->shard] = path;
		__atomic_store_n(&job->has_path[header->rank][header->shard], true,
				 __ATOMIC_RELEASE);
	}
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(rules->tag);
	/* One packet for one of the same length: nothing is amplified. */
	sml_results_send_one(&thread->results, thread->fd, header, length, &path);
}

/* The way to the group that a rank's message shows, among those known; NULL: no room. */
static const struct sml_path *note_way(struct sml_ways *ways, const struct sml_path *path,
				       uint8_t rank)
{
	unsigned i = 0;

	while (i < ways->n && memcmp(&ways->way[i].path.from, &path->from, sizeof(path->from)) != 0)
		i++;
	if (i == SML_WAYS_MAX)
		return NULL;
	if (i == ways->n)
		ways->way[ways->n++].path = *path;
	ways->way[i].ranks |= (uint64_t)1 << rank;
	return &ways->way[i].path;
}

/* Does the group reach this rank? Its own probe comes back to it that way, or not. */
static void answer_group_probe(struct thread *thread, struct udp_job *job,
			       struct sml_header *header, uint32_t length, struct msghdr *message)
{
	const struct sml_pool_rules *rules = &job->pool.rules;
	enum sml_verdict verdict = sml_pool_check_probe(rules, header);
	const struct sml_path *way;
	struct sml_path path;

	count(&thread->counters.probes, 1);
	if (verdict == SML_VERDICT_ABSORBED && job->group.bytes == 0)
		verdict = SML_VERDICT_MALFORMED;
	if (verdict == SML_VERDICT_ABSORBED && __atomic_load_n(&job->started, __ATOMIC_ACQUIRE))
		verdict = SML_VERDICT_STALE_USE;
	if (verdict != SML_VERDICT_ABSORBED) {
		drop(thread, verdict);
		return;
	}
	if (!sml_udp_group_path(message, &job->group, header->shard, &path))
		return;
	way = note_way(&job->ways[header->shard], &path, header->rank);
	if (way == NULL)
		return;
	header->kind = SML_PACKET_PROBE_REPLY;
	header->key_be = sml_be64(rules->tag);
	sml_results_send_one(&thread->results, thread->fd, header, length, way);
}

/* A contribution says that the rank has the slot's result before, asked for or not. */
static void watch_group(struct udp_job *job, const struct sml_contribution *in, bool asks)
{
	const struct sml_pool_rules *rules = &job->pool.rules;
	uint32_t n_slots = ((uint32_t)rules->head_slots + rules->data_slots) / rules->n_shards + 1;
	struct span *span = &job->spans[in->rank][in->shard];
	uint64_t bit = (uint64_t)1 << in->rank;

	if (asks) {
		job->asked[in->slot] |= bit;
		return;
	}
	span->results++;
	span->asked_for += (job->asked[in->slot] & bit) != 0;
	job->asked[in->slot] &= ~bit;
	if (span->results < 2 * n_slots)
		return;
	if (span->asked_for * 4 >= span->results * 3)
		__atomic_fetch_and(&job->reached, ~bit, __ATOMIC_RELAXED);
	*span = (struct span){0};
}

static void tell_mismatch(struct thread *thread, struct udp_job *job,
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

	if (__atomic_exchange_n(&job->mismatch_told, true, __ATOMIC_RELAXED))
		return;
	thread->dataplane->config.on_mismatch(thread->dataplane->config.context, &mismatch);
}

static void flush(struct thread *thread)
{
	sml_results_flush(&thread->results, thread->fd);
}

static void contribution(struct thread *thread, struct udp_job *job, const void *packet,
			 uint32_t length)
{
	struct sml_pool_answer answer;
	enum sml_verdict verdict = sml_pool_receive(&job->pool, packet, length, &answer);

	drop(thread, verdict);
	count_shared(&job->counters.verdicts[verdict]);
	if (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_COMPLETED)
		count_shared(&job->counters.contributions[answer.in.rank]);
	else if (verdict == SML_VERDICT_RESEND)
		count_shared(&job->counters.resends[answer.in.rank]);
	else if (verdict == SML_VERDICT_MISMATCH)
		tell_mismatch(thread, job, &answer.in);
	if (job->group.bytes > 0 &&
	    (verdict == SML_VERDICT_ABSORBED || verdict == SML_VERDICT_COMPLETED ||
	     verdict == SML_VERDICT_RESEND))
		watch_group(job, &answer.in, verdict == SML_VERDICT_RESEND);
	if (answer.packet == NULL)
		return;
	if (verdict == SML_VERDICT_RESEND) {
		sml_results_send_one(&thread->results, thread->fd, answer.packet, answer.length,
				     &job->paths[answer.in.rank][answer.in.shard]);
		return;
	}
	if (!sml_results_add(&thread->results, job, answer.in.shard, answer.packet,
			     answer.length)) {
		flush(thread);
		sml_results_begin(&thread->results, job, answer.in.shard, job->paths[0],
				  job->pool.rules.n_ranks);
		if (job->group.bytes > 0)
			sml_results_use_groups(&thread->results, &job->ways[answer.in.shard],
					       &job->reached);
		sml_results_add(&thread->results, job, answer.in.shard, answer.packet,
				answer.length);
	}
}

static void receive_packet(struct thread *thread, void *packet, uint32_t length,
			   struct msghdr *message)
{
	struct sml_header *header = packet;
	struct udp_job *job;

	if (length < SML_HEADER_BYTES || header->magic_be != sml_be16(SML_WIRE_MAGIC) ||
	    header->version != SML_WIRE_VERSION) {
		drop(thread, SML_VERDICT_MALFORMED);
		return;
	}
	job = thread->jobs[sml_be32(header->job_be) % SML_MAX_JOBS];
	if (job == NULL || header->job_be != sml_be32(job->pool.rules.job))
		drop(thread, SML_VERDICT_UNKNOWN_JOB);
	else if ((sml_be32(header->job_be) + header->shard) % thread->dataplane->n_threads !=
		 thread->index)
		drop(thread, SML_VERDICT_OUT_OF_RANGE); /* another thread's, in one super-packet */
	else if (header->kind == SML_PACKET_PROBE)
		answer_probe(thread, job, header, length, message);
	else if (header->kind == SML_PACKET_GROUP_PROBE)
		answer_group_probe(thread, job, header, length, message);
	else if (!__atomic_load_n(&job->started, __ATOMIC_ACQUIRE))
		drop(thread, SML_VERDICT_EARLY_USE);
	else
		contribution(thread, job, packet, length);
}

/* A super-packet is many of one length, the last perhaps shorter. */
static void receive_message(struct thread *thread, unsigned i)
{
	struct msghdr *message = &thread->messages[i].msg_hdr;
	uint32_t length = thread->messages[i].msg_len, segment, offset = 0;
	uint8_t *bytes = thread->buffers + (size_t)i * BUFFER_BYTES;

	segment = sml_udp_segment_bytes(message, length, &thread->socket_drops_seen);
	count(&thread->counters.bytes_received, length);
	do {
		uint32_t part = length - offset < segment ? length - offset : segment;

		count(&thread->counters.packets_received, 1);
		/* The core wants them aligned; those that are not have no whole lanes. */
		if (segment % 4 != 0)
			drop(thread, SML_VERDICT_MALFORMED);
		else
			receive_packet(thread, bytes + offset, part, message);
		offset += segment;
	} while (offset < length);
}

static void publish_results_counters(struct thread *thread)
{
	__atomic_store_n(&thread->counters.packets_sent, thread->results.packets_sent,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.packets_multicast, thread->results.packets_multicast,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.bytes_sent, thread->results.bytes_sent,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.send_drops, thread->results.drops, __ATOMIC_RELAXED);
	__atomic_store_n(&thread->counters.socket_drops, thread->socket_drops_seen,
			 __ATOMIC_RELAXED);
}

static int receive_batch(struct thread *thread)
{
	int n;

	for (unsigned i = 0; i < BATCH; i++) {
		thread->vectors[i] =
			(struct iovec){thread->buffers + (size_t)i * BUFFER_BYTES, BUFFER_BYTES};
		thread->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &thread->sources[i],
			.msg_namelen = sizeof(thread->sources[i]),
			.msg_iov = &thread->vectors[i],
			.msg_iovlen = 1,
			.msg_control = thread->controls[i].bytes,
			.msg_controllen = SML_UDP_CONTROL_BYTES,
		};
	}
	n = recvmmsg(thread->fd, thread->messages, BATCH, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		receive_message(thread, (unsigned)i);
	flush(thread);
	publish_results_counters(thread);
	return n;
}

/* ---- threads ---- */

/* What this thread's slots of the job that was asked about are waiting for. Mutex is held. */
static void answer_question(struct thread *thread)
{
	struct sml_dataplane *dataplane = thread->dataplane;
	const struct sml_pool *pool = &dataplane->question.job->pool;
	const struct sml_pool_rules *rules = &pool->rules;
	uint32_t n_slots = (uint32_t)rules->head_slots + rules->data_slots;

	for (uint32_t slot = 0; slot < n_slots; slot++) {
		const struct sml_slot *newest;

		if ((rules->job + slot % rules->n_shards) % dataplane->n_threads != thread->index)
			continue;
		newest = sml_pool_newest(pool, slot);
		if (newest == NULL || dataplane->question.n == dataplane->question.most)
			continue;
		dataplane->question.states[dataplane->question.n++] = (struct sml_slot_progress){
			.slot = (uint16_t)slot,
			.use = newest->use,
			.missing = sml_pool_all_ranks(rules) & ~newest->seen,
		};
	}
}

/* Take over the control thread's table of jobs. False: the end. */
static bool carry_out_orders(struct thread *thread)
{
	struct sml_dataplane *dataplane = thread->dataplane;
	uint64_t value;
	bool going;

	if (read(thread->wake_fd, &value, sizeof(value)) < 0 && errno != EAGAIN)
		return false;
	pthread_mutex_lock(&dataplane->mutex);
	memcpy(thread->jobs, dataplane->jobs, sizeof(thread->jobs));
	if (dataplane->question.job != NULL && thread->orders_done != dataplane->orders)
		answer_question(thread);
	thread->orders_done = dataplane->orders;
	going = !dataplane->stopping;
	pthread_cond_broadcast(&dataplane->done);
	pthread_mutex_unlock(&dataplane->mutex);
	return going;
}

static void *run(void *argument)
{
	struct thread *thread = argument;
	struct pollfd fds[2] = {{.fd = thread->fd, .events = POLLIN},
				{.fd = thread->wake_fd, .events = POLLIN}};

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if ((fds[1].revents & POLLIN) && !carry_out_orders(thread))
			break;
		if (fds[0].revents == 0)
			continue;
		while (receive_batch(thread) == BATCH &&
		       __atomic_load_n(&thread->dataplane->orders, __ATOMIC_RELAXED) ==
			       thread->orders_done)
			;
	}
	return NULL;
}

static void wake(struct thread *thread)
{
	uint64_t one = 1;

	while (write(thread->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Let every thread see the table of jobs, and wait until it has. Mutex is held. */
static void publish(struct sml_dataplane *dataplane)
{
	__atomic_fetch_add(&dataplane->orders, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < dataplane->n_threads; i++)
		wake(&dataplane->threads[i]);
	for (unsigned i = 0; i < dataplane->n_threads && !dataplane->stopping; i++)
		while (dataplane->threads[i].orders_done != dataplane->orders)
			pthread_cond_wait(&dataplane->done, &dataplane->mutex);
}

static int start_thread(struct thread *thread)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread->id, NULL, run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

/* ---- the table of operations ---- */

static void stop_threads(struct sml_dataplane *dataplane, unsigned n_started)
{
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->stopping = true;
	publish(dataplane);
	pthread_mutex_unlock(&dataplane->mutex);
	for (unsigned i = 0; i < n_started; i++)
		pthread_join(dataplane->threads[i].id, NULL);
}

static void free_job(struct udp_job *job)
{
	free(job->memory);
	free(job->asked);
	free(job);
}

static void free_all(struct sml_dataplane *dataplane)
{
	for (unsigned i = 0; i < dataplane->n_threads; i++) {
		struct thread *thread = &dataplane->threads[i];

		if (thread->fd >= 0)
			close(thread->fd);
		if (thread->wake_fd >= 0)
			close(thread->wake_fd);
		free(thread->buffers);
	}
	for (unsigned i = 0; i < SML_MAX_JOBS; i++) {
		if (dataplane->jobs[i] == NULL)
			continue;
		free_job(dataplane->jobs[i]);
	}
	pthread_cond_destroy(&dataplane->done);
	pthread_mutex_destroy(&dataplane->mutex);
	free(dataplane->threads);
	free(dataplane);
}

static int open_thread(struct sml_dataplane *dataplane, unsigned i, char *error_text,
		       size_t error_bytes)
{
	struct thread *thread = &dataplane->threads[i];
	const struct sml_udp_options options = {
		.address = dataplane->config.address,
		.port = dataplane->config.port,
		.n_threads = dataplane->n_threads,
		.group_hops = dataplane->config.group.bytes ? dataplane->config.group_hops : 0,
	};

	thread->dataplane = dataplane;
	thread->index = i;
	thread->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	thread->buffers = malloc((size_t)BATCH * BUFFER_BYTES);
	sml_results_init(&thread->results, UINT8_MAX);
	if (thread->wake_fd < 0 || thread->buffers == NULL) {
		snprintf(error_text, error_bytes, "no memory or descriptors for the dataplane");
		return -ENOMEM;
	}
	thread->fd = sml_udp_socket_open(&options, i == 0, &dataplane->receive_buffer_bytes,
					 error_text, error_bytes);
	return thread->fd < 0 ? thread->fd : 0;
}

static int udp_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config,
		    char *error_text, size_t error_bytes)
{
	struct sml_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	unsigned started = 0;
	int rc = -ENOMEM;

	snprintf(error_text, error_bytes, "no memory for the dataplane");
	if (dataplane == NULL)
		return -ENOMEM;
	dataplane->config = *config;
	dataplane->n_threads = config->n_threads ? config->n_threads : 1;
	pthread_mutex_init(&dataplane->mutex, NULL);
	pthread_cond_init(&dataplane->done, NULL);
	dataplane->threads = calloc(dataplane->n_threads, sizeof(*dataplane->threads));
	if (dataplane->threads == NULL) {
		dataplane->n_threads = 0;
		goto err_free;
	}
	for (unsigned i = 0; i < dataplane->n_threads; i++)
		dataplane->threads[i].fd = dataplane->threads[i].wake_fd = -1;
	for (unsigned i = 0; i < dataplane->n_threads; i++) {
		rc = open_thread(dataplane, i, error_text, error_bytes);
		if (rc < 0)
			goto err_free;
	}
	for (; started < dataplane->n_threads; started++) {
		rc = start_thread(&dataplane->threads[started]);
		if (rc < 0) {
			snprintf(error_text, error_bytes, "no thread for the dataplane: %s",
				 strerror(-rc));
			goto err_stop;
		}
	}
	*opened = dataplane;
	return 0;

err_stop:
	stop_threads(dataplane, started);
err_free:
	free_all(dataplane);
	return rc;
}

static void udp_close(struct sml_dataplane *dataplane)
{
	stop_threads(dataplane, dataplane->n_threads);
	free_all(dataplane);
}

static int udp_add_job(struct sml_dataplane *dataplane, const struct sml_pool_rules *rules)
{
	struct udp_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return -ENOMEM;
	job->memory = malloc(sml_pool_memory_bytes(rules));
	job->asked = calloc((size_t)rules->head_slots + rules->data_slots, sizeof(*job->asked));
	if (job->memory == NULL || job->asked == NULL) {
		free_job(job);
		return -ENOMEM;
	}
	sml_pool_init(&job->pool, rules, job->memory);
	if (dataplane->config.group.bytes > 0)
		job->group = sml_group_of_job(&dataplane->config.group, rules->job % SML_MAX_JOBS);
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[rules->job % SML_MAX_JOBS] = job;
	publish(dataplane);
	pthread_mutex_unlock(&dataplane->mutex);
	return 0;
}

static void udp_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u thread%s", dataplane->n_threads,
		 dataplane->n_threads == 1 ? "" : "s");
}

static int udp_start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	__atomic_store_n(&dataplane->jobs[number % SML_MAX_JOBS]->started, true, __ATOMIC_RELEASE);
	return 0;
}

static void udp_remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];

	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[number % SML_MAX_JOBS] = NULL;
	publish(dataplane);
	pthread_mutex_unlock(&dataplane->mutex);
	free_job(job);
}

static const char *udp_misses_address(struct sml_dataplane *dataplane, uint32_t number,
				      uint8_t rank)
{
	const struct udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];

	for (unsigned shard = 0; shard < job->pool.rules.n_shards; shard++)
		if (!__atomic_load_n(&job->has_path[rank][shard], __ATOMIC_ACQUIRE))
			return "said that it was ready, but not every socket of it has sent a "
			       "probe";
	return NULL;
}

static void udp_reaches_by_group(struct sml_dataplane *dataplane, uint32_t number, uint8_t rank)
{
	__atomic_fetch_or(&dataplane->jobs[number % SML_MAX_JOBS]->reached, (uint64_t)1 << rank,
			  __ATOMIC_RELAXED);
}

static uint64_t udp_reached_by_group(struct sml_dataplane *dataplane, uint32_t number)
{
	return __atomic_load_n(&dataplane->jobs[number % SML_MAX_JOBS]->reached, __ATOMIC_RELAXED);
}

/*
 * Ranks in step send at once, all to one thread's socket at worst. The kernel
 * charges a packet's memory, not its bytes: about a quarter and 1 KiB more.
 */
static uint32_t udp_window(struct sml_dataplane *dataplane, uint32_t packet_bytes, uint32_t n_ranks)
{
	uint64_t charged = packet_bytes + packet_bytes / 4 + 1024;
	uint64_t packets = dataplane->receive_buffer_bytes / (charged * n_ranks);

	if (packets < MIN_WINDOW)
		return MIN_WINDOW;
	return packets < SML_MAX_SLOTS ? (uint32_t)packets : SML_MAX_SLOTS;
}

static void udp_job_counters(struct sml_dataplane *dataplane, uint32_t number,
			     struct sml_job_counters *counters)
{
	const struct udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];
	const uint64_t *from = (const uint64_t *)&job->counters;
	uint64_t *to = (uint64_t *)counters;

	for (size_t i = 0; i < sizeof(*counters) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static uint32_t udp_slot_states(struct sml_dataplane *dataplane, uint32_t number,
				struct sml_slot_progress *states, uint32_t n)
{
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->question.job = dataplane->jobs[number % SML_MAX_JOBS];
	dataplane->question.states = states;
	dataplane->question.most = n;
	dataplane->question.n = 0;
	publish(dataplane);
	dataplane->question.job = NULL;
	n = dataplane->question.n;
	pthread_mutex_unlock(&dataplane->mutex);
	return n;
}

static void udp_counters(struct sml_dataplane *dataplane, struct sml_dataplane_counters *counters)
{
	uint64_t *to = (uint64_t *)counters;

	memset(counters, 0, sizeof(*counters));
	for (unsigned t = 0; t < dataplane->n_threads; t++) {
		const uint64_t *from = (const uint64_t *)&dataplane->threads[t].counters;

		for (size_t i = 0; i < sizeof(*counters) / sizeof(*to); i++)
			to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	}
}

const struct sml_dataplane_operations sml_dataplane_udp = {
	.name = "udp",
	.open = udp_open,
	.close = udp_close,
	.describe = udp_describe,
	.add_job = udp_add_job,
	.start_job = udp_start_job,
	.remove_job = udp_remove_job,
	.misses_address = udp_misses_address,
	.reaches_by_group = udp_reaches_by_group,
	.reached_by_group = udp_reached_by_group,
	.window = udp_window,
	.job_counters = udp_job_counters,
	.slot_states = udp_slot_states,
	.counters = udp_counters,
};

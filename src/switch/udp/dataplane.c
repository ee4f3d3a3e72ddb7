/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UDP dataplane: threads that receive contributions, step slots and send results directly from
 * the slots' memory.
 *
 *	poll -> recvmmsg (super-packets, UDP_GRO) -> one slot step per packet
 *	     -> results gathered by (job, shard) -> sendmmsg (UDP_SEGMENT) per rank
 *
 * A job's shard belongs to one thread, so slots need no lock. A filter on the sockets chooses the
 * thread from the header (net/udp_socket.c). packets.c processes packets. The control thread
 * changes the table of jobs by leaving orders, which each thread carries out between two batches. A
 * completed slot's memory is stable until its results are sent: they are sent at the end of the
 * batch, before any rank can know them.
 */
#include "switch/udp/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/plural.h"
#include "base/thread.h"

/* Smaller windows would cost more than occasional losses; workers adapt below it. */
#define MIN_WINDOW 16
/* Of each thread's buffers. */
#define INBOX_BYTES (1u << 20)

/* ---- threads ---- */

/* Report what this thread's slots of the requested job are waiting for. The mutex is held. */
static void answer_question(struct sml_udp_thread *thread)
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

/* Take over the control thread's table of jobs. False: the thread must end. */
static bool carry_out_orders(struct sml_udp_thread *thread)
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

static void *serve_packets(void *argument)
{
	struct sml_udp_thread *thread = argument;
	struct pollfd fds[2] = {{.fd = thread->fd, .events = POLLIN},
				{.fd = thread->wake_fd, .events = POLLIN}};

	/* An order interrupts receiving; packets already taken off the socket wait. */
	bool more = false;

	for (;;) {
		if (poll(fds, 2, more ? 0 : -1) < 0 && errno != EINTR)
			break;
		if ((fds[1].revents & POLLIN) && !carry_out_orders(thread))
			break;
		if (fds[0].revents == 0 && !more)
			continue;
		while ((more = sml_udp_receive_batch(thread)) &&
		       __atomic_load_n(&thread->dataplane->orders, __ATOMIC_RELAXED) ==
			       thread->orders_done)
			;
	}
	return NULL;
}

static void wake(struct sml_udp_thread *thread)
{
	uint64_t one = 1;

	while (write(thread->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Make every thread see the table of jobs, and wait until all have. The mutex is held. */
static void publish(struct sml_dataplane *dataplane)
{
	__atomic_fetch_add(&dataplane->orders, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < dataplane->n_threads; i++)
		wake(&dataplane->threads[i]);
	for (unsigned i = 0; i < dataplane->n_threads && !dataplane->stopping; i++)
		while (dataplane->threads[i].orders_done != dataplane->orders)
			pthread_cond_wait(&dataplane->done, &dataplane->mutex);
}

static int start_thread(struct sml_udp_thread *thread)
{
	char name[16];

	snprintf(name, sizeof(name), "sml-data%u", thread->index);
	return sml_thread_start(&thread->id, name, serve_packets, thread);
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

static void free_job(struct sml_udp_job *job)
{
	free(job->memory);
	free(job);
}

static void free_all(struct sml_dataplane *dataplane)
{
	for (unsigned i = 0; i < dataplane->n_threads; i++) {
		struct sml_udp_thread *thread = &dataplane->threads[i];

		if (thread->fd >= 0)
			sml_fd_close(thread->fd);
		if (thread->wake_fd >= 0)
			close(thread->wake_fd);
		sml_udp_inbox_free(thread->inbox);
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

static int open_thread(struct sml_dataplane *dataplane, unsigned i)
{
	struct sml_udp_thread *thread = &dataplane->threads[i];
	const struct sml_udp_options options = {
		.address = dataplane->config.address,
		.port = dataplane->config.port,
		.n_threads = dataplane->n_threads,
	};
	struct sml_udp_inbox_config inbox = {.bytes = INBOX_BYTES, .gro = true, .sources = true};

	thread->dataplane = dataplane;
	thread->index = i;
	thread->wake_fd = sml_fd_lift(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	if (thread->wake_fd < 0)
		return sml_error_set(
			-ENOMEM, "no file descriptor for the dataplane's thread: raise the limit "
				 "(ulimit -n, or LimitNOFILE= of the service)");
	thread->fd = sml_udp_socket_open(&options, i == 0, &dataplane->receive_buffer_bytes);
	if (thread->fd < 0)
		return thread->fd;
	sml_udp_sender_init(&thread->sender, thread->fd, true);
	sml_results_init(&thread->results, &thread->sender, UINT8_MAX);
	sml_results_init(&thread->sums, &thread->sender, UINT8_MAX);
	inbox.fd = thread->fd;
	thread->inbox = sml_udp_inbox_new(&inbox);
	if (thread->inbox == NULL)
		return sml_error_set(-ENOMEM, "no memory for the dataplane");
	return 0;
}

static int udp_open(struct sml_dataplane **opened, const struct sml_dataplane_config *config)
{
	struct sml_dataplane *dataplane = calloc(1, sizeof(*dataplane));
	unsigned started = 0;
	int rc = -ENOMEM;

	if (dataplane == NULL)
		return sml_error_set(rc, "no memory for the dataplane");
	dataplane->config = *config;
	dataplane->n_threads = config->n_threads ? config->n_threads : 1;
	pthread_mutex_init(&dataplane->mutex, NULL);
	pthread_cond_init(&dataplane->done, NULL);
	dataplane->threads = calloc(dataplane->n_threads, sizeof(*dataplane->threads));
	if (dataplane->threads == NULL) {
		dataplane->n_threads = 0;
		sml_error_set(rc, "no memory for the dataplane");
		goto err_free;
	}
	for (unsigned i = 0; i < dataplane->n_threads; i++)
		dataplane->threads[i].fd = dataplane->threads[i].wake_fd = -1;
	for (unsigned i = 0; i < dataplane->n_threads; i++) {
		rc = open_thread(dataplane, i);
		if (rc < 0)
			goto err_free;
	}
	if (config->seal != NULL)
		config->seal(false);
	for (; started < dataplane->n_threads; started++) {
		rc = start_thread(&dataplane->threads[started]);
		if (rc < 0) {
			sml_error_set(rc, "the dataplane's thread cannot be started: %s",
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
	struct sml_udp_job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return -ENOMEM;
	job->memory = malloc(sml_pool_memory_bytes(rules));
	if (job->memory == NULL) {
		free_job(job);
		return -ENOMEM;
	}
	sml_pool_init(&job->pool, rules, job->memory);
	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[rules->job % SML_MAX_JOBS] = job;
	publish(dataplane);
	pthread_mutex_unlock(&dataplane->mutex);
	return 0;
}

static void udp_describe(struct sml_dataplane *dataplane, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u thread%s", dataplane->n_threads,
		 sml_plural(dataplane->n_threads));
}

static int udp_start_job(struct sml_dataplane *dataplane, uint32_t number)
{
	__atomic_store_n(&dataplane->jobs[number % SML_MAX_JOBS]->started, true, __ATOMIC_RELEASE);
	return 0;
}

static void udp_remove_job(struct sml_dataplane *dataplane, uint32_t number)
{
	struct sml_udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];

	pthread_mutex_lock(&dataplane->mutex);
	dataplane->jobs[number % SML_MAX_JOBS] = NULL;
	publish(dataplane);
	pthread_mutex_unlock(&dataplane->mutex);
	free_job(job);
}

static const char *udp_misses_address(struct sml_dataplane *dataplane, uint32_t number,
				      uint8_t rank)
{
	const struct sml_udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];

	for (unsigned shard = 0; shard < job->pool.rules.n_shards; shard++)
		if (!__atomic_load_n(&job->has_path[rank][shard], __ATOMIC_ACQUIRE))
			return "said that it was ready, but not every one of its sockets has sent "
			       "a probe";
	return NULL;
}

static void udp_renew_address(struct sml_dataplane *dataplane, uint32_t number, uint8_t child,
			      uint8_t shard, uint32_t renewal)
{
	__atomic_store_n(&dataplane->jobs[number % SML_MAX_JOBS]->renewals[child][shard], renewal,
			 __ATOMIC_RELAXED);
}

/*
 * Synchronized ranks send at the same time, in the worst case all to one thread's socket. The
 * kernel charges a packet's memory, not its bytes: about a quarter plus 1 KiB more.
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
	const struct sml_udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];
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

/* ---- a leaf's parent ---- */

static void udp_set_parent(struct sml_dataplane *dataplane, const union sml_sockaddr *parent)
{
	dataplane->parent = *parent;
	sml_udp_map_for(dataplane->threads[0].fd, &dataplane->parent);
}

/* A lost probe is sent again: so is one that the socket has no room for. */
static void udp_probe_parent(struct sml_dataplane *dataplane, uint32_t number, uint16_t port,
			     uint16_t lanes, uint32_t renewal)
{
	struct sml_udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];
	union sml_sockaddr to = dataplane->parent;
	uint8_t packet[SML_MAX_PACKET_BYTES] = {0};

	sml_sockaddr_set_port(&to, port);
	for (unsigned shard = 0; !job->knows_parent && shard < job->pool.rules.n_shards; shard++)
		job->up[shard].to = to.v6;
	__atomic_store_n(&job->knows_parent, true, __ATOMIC_RELEASE);
	for (unsigned shard = 0; shard < job->pool.rules.n_shards; shard++) {
		const struct sml_header header =
			sml_pool_probe_up(&job->pool.rules, (uint8_t)shard, lanes, renewal);
		unsigned thread = (number + shard) % dataplane->n_threads;

		memcpy(packet, &header, sizeof(header));
		(void)sendto(dataplane->threads[thread].fd, packet, SML_HEADER_BYTES + 4u * lanes,
			     MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, sml_sockaddr_length(&to));
	}
}

static uint16_t udp_parent_lanes(struct sml_dataplane *dataplane, uint32_t number)
{
	const struct sml_udp_job *job = dataplane->jobs[number % SML_MAX_JOBS];
	uint16_t least = UINT16_MAX;

	for (unsigned shard = 0; shard < job->pool.rules.n_shards; shard++) {
		uint16_t lanes = __atomic_load_n(&job->up_lanes[shard], __ATOMIC_ACQUIRE);

		least = lanes < least ? lanes : least;
	}
	return least;
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
	.rounds = true,
	.omits = true,
	.floats = true,
	.open = udp_open,
	.close = udp_close,
	.describe = udp_describe,
	.add_job = udp_add_job,
	.start_job = udp_start_job,
	.remove_job = udp_remove_job,
	.misses_address = udp_misses_address,
	.renew_address = udp_renew_address,
	.window = udp_window,
	.job_counters = udp_job_counters,
	.slot_states = udp_slot_states,
	.set_parent = udp_set_parent,
	.probe_parent = udp_probe_parent,
	.parent_lanes = udp_parent_lanes,
	.counters = udp_counters,
};

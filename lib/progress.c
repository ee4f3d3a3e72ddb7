/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "lib/clock.h"
#include "lib/context.h"

#define FOREVER UINT64_MAX

/* ---- other threads' side ---- */

void sml_shard_wake(struct sml_shard *shard)
{
	uint64_t one = 1;

	if (__atomic_exchange_n(&shard->resting, SML_AWAKE, __ATOMIC_SEQ_CST) == SML_AWAKE)
		return;
	/* It cannot be full, and the reader takes all of it. */
	if (write(shard->wake_fd, &one, sizeof(one)) < 0)
		sml_assert(errno == EAGAIN);
}

void sml_shard_submit(struct sml_shard *shard, struct sml_request *request)
{
	request->queued[shard->index] = NULL;
	pthread_mutex_lock(&shard->queue_lock);
	if (shard->queue_first)
		shard->queue_last->queued[shard->index] = request;
	else
		__atomic_store_n(&shard->queue_first, request, __ATOMIC_RELAXED);
	shard->queue_last = request;
	pthread_mutex_unlock(&shard->queue_lock);
	if (__atomic_load_n(&shard->resting, __ATOMIC_SEQ_CST) != SML_AWAKE)
		sml_shard_wake(shard);
}

/* This shard has brought what others may wait for: exponents, or a tensor's end. */
static void tell_others(struct sml_shard *shard)
{
	struct sml_context *context = shard->context;

	if (context->n_shards == 1)
		return;
	__atomic_add_fetch(&context->events, 1, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < context->n_shards; i++) {
		struct sml_shard *other = context->shards[i];

		if (other != shard &&
		    __atomic_load_n(&other->resting, __ATOMIC_SEQ_CST) == SML_RESTING_BLOCKED)
			sml_shard_wake(other);
	}
}

/* ---- the thread's side ---- */

static bool has_queue(const struct sml_shard *shard)
{
	return __atomic_load_n(&shard->queue_first, __ATOMIC_RELAXED) != NULL;
}

static void retire(struct sml_shard *shard)
{
	struct sml_tensor *tensor;

	while ((tensor = sml_worker_retire(&shard->worker)) != NULL)
		sml_request_release(&shard->context->requests, tensor->owner);
}

/* False when there was nothing, or no room for it. */
static bool take_submitted(struct sml_shard *shard)
{
	struct sml_request *request;
	bool any = false;

	if (!has_queue(shard))
		return false;
	pthread_mutex_lock(&shard->queue_lock);
	while ((request = shard->queue_first) != NULL &&
	       sml_worker_submit(&shard->worker, &request->tensor)) {
		__atomic_store_n(&shard->queue_first, request->queued[shard->index],
				 __ATOMIC_RELAXED);
		any = true;
	}
	shard->hungry = request != NULL;
	pthread_mutex_unlock(&shard->queue_lock);
	return any;
}

#define PUBLISH(member, value) __atomic_store_n(&shard->counters.member, (value), __ATOMIC_RELAXED)

static void publish(struct sml_shard *shard)
{
	const struct sml_worker_counters *from = &shard->worker.counters;
	uint64_t min_ns = shard->worker.rtt.min_ns;

	PUBLISH(packets_sent, from->packets_sent);
	PUBLISH(packets_received, from->packets_received);
	PUBLISH(bytes_sent, from->bytes_sent);
	PUBLISH(bytes_received, from->bytes_received);
	PUBLISH(retransmits_timeout, from->retransmits_timeout);
	PUBLISH(retransmits_fast, from->retransmits_fast);
	PUBLISH(packets_ignored, from->ignored);
	PUBLISH(rtt_ns, shard->worker.rtt.smoothed_ns);
	PUBLISH(rtt_min_ns, min_ns == UINT64_MAX ? 0 : min_ns);
	PUBLISH(window, shard->worker.flight.window);
	PUBLISH(stalls, from->stalls);
	PUBLISH(send_blocked, shard->send_blocked);
}

/* A result that the worker took: of the head stream, others may have waited for it. */
static bool is_head(const struct sml_shard *shard, const struct sml_packet *packet)
{
	const struct sml_header *header = packet->bytes;

	return sml_be16(header->slot_be) < shard->worker.config.head_slots;
}

static bool receive(struct sml_shard *shard, uint64_t now_ns)
{
	struct sml_transport *transport = shard->transport;
	unsigned n = transport->ops->receive(transport, shard->in);
	bool heads = false;
	uint64_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct sml_packet *packet = &shard->in[i];
		enum sml_worker_verdict verdict =
			sml_worker_receive(&shard->worker, packet->bytes, packet->length, now_ns);

		heads |= verdict != SML_WORKER_IGNORED && is_head(shard, packet);
		done += verdict == SML_WORKER_TENSOR;
	}
	if (heads || done)
		tell_others(shard);
	if (done) {
		/* Whoever waits may look at the counters next. */
		PUBLISH(tensors, shard->counters.tensors + done);
		publish(shard);
		sml_context_tensor_done(shard->context);
	}
	return n > 0;
}

static bool is_full(const struct sml_batch *out)
{
	return out->first < out->n;
}

/* Fill a batch and send it. True when something went. */
static bool send_some(struct sml_shard *shard, uint64_t now_ns)
{
	struct sml_transport *transport = shard->transport;
	struct sml_batch *out = &shard->out;
	uint32_t most = SML_HEADER_BYTES + 4u * shard->worker.config.shape.lanes;
	unsigned taken;
	size_t length;

	if (!is_full(out)) {
		sml_batch_clear(out);
		while (sml_batch_has_room(out, most)) {
			length = sml_worker_send(&shard->worker, sml_batch_place(out), now_ns);
			if (length == 0)
				break;
			sml_batch_add(out, (uint32_t)length);
		}
		if (out->n == 0)
			return false;
	}
	taken = transport->ops->send(transport, out);
	if (is_full(out))
		shard->send_blocked++;
	return taken > 0;
}

/* One round. In before out, so that a batch of results becomes a batch of packets. */
static bool step(struct sml_shard *shard)
{
	bool busy;

	shard->events_seen = __atomic_load_n(&shard->context->events, __ATOMIC_ACQUIRE);
	busy = receive(shard, sml_now_ns());
	/* What seems late may only not have been read yet, where this thread had to wait. */
	if (!busy)
		sml_worker_expire(&shard->worker, sml_now_ns());
	retire(shard);
	busy |= take_submitted(shard);
	busy |= send_some(shard, sml_now_ns());
	publish(shard);
	return busy;
}

static bool is_to_park(const struct sml_shard *shard)
{
	return __atomic_load_n(&shard->context->park, __ATOMIC_SEQ_CST);
}

static bool is_stopping(const struct sml_shard *shard)
{
	return __atomic_load_n(&shard->context->stop, __ATOMIC_SEQ_CST);
}

/* Does this shard wait for what another one brings? */
static bool is_blocked(const struct sml_shard *shard)
{
	return shard->hungry || sml_worker_is_blocked(&shard->worker);
}

/* Has anything come since `resting` was set that its bringer may not have told? */
static bool must_look_again(struct sml_shard *shard, bool blocked)
{
	bool queued;

	if (is_stopping(shard) || is_to_park(shard))
		return true;
	if (blocked &&
	    __atomic_load_n(&shard->context->events, __ATOMIC_SEQ_CST) != shard->events_seen)
		return true;
	if (shard->hungry)
		return false;
	/* Under the lock: a tensor that is put there later finds us resting. */
	pthread_mutex_lock(&shard->queue_lock);
	queued = shard->queue_first != NULL;
	pthread_mutex_unlock(&shard->queue_lock);
	return queued;
}

static void rest(struct sml_shard *shard)
{
	bool blocked = is_blocked(shard);
	uint64_t deadline_ns = sml_worker_deadline(&shard->worker);
	struct pollfd ready[2] = {
		{.fd = shard->transport->poll_fd, .events = POLLIN},
		{.fd = shard->wake_fd, .events = POLLIN},
	};
	uint64_t now_ns = sml_now_ns(), ignored;
	struct timespec left;

	if (is_full(&shard->out))
		ready[0].events = POLLIN | POLLOUT;
	if (deadline_ns <= now_ns)
		return;
	left = sml_timespec(deadline_ns - now_ns);
	__atomic_store_n(&shard->resting, blocked ? SML_RESTING_BLOCKED : SML_RESTING,
			 __ATOMIC_SEQ_CST);
	if (!must_look_again(shard, blocked))
		(void)ppoll(ready, 2, deadline_ns == FOREVER ? NULL : &left, NULL);
	__atomic_store_n(&shard->resting, SML_AWAKE, __ATOMIC_SEQ_CST);
	/* A waker that has not written yet makes the next rest a short one. */
	if (ready[1].revents && read(shard->wake_fd, &ignored, sizeof(ignored)) < 0)
		sml_assert(errno == EAGAIN);
}

void *sml_shard_main(void *self)
{
	struct sml_shard *shard = self;
	bool spin = shard->context->settings.spin;

	while (!is_stopping(shard)) {
		if (is_to_park(shard)) {
			sml_worker_freeze(&shard->worker);
			publish(shard);
			sml_context_park(shard->context);
		} else if (!step(shard)) {
			/* Spinning is for machines with cores to spare: where not, no harm. */
			if (spin)
				sched_yield();
			else
				rest(shard);
		}
	}
	sml_worker_freeze(&shard->worker);
	publish(shard);
	sml_context_shard_stopped(shard->context);
	return NULL;
}

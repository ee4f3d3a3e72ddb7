/* SPDX-License-Identifier: BSD-3-Clause */
/* A progress thread at work: see progress.h. threads.c starts and ends it. */
#include "lib/progress/progress.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/progress/line.h"
#include "lib/progress/threads.h"
#include "lib/trace/trace.h"

#define FOREVER UINT64_MAX

/* ---- the other threads' side ---- */

static unsigned count_shards(const struct sml_progress *progress)
{
	unsigned n = 0;

	for (unsigned i = 0; i < progress->n_lines; i++)
		n += progress->lines[i]->n_shards;
	return n;
}

void sml_progress_submit(struct sml_progress *progress, struct sml_request *request, bool waits)
{
	__atomic_add_fetch(&progress->outstanding, count_shards(progress), __ATOMIC_SEQ_CST);
	request->queued[progress->index] = NULL;
	pthread_mutex_lock(&progress->queue_lock);
	if (progress->queue_first)
		progress->queue_last->queued[progress->index] = request;
	else
		__atomic_store_n(&progress->queue_first, request, __ATOMIC_RELAXED);
	progress->queue_last = request;
	pthread_mutex_unlock(&progress->queue_lock);
	if (progress->threads->callers_drive)
		sml_progress_notify(progress, waits);
	else if (__atomic_load_n(&progress->resting, __ATOMIC_SEQ_CST) != SML_AWAKE)
		sml_progress_wake(progress);
}

/* ---- the thread's side ---- */

/* The next of a thread's shards, line by line; NULL after the last. */
struct walk {
	unsigned line, shard;
};

static struct sml_shard *next_shard(const struct sml_progress *progress, struct walk *walk)
{
	while (walk->line < progress->n_lines) {
		struct sml_line *line = progress->lines[walk->line];

		if (walk->shard < line->n_shards)
			return line->shards[walk->shard++];
		walk->line++;
		walk->shard = 0;
	}
	return NULL;
}

static bool has_queue(const struct sml_progress *progress)
{
	return __atomic_load_n(&progress->queue_first, __ATOMIC_RELAXED) != NULL;
}

static void retire(struct sml_progress *progress, struct sml_shard *shard)
{
	struct sml_tensor *tensor;

	while ((tensor = sml_worker_retire(&shard->worker)) != NULL) {
		__atomic_sub_fetch(&progress->outstanding, 1, __ATOMIC_SEQ_CST);
		sml_request_release(progress->threads->requests, tensor->owner);
	}
}

static bool have_room(const struct sml_progress *progress)
{
	struct walk walk = {0};
	struct sml_shard *shard;

	while ((shard = next_shard(progress, &walk)) != NULL)
		if (!sml_worker_has_room(&shard->worker))
			return false;
	return true;
}

static void submit_to_all(struct sml_progress *progress, struct sml_request *request)
{
	struct walk walk = {0};
	struct sml_shard *shard;

	while ((shard = next_shard(progress, &walk)) != NULL)
		sml_assert(sml_worker_submit(&shard->worker, &request->tensor));
}

/*
 * False if there was no tensor, or no room for it. All workers get each tensor, so all wait while
 * one of them is not ours: the other stripes would soon wait for that one's exponents anyway.
 */
static bool take_submitted(struct sml_progress *progress)
{
	struct sml_request *request;
	bool any = false;

	if (progress->n_parked || !has_queue(progress))
		return false;
	pthread_mutex_lock(&progress->queue_lock);
	while ((request = progress->queue_first) != NULL && have_room(progress)) {
		submit_to_all(progress, request);
		__atomic_store_n(&progress->queue_first, request->queued[progress->index],
				 __ATOMIC_RELAXED);
		any = true;
	}
	progress->hungry = request != NULL;
	pthread_mutex_unlock(&progress->queue_lock);
	return any;
}

static bool is_to_park(const struct sml_shard *shard)
{
	return __atomic_load_n(shard->park, __ATOMIC_SEQ_CST);
}

/* A stripe's switch has died: the failover owns its worker until there is another switch. */
static void park_and_unpark(struct sml_progress *progress)
{
	const struct sml_threads_owner *owner = &progress->threads->owner;
	struct walk walk = {0};
	struct sml_shard *shard;

	while ((shard = next_shard(progress, &walk)) != NULL) {
		if (is_to_park(shard) == shard->parked)
			continue;
		if (!shard->parked) {
			sml_worker_freeze(&shard->worker);
			sml_shard_publish(shard);
		}
		if (owner->park(owner->self, shard))
			progress->n_parked += shard->parked ? 1u : -1u;
	}
}

static void publish(struct sml_line *line)
{
	for (unsigned i = 0; i < line->n_shards; i++)
		sml_shard_publish(line->shards[i]);
}

static void wake_waiters(struct sml_progress *progress, struct sml_line *line,
			 const struct sml_wakeups *wakeups)
{
	const struct sml_threads_owner *owner = &progress->threads->owner;

	if (wakeups->heads || wakeups->done)
		sml_threads_notify_others(progress->threads, progress);
	if (wakeups->done) {
		/* The waiter may read the counters next. */
		publish(line);
		owner->tensor_done(owner->self, wakeups->done);
	}
}

/* A line serves one shard, or several that are never parked. */
static bool is_parked(const struct sml_line *line)
{
	return line->shards[0]->parked;
}

static void expire(const struct sml_line *line, struct sml_shard *shard)
{
	struct sml_worker *worker = &shard->worker;
	uint64_t stalls = worker->counters.stalls, now_ns = sml_now_ns();

	sml_worker_expire(worker, now_ns);
	if (worker->counters.stalls == stalls) {
		sml_line_note_time(shard);
		return;
	}
	sml_line_note_timeout(shard);
	if (line->trace)
		sml_trace_stalled(line->trace, worker, now_ns);
}

static bool take_in(struct sml_progress *progress, struct sml_line *line)
{
	struct sml_wakeups wakeups = {0};
	bool busy = sml_line_receive(line, progress->in, sml_now_ns(), &wakeups);

	wake_waiters(progress, line, &wakeups);
	for (unsigned i = 0; i < line->n_shards; i++) {
		if (sml_line_may_expire(line, busy))
			expire(line, line->shards[i]);
		retire(progress, line->shards[i]);
	}
	return busy;
}

static bool send_out(struct sml_progress *progress, struct sml_line *line)
{
	struct sml_wakeups wakeups = {0};
	bool busy = sml_line_send(line, sml_now_ns(), &wakeups);

	wake_waiters(progress, line, &wakeups);
	publish(line);
	return busy;
}

/* One round. In before out, so that a batch of results becomes a batch of packets. */
bool sml_progress_step(struct sml_progress *progress)
{
	bool busy = false;

	progress->events_seen = __atomic_load_n(&progress->threads->events, __ATOMIC_ACQUIRE);
	park_and_unpark(progress);
	if (progress->threads->own)
		sml_question_answer(progress->threads, progress->index, &progress->question_seen);
	for (unsigned i = 0; i < progress->n_lines; i++)
		if (!is_parked(progress->lines[i]))
			busy |= take_in(progress, progress->lines[i]);
	busy |= take_submitted(progress);
	for (unsigned i = 0; i < progress->n_lines; i++)
		if (!is_parked(progress->lines[i]))
			busy |= send_out(progress, progress->lines[i]);
	return busy;
}

/* Is this thread waiting for something that another one brings? */
static bool is_blocked(const struct sml_progress *progress)
{
	struct walk walk = {0};
	struct sml_shard *shard;

	if (progress->hungry)
		return true;
	while ((shard = next_shard(progress, &walk)) != NULL)
		if (!shard->parked && sml_worker_is_blocked(&shard->worker))
			return true;
	return false;
}

static bool must_park_or_unpark(const struct sml_progress *progress)
{
	struct walk walk = {0};
	struct sml_shard *shard;

	while ((shard = next_shard(progress, &walk)) != NULL)
		if (is_to_park(shard) != shard->parked)
			return true;
	return false;
}

static bool has_question(const struct sml_progress *progress)
{
	const struct sml_embedded_stripe *own = progress->threads->own;

	return own &&
	       __atomic_load_n(&own->question.number, __ATOMIC_SEQ_CST) != progress->question_seen;
}

/* Has anything come since `resting` was set, of which no thread may have told us? */
static bool must_look_again(struct sml_progress *progress, bool blocked)
{
	bool queued;

	if (sml_threads_is_stopping(progress->threads) || must_park_or_unpark(progress) ||
	    has_question(progress))
		return true;
	if (blocked &&
	    __atomic_load_n(&progress->threads->events, __ATOMIC_SEQ_CST) != progress->events_seen)
		return true;
	if (progress->hungry || progress->n_parked)
		return false;
	/* Under the lock: a thread that adds a tensor later finds us resting. */
	pthread_mutex_lock(&progress->queue_lock);
	queued = progress->queue_first != NULL;
	pthread_mutex_unlock(&progress->queue_lock);
	return queued;
}

static uint64_t earliest_deadline(const struct sml_progress *progress)
{
	struct walk walk = {0};
	struct sml_shard *shard;
	uint64_t earliest_ns = FOREVER, deadline_ns;

	while ((shard = next_shard(progress, &walk)) != NULL) {
		/* A parked shard's worker belongs to another thread. */
		deadline_ns = shard->parked ? FOREVER : sml_worker_deadline(&shard->worker);
		earliest_ns = deadline_ns < earliest_ns ? deadline_ns : earliest_ns;
	}
	for (unsigned i = 0; i < progress->n_lines; i++) {
		/*
		 * Nothing sends the packets that a parked line holds back, so its deadline would
		 * only expire again and again.
		 */
		if (is_parked(progress->lines[i]))
			continue;
		deadline_ns = sml_line_deadline(progress->lines[i]);
		earliest_ns = deadline_ns < earliest_ns ? deadline_ns : earliest_ns;
	}
	return earliest_ns;
}

/*
 * The descriptors to wait for: the wake-up, that of a host's leader (-1 if there is none), then
 * every line that is ours. Returns their number.
 */
static nfds_t list_events(const struct sml_progress *progress, struct pollfd *ready)
{
	const struct sml_host *host = progress->threads->host;
	nfds_t n = 0;

	ready[n++] = (struct pollfd){.fd = progress->wake_fd, .events = POLLIN};
	ready[n++] = (struct pollfd){.fd = host ? host->leader_fd : -1, .events = POLLIN};
	for (unsigned i = 0; i < progress->n_lines; i++) {
		const struct sml_line *line = progress->lines[i];

		if (is_parked(line))
			continue;
		ready[n++] = (struct pollfd){
			.fd = line->transport->poll_fd,
			.events = (short)(sml_line_is_full(line) ? POLLIN | POLLOUT : POLLIN)};
	}
	return n;
}

/* If a waker has not written yet, it only shortens the next rest. */
static void clear(const struct pollfd *wake)
{
	uint64_t ignored;

	if (wake->revents && read(wake->fd, &ignored, sizeof(ignored)) < 0)
		sml_assert(errno == EAGAIN);
}

static void rest_in_poll(struct sml_progress *progress)
{
	struct pollfd ready[2 + 2 * SML_MAX_STRIPES];
	bool blocked = is_blocked(progress);
	uint64_t deadline_ns = earliest_deadline(progress);
	uint64_t now_ns = sml_now_ns();
	nfds_t n = list_events(progress, ready);
	struct timespec left;

	if (deadline_ns <= now_ns)
		return;
	left = sml_timespec(deadline_ns - now_ns);
	__atomic_store_n(&progress->resting, blocked ? SML_RESTING_BLOCKED : SML_RESTING,
			 __ATOMIC_SEQ_CST);
	if (!must_look_again(progress, blocked))
		(void)ppoll(ready, n, deadline_ns == FOREVER ? NULL : &left, NULL);
	__atomic_store_n(&progress->resting, SML_AWAKE, __ATOMIC_SEQ_CST);
	clear(&ready[0]);
	clear(&ready[1]);
}

static void rest_thread(struct sml_progress *progress)
{
	struct sml_host *host = progress->threads->host;

	if (host == NULL) {
		rest_in_poll(progress);
		return;
	}
	/* The leader of a host: as lib/host/sleep.c says. */
	(void)sml_host_get_ready(host);
	if (!sml_progress_step(progress))
		rest_in_poll(progress);
	sml_host_wake_up(host);
}

void *sml_progress_main(void *self)
{
	struct sml_progress *progress = self;
	bool spin = progress->threads->spin;
	struct walk walk = {0};
	struct sml_shard *shard;

	if (progress->threads->callers_drive)
		sml_progress_drive_alone(progress);
	while (!sml_threads_is_stopping(progress->threads)) {
		if (sml_progress_step(progress))
			continue;
		/* Spinning is for machines with spare cores; without them, it does no harm. */
		if (spin)
			sched_yield();
		else
			rest_thread(progress);
	}
	while ((shard = next_shard(progress, &walk)) != NULL) {
		if (shard->parked)
			continue;
		sml_worker_freeze(&shard->worker);
		sml_shard_publish(shard);
	}
	sml_threads_note_stopped(progress->threads);
	return NULL;
}
